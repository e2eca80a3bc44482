"""Give every table reference of a statement a private name, and expand views."""
