"""Conditions on the rows of a search: which apply before ranking, and which after."""
