"""Read SQL text: tokens, table references, parameters, limits, and the dialects of other systems."""
