"""Plan a search as a tree of exec nodes: for vectors, for texts, and both fused."""
