"""The text of a statement that writes, and what is read of it."""
