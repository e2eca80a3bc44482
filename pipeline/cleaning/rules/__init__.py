"""The rules that find garbage, one per kind."""
