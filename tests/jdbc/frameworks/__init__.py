"""Frameworks of the JVM that speak to the gateway through the JDBC driver."""
