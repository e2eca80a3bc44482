"""Newest wins: masks of the rows that newer ones supersede."""
