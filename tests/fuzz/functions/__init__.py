"""Every function with edge arguments, each statement in a process that may die."""
