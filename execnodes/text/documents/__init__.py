"""The documents of one source, in memory or in a Lance index."""
