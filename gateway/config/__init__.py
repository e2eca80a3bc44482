"""The configuration: one schema from a TOML file, the environment and flags."""

from lance_gateway.gateway.config.loader import Flag, Loaded, load
from lance_gateway.gateway.config.schema import GatewayConfig

__all__ = ["Flag", "GatewayConfig", "Loaded", "load"]
