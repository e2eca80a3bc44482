"""Operators that scan a source, and the newest version of each key."""
