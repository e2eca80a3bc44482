"""The writer of one region: claim, request queue, and log."""
