"""Families of a server process and its clients."""
