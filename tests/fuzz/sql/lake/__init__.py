"""What is asked about: random tables with random histories, and those who may see parts of them."""
