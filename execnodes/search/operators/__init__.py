"""Operators over candidates: find, order, limit, fuse, and take their rows."""
