"""The configuration: one schema from a TOML file, the environment and flags.

- `values`: durations, sizes, ports and lists as people write them
- `schema`: the keys, section by section, with their defaults
- `loading`: the layers, which one a value came from, and what is wrong with them
- `reference`: the keys as documentation
- `showing`: the values in effect
- `checking`: whether what the values lead to exists and fits
"""

from gateway.config.loader import Flag, Loaded, load
from gateway.config.schema import GatewayConfig

__all__ = ["Flag", "GatewayConfig", "Loaded", "load"]
