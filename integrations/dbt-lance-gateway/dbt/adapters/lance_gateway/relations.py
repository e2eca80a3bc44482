"""Tables and views as dbt names them."""

from dataclasses import dataclass, field

from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.relation import RelationType


@dataclass(frozen=True, eq=False, repr=False)
class LanceGatewayRelation(BaseRelation):
    """A table or view `"lance"."schema"."name"`."""

    renameable_relations: frozenset[RelationType] = field(
        default_factory=lambda: frozenset({RelationType.Table, RelationType.View})
    )
    replaceable_relations: frozenset[RelationType] = field(
        default_factory=lambda: frozenset({RelationType.Table, RelationType.View})
    )
