"""A process that has everything imported and nothing begun: its children are gateways that start at once.

Run as ``python -m tests.crash.zygote_main``. Each line on stdin is one command: ``start`` forks a child that
writes as told and logs what it sends and what it is told, and answers its process id; ``wait`` waits for a
child that was killed.
"""

import json
import os
import random
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

from lance_gateway.memwal.writing import WriteOptions
from tests.crash.load import Statement, Worker
from tests.support.processes.gateways import EngineGateway


def write(root: str, log: str, clients: list[int], seed: int, number: int, options: dict[str, Any]) -> None:
    """Write for ever, or until something fails; every line of the log is written at once."""
    file = os.open(log, os.O_WRONLY)

    def tell(client: int, one: Statement) -> None:
        line = [client, one.kind, one.number, one.outcome]
        os.write(file, (json.dumps(line) + "\n").encode())

    gateway = EngineGateway(Path(root), WriteOptions(**options))
    workers = [
        Worker(client, gateway, random.Random(seed * 100 + client), tell, number) for client in clients
    ]

    def run(worker: Worker) -> None:
        try:
            while True:
                worker.step()
        except Exception as error:  # noqa: BLE001 - the parent judges
            os.write(file, (json.dumps([worker.client, "failed", 0, repr(error)]) + "\n").encode())

    threads = [threading.Thread(target=run, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    threading.Event().wait()  # until it is killed


def main() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "wait":
            answer = os.waitpid(command["pid"], 0)[1]
        else:
            with warnings.catch_warnings():
                # Lance says that it can't be forked: none of it has begun here.
                warnings.simplefilter("ignore")
                answer = os.fork()
            if answer == 0:
                os.close(0)
                del command["do"]
                write(**command)
                return
        print(answer, flush=True)  # noqa: T201 - stdout is the protocol


if __name__ == "__main__":
    main()
