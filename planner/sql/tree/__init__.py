"""The tree of a statement: DataFusion's dialect, the types of expressions, and what is asked of them."""
