"""A root kept healthy by one process: every table is merged, indexed and cleaned when it is due."""

from lance_gateway.pipeline.keeping.keeper import Keeper, Round
from lance_gateway.pipeline.keeping.policy import Policies, RunPolicy

__all__ = ["Keeper", "Policies", "Round", "RunPolicy"]
