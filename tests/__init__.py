"""The tests: they read like specifications and run against tables that Lance itself wrote."""
