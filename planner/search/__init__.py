"""Search functions of the SQL surface, from their call to a tree of exec nodes."""
