"""The newest state of a table, and its states in the past."""
