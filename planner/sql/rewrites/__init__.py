"""Rewrite or refuse what DataFusion does not read, or reads differently."""
