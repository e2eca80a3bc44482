"""Policies: what roles may see and do."""
