"""Keys, filters and masks that select rows."""
