"""Whether a policy fits the tables that there are."""

from gateway.auth.policies.policy import Policy
from gateway.protocol.identity import Identity
from memwal.errors import LanceGatewayError
from planner.access.visible_catalog import check_table_access, check_view_access
from planner.tables.state.catalog import Catalog

# Whoever gets a policy for a sample.
_SAMPLE = "somebody"


def misfits(policy: Policy, catalog: Catalog) -> list[str]:
    """Returns one sentence for each role and table or view that do not fit; none where all do.

    Roles are looked at one by one. A combination of roles fits where each of them does, unless their masks
    for one column are of kinds that have nothing in common.
    """
    return [
        f"role {role!r}: {problem}"
        for role in policy.role_names
        for problem in _of_role(policy, role, catalog)
    ]


def _of_role(policy: Policy, role: str, catalog: Catalog) -> list[str]:
    access = policy.access(Identity(_SAMPLE, frozenset({role}), "none"))
    problems = []
    for name in catalog.table_names():
        granted = access.of(name)
        if granted is not None:
            try:
                check_table_access(catalog.table(name), granted)
            except LanceGatewayError as error:
                problems.append(" ".join(str(error).split()))
    for name in catalog.view_names():
        granted = access.of(name)
        if granted is not None:
            try:
                check_view_access(name, granted)
            except LanceGatewayError as error:
                problems.append(str(error))
    return problems
