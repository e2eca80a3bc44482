"""`lance-gateway pipeline` for `python -m lance_gateway.pipeline` and `spark-submit pipeline/__main__.py`."""

import sys
from pathlib import Path

# As a script, modules of this package would be found ahead of others of their names.
if sys.path and Path(sys.path[0] or ".").resolve() == Path(__file__).resolve().parent:
    del sys.path[0]

if __name__ == "__main__":
    from lance_gateway.pipeline.cli import app

    app(prog_name="pipeline")
