"""Statements whose answers check each other, without a reference."""
