"""MERGE, and ON CONFLICT, which is a merge of the rows that are inserted."""
