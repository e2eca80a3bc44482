"""Families of writes and of what follows them."""
