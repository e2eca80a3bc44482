"""Scores of documents: statistics of all sources, and candidates of each."""
