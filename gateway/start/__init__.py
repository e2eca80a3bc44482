"""Start a server from its configuration."""
