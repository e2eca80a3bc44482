"""The Flight SQL server, and the command line that starts it and talks to it."""

import memwal  # noqa: F401 - says what Lance logs, before Lance is imported
