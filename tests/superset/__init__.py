"""The package for Superset, in an environment of its own, against a gateway."""
