"""SET, SHOW, RESET, USE and DISCARD: the options of a session in SQL, and what clients say by habit."""
