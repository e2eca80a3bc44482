"""The files of a table on a local disk or on S3."""
