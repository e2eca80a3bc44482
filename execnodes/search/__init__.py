"""Searching fresh data: operators over candidates, which are rows by their place and how well they match."""
