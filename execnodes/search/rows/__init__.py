"""Rows of a source by their addresses: which are live, and their columns."""
