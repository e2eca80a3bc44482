"""Names for versions of a table, tags and branches; and clones, which are made of one."""
