"""Columns as Lance stores them: by field id, with blobs, JSON, nested fields and their NULLs."""
