"""Tests of the format: manifests, index details, WAL entries, bloom filters, region transforms."""
