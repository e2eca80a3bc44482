"""EXPLAIN and EXPLAIN ANALYZE: plans of DataFusion with the trees of exec nodes under their leaves.

`texts` inserts the trees into the plan that DataFusion prints, `objects` makes one tree of the nodes and
metrics of both, and `leaves` tells which scan a leaf of DataFusion's plan is.
"""
