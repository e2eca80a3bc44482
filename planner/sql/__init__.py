"""Read SQL text: tokens, edits, table references, parameters, limits, and the dialects of other systems."""
