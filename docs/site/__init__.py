"""What makes the documentation into a site."""
