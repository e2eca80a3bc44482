"""Translate statements of other dialects into DataFusion's SQL."""
