"""`python -m pipeline`, and `spark-submit pipeline/__main__.py`: what `lance-gateway pipeline` does."""

import sys
from pathlib import Path

# As a script, modules of this package would be found ahead of others of their names.
_HERE = Path(__file__).resolve().parent
if sys.path and Path(sys.path[0] or ".").resolve() == _HERE:
    sys.path[0] = str(_HERE.parent)

if __name__ == "__main__":
    from pipeline.cli import app

    app(prog_name="pipeline")
