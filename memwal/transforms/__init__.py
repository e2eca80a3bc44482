"""Region transforms: compute the region values of a row from its columns."""
