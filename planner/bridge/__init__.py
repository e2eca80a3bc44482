"""DataFusion's types, expressions and plans, read and made."""
