"""The processes of a gateway: how many there are, and how they share the memory."""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lance_gateway.gateway.config.schema import GatewayConfig
from lance_gateway.gateway.execution.workers.messages import WorkerOptions
from lance_gateway.gateway.execution.workers.pool import MAX_DEFAULT_WORKERS
from lance_gateway.gateway.observability import statements
from lance_gateway.gateway.start.opening import read_storage_limits
from lance_gateway.planner.bridge.machine import count_cores, read_memory_bytes
from lance_gateway.planner.tables.shared.directory import find_default_directory, measure_room

_CACHE_SHARE = 4
"""The cache takes one part in so many of the memory, unless the configuration says otherwise."""
_LEAST_ROOM_SHARE = 4
"""A directory that nobody has named must have room for one part in so many of what would be shared."""
_LEAST_OWN_SHARE = 8
"""One part in so many of the cache is for what processes don't share, whatever the configuration says."""


@dataclass(frozen=True, slots=True)
class SharedDirectory:
    """Where the processes of a gateway keep what they share.

    Attributes:
        directory: None where each process keeps its own.
        nbytes: budget.
        is_named: whether the operator has named it.
    """

    directory: Path | None
    nbytes: int
    is_named: bool

    @staticmethod
    def choose(config: GatewayConfig, memory_bytes: int | None = None) -> "SharedDirectory":
        """Return what the operator chose, or a directory in memory.

        Args:
            config: what the operator chose.
            memory_bytes: what all processes may use; None for what this machine or container has.
        """
        name, limit = config.cache.directory, choose_cache_bytes(config, memory_bytes)
        nbytes = min(config.cache.shared_bytes or limit // 2, limit - limit // _LEAST_OWN_SHARE)
        if name == "none":
            return SharedDirectory(None, 0, is_named=False)
        if name != "auto":
            directory = Path(name).absolute()
            return SharedDirectory(directory, min(nbytes, measure_room(directory)), is_named=True)
        found = find_default_directory()
        room = 0 if found is None else min(nbytes, measure_room(found))
        # Containers may have very little of such memory: then each process had better keep its own.
        if room < nbytes // _LEAST_ROOM_SHARE:
            return SharedDirectory(None, 0, is_named=False)
        return SharedDirectory(found, room, is_named=False)


@dataclass(frozen=True, slots=True)
class Processes:
    """How the processes of a gateway share the memory.

    Attributes:
        workers: number of worker processes.
        worker: what each of them gets; None where there are none.
        cache_bytes: of the cache of the server's own process.
        query_memory_bytes: of one statement before it spills to disk.
        shared: what all of them share.
    """

    workers: int
    worker: WorkerOptions | None
    cache_bytes: int
    query_memory_bytes: int
    shared: SharedDirectory


def choose_cache_bytes(config: GatewayConfig, memory_bytes: int | None = None) -> int:
    """Return the budget of the cache, of all processes together.

    Args:
        config: what the operator chose.
        memory_bytes: what all processes may use; None for what this machine or container has.
    """
    memory = read_memory_bytes() if memory_bytes is None else memory_bytes
    return config.limits.cache_bytes or max(memory // _CACHE_SHARE, 1)


def plan_processes(config: GatewayConfig, memory_bytes: int | None = None) -> Processes:
    """Divide the memory among the processes of a gateway.

    Args:
        config: what the operator chose.
        memory_bytes: what all of them may use; None for what this machine or container has.
    """
    limits, server, watching = config.limits, config.server, config.observability
    memory = read_memory_bytes() if memory_bytes is None else memory_bytes
    # Workers need anonymous files in memory, which only Linux has.
    usual = min(count_cores(), MAX_DEFAULT_WORKERS) if sys.platform == "linux" else 0
    workers = usual if server.workers == "auto" else server.workers
    shared = SharedDirectory.choose(config, memory)
    # What is shared counts once.
    cache_bytes = max((choose_cache_bytes(config, memory) - shared.nbytes) // (workers + 1), 1)
    if not workers:
        # What a statement does not find in half of the memory, it should not look for.
        return Processes(0, None, cache_bytes, limits.query_memory_bytes or memory // 2, shared)
    # Files that are shared are not in the memory that workers are judged by.
    divided = max(memory * 3 // 4 - shared.nbytes, memory // 4)
    worker_bytes = limits.worker_memory_bytes or divided // workers
    query_bytes = limits.query_memory_bytes or worker_bytes // 2
    options = WorkerOptions(
        root=config.root,
        storage_options=config.storage_options,
        storage_limits=read_storage_limits(config),
        cache_bytes=cache_bytes,
        partitions=server.partitions or None,
        query_memory_bytes=query_bytes,
        memory_bytes=worker_bytes,
        max_batch_bytes=limits.max_batch_bytes,
        writes=config.writes.enabled,
        configure_logging=partial(statements.configure, watching.log_format, watching.log_level),
        shared_directory=shared.directory,
        shared_bytes=shared.nbytes,
        opens_ahead=config.cache.open_ahead,
    )
    return Processes(workers, options, cache_bytes, query_bytes, shared)
