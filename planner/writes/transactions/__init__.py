"""Transactions of several statements: what they read, what they write, and COMMIT."""
