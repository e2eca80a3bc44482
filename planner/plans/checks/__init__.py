"""Refuse plans that DataFusion gets wrong, found in its optimized plans."""
