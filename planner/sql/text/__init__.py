"""The text of a statement: its tokens, the names in it, and edits of it."""
