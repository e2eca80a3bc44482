"""Statements that change what a table is: CREATE, ALTER, DROP, indexes, and its upkeep."""
