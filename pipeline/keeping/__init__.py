"""A root kept healthy by one process: every table is merged, indexed and cleaned when it is due."""

from pipeline.keeping.keeper import Keeper, Round
from pipeline.keeping.policy import Policies, RunPolicy

__all__ = ["Keeper", "Policies", "Round", "RunPolicy"]
