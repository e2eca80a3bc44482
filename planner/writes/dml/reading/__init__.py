"""What a statement reads before it writes."""
