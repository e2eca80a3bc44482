"""Read one table reference: the leaf of a plan, and the tree of exec nodes below it."""
