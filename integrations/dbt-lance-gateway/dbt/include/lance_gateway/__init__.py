"""The macros of the adapter."""

from pathlib import Path
from typing import Final

PACKAGE_PATH: Final = str(Path(__file__).parent)
