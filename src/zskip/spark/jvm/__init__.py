"""The way into the JVM: py4j, Java of zskip's own, Hadoop file systems, sessions, and where versions differ."""
