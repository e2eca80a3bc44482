"""Which rows an operator reads: keys, filters and masks."""
