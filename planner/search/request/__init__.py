"""What a search asks for: its arguments, checked."""
