"""Statements about what changed between two states of a table, and about what changes."""
