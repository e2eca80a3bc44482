"""What is asked: types, trees of statements, and their random generation."""
