"""Regions: manifests, ids, log entries, and snapshots of all of them."""
