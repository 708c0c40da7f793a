"""The way into the JVM: py4j, method handles, Hadoop file systems, sessions, and where versions differ."""
