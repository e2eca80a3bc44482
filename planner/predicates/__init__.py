"""Predicates that DataFusion pushes into a scan, and the regions that they exclude."""
