"""Directories on the disk of the gateway: where tables are made and moved, and temporary ones."""
