"""Write one region: claim it, queue requests, append to its log."""
