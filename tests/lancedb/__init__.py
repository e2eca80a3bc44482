"""LanceDB and the gateway write one table."""
