"""Types of parameters, of results as clients read them, and how large values get."""
