"""Files of a table on a local disk or on S3, and where they lie."""
