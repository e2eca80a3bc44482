"""The environment in which Superset runs: its SQLAlchemy and pyarrow are older than those of the gateway.

`python -m tests.superset.environment` (part of `make test`) makes it from the package index.
"""

import sys

from tests.support.processes.environments import ROOT, Environment

SUPERSET = Environment(
    "Superset",
    ROOT / "integrations/superset-lance-gateway",
    ROOT / ".superset-environment",
    # Superset 6.1 does not start with a newer one, and imports cachetools without asking for it.
    pinned=("flask-caching<2.4", "cachetools"),
)

if __name__ == "__main__":
    sys.exit(SUPERSET.main())
