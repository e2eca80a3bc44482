"""Processes that families measure against, and the clients that load them."""
