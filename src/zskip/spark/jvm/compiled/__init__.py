"""Java of zskip's own, which the session's Janino compiles, for work on many objects of the JVM."""
