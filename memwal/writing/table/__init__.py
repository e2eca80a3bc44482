"""A table as its writers know it: columns, key, regions, and the region of each row."""
