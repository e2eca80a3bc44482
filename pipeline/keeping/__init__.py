"""A root kept healthy by one process: every table is merged, indexed, remembered and cleaned when it is due.

- `policy`: how, and when each job has something to do.
- `steps`: what is done to a table, in order; `tables`: what is known of one between two looks at it.
- `keeper`: one look at all tables; those that fail are left alone for a while.
- `running`: looks until a signal comes; `streaming`: the same, as a query of Spark.
- `metrics`: what was done, for Prometheus; `http`: served; `logs`: lines on stderr.
"""

from pipeline.keeping.keeper import Keeper, Round
from pipeline.keeping.policy import Policies, RunPolicy

__all__ = ["Keeper", "Policies", "Round", "RunPolicy"]
