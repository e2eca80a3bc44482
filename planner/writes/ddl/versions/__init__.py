"""Names for versions of a table: tags and branches."""
