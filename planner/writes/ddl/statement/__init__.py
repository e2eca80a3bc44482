"""Read a statement that defines something: words, types, options and rights."""
