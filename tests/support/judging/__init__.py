"""What answers are compared with."""
