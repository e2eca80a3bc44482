"""Processes that tests start, and what ends them."""
