"""The environment in which dbt runs: its protobuf is older than that of the gateway.

`python -m tests.dbt.environment` (part of `make soak`) makes it from the package index.
"""

import sys

from tests.support.processes.environments import ROOT, Environment

DBT = Environment("dbt", ROOT / "integrations/dbt-lance-gateway", ROOT / ".dbt-environment")

if __name__ == "__main__":
    sys.exit(DBT.main())
