"""Command families that describe the server and its tables."""
