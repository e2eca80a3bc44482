"""The tables of the configuration: keys with their defaults, and sentences of the reference."""
