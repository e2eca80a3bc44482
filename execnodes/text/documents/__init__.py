"""Documents of one source: their terms, in memory or in an index of Lance."""
