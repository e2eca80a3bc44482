"""Shared by all jobs: the tables under a root, their state, runners, and progress."""
