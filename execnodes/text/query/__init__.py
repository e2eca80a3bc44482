"""Text queries: their syntax, their terms, and the tokenizer."""
