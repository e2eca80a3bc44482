"""A table as its writers use it: columns, key, regions, and the region of each row."""
