"""Indexes of base tables: built, kept up to date with merges, and looked at; and files put together.

A look at a table

- `indexes`: what each index covers, and how far it is behind merges.
- `policy`: what a table may lack before something is done; `planning`: what it needs by a policy.
- `training`: how far vector indexes are from the rows that they were trained on.

Upkeep

- `job`: all of it, in order; `optimising`: rows into indexes; `compacting`: small fragments put together.
- `catching_up`: until indexes have what the table had; `verifying`: what they lack.

New indexes

- `spec`: what is to be built; `types`: types of indexes, the columns and the parameters that they take.
- `building`: built in segments where there is much; `models`: what segments of a vector index share.

`committing`: what is done again when another commit came first.
"""

from pipeline.indexing.building import BuildReport, build
from pipeline.indexing.job import IndexReport, maintain
from pipeline.indexing.planning import needs
from pipeline.indexing.policy import IndexPolicy
from pipeline.indexing.spec import IndexSpec

__all__ = ["BuildReport", "IndexPolicy", "IndexReport", "IndexSpec", "build", "maintain", "needs"]
