"""Find the nearest vectors of one source, by its index or by all distances."""
