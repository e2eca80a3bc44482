"""Loaded by the process that workers are forked from, so that a worker starts at once.

Lance warns of forks, since its threads do not survive them. This process only loads the libraries and never
calls them, so there are none.
"""

import gc
import warnings

from lance_gateway.gateway.execution.workers.serving import run_worker

__all__ = ["run_worker"]

warnings.filterwarnings("ignore", message="lance is not fork-safe")
# A collection of garbage looks at all objects, and these stay: 0.2 ms of each new statement, and pages that
# processes would otherwise share.
gc.freeze()
