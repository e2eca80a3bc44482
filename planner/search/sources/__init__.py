"""The sources of a search: indexes, generations and log tails, and which rows each answers for."""
