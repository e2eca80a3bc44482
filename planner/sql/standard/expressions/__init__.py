"""Functions, casts and conditions that DataFusion knows by another name, or lacks."""
