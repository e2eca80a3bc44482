"""The adapter of dbt: the command `dbt`, in an environment of its own, against a gateway."""
