"""The configuration: one schema from a TOML file, the environment and flags."""

from gateway.config.loader import Flag, Loaded, load
from gateway.config.schema import GatewayConfig

__all__ = ["Flag", "GatewayConfig", "Loaded", "load"]
