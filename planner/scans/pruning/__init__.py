"""Regions that no row of which satisfies the conditions that stand above a scan in the plan."""
