"""Random histories of tables under MemWAL, checked against a plain replay of every acknowledged write."""
