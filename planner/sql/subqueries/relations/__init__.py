"""Relations that read the relations before them: LATERAL, and lists of their rows."""
