"""Reads the rows that a statement needs before it writes."""
