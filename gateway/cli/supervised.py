"""Runs `lance-gateway ..` so that it ends when whoever started it does.

Whoever starts it holds its standard input open. That is closed with the process, however it ends, so no
command goes on unseen when the gateway was killed. It runs with a lower priority than statements.
"""

import os
import signal
import threading

from lance_gateway.gateway.cli import main

_NICENESS = 5
# What was begun may be ended in order, which removes the record of a job.
_GRACE_SECONDS = 5.0


def _end_with_starter() -> None:
    # Not by sys.stdin, whose lock an interpreter that ends would wait for.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(_GRACE_SECONDS)
    os._exit(128 + signal.SIGINT)


if __name__ == "__main__":
    os.nice(_NICENESS)
    threading.Thread(target=_end_with_starter, name="starter", daemon=True).start()
    main()
