"""Command families that run statements: direct, prepared, as Substrait plans, and ingestion."""
