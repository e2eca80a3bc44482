"""The sources of a snapshot: base table, flushed generations and log tails."""
