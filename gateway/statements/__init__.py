"""Command families that run statements: direct, prepared, and ingestion."""
