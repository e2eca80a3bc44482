"""Datasets, their files and their columns in storage."""
