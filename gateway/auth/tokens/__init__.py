"""Bearer tokens: those of identity providers, and those that the gateway makes."""
