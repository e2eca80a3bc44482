"""Operators that look keys up, newest source first."""
