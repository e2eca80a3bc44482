"""Regions: manifests, ids, log entries, and snapshots."""
