"""The transactions that are open in this server, by their ids and by the sessions of clients.

One that ended without its client (it was idle too long) is remembered for as long as a session would be, so
that a client which takes it for open is not served outside of it.

ADBC's driver begins another transaction as soon as one ends, and goes on using the statements that it
prepared in the one before. So those that one connection begins one after another are a chain: their ids begin
alike, and what was prepared in one of them is executed in the one that is open.
"""

import os
import struct
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass

from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.protocol.open_uploads import Peer, parse_peer
from lance_gateway.memwal.errors import NotFoundError, PreconditionError, ResourcesExhaustedError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.writes.transactions.transaction import Transaction

_LOOK_SECONDS = 10.0
# How long a client may take to come back when its connection has ended.
_GONE_SECONDS = 30.0
_CHAIN_BYTES = 16
_NUMBER = struct.Struct(">Q")


@dataclass(eq=False, slots=True)
class _Entry:
    """One transaction.

    Attributes:
        number: in its chain.
        user: whose it is.
        peer: address of the connection that began it.
        last_peer: address of the connection that used it last.
        session_id: of the session whose statements it takes; None where they name it.
        transaction: itself.
        used_at: time of the last use, on the clock.
    """

    number: int
    user: str
    peer: str
    last_peer: str
    session_id: str | None
    transaction: Transaction
    used_at: float


class OpenTransactions:
    """The transactions of a server; safe to share between threads.

    Args:
        engine: reads and writes.
        limits: how many there may be, how large, and how long they may be idle.
        is_busy: whether a statement of a transaction runs.
        list_connected: where the clients are whose connections are open; None where that can't be told.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        engine: QueryEngine,
        limits: LimitsSection,
        is_busy: Callable[[Transaction], bool] = lambda _: False,
        list_connected: Callable[[], Collection[Peer] | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._limits = limits
        self._is_busy = is_busy
        self._list_connected = list_connected
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[bytes, _Entry] = {}
        self._sessions: dict[str, bytes] = {}
        self._users: Counter[str] = Counter()
        self._peers: Counter[str] = Counter()
        self._last_ended: OrderedDict[tuple[str, str], tuple[bytes, int]] = OrderedDict()
        """User and peer -> the chain that nothing is open of, and its next number."""
        self._nbytes = 0
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    def __len__(self) -> int:
        """Return the number of transactions that have not ended."""
        with self._lock:
            return sum(not entry.transaction.is_over for entry in self._entries.values())

    def list_peers(self) -> set[Peer]:
        """Return where the clients are that used transactions last which have not ended."""
        with self._lock:
            peers = {parse_peer(entry.last_peer) for entry in self._entries.values()}
        return {peer for peer in peers if peer is not None}

    def begin(self, user: str, peer: str, session_id: str | None = None) -> tuple[bytes, Transaction]:
        """Begin a transaction; return its id as well.

        Args:
            user: whose it is.
            peer: address of the connection that begins it.
            session_id: of the session whose statements it takes; None where they name it.

        Raises:
            ResourcesExhaustedError: too many are open.
            PreconditionError: the session has one already.
        """
        transaction = Transaction(self._engine, self._limits.max_transaction_bytes, self._reserve)
        with self._lock:
            if session_id is not None and session_id in self._sessions:
                raise PreconditionError(
                    "a transaction is open in this session: COMMIT or ROLLBACK it before BEGIN"
                )
            self._make_room(user)
            chain, number = self._last_ended.pop((user, peer), (os.urandom(_CHAIN_BYTES), 0))
            if self._peers[peer]:
                # Several clients come through one connection, as those of a proxy do.
                chain, number = os.urandom(_CHAIN_BYTES), 0
            self._entries[chain] = _Entry(number, user, peer, peer, session_id, transaction, self._clock())
            self._users[user] += 1
            self._peers[peer] += 1
            if session_id is not None:
                self._sessions[session_id] = chain
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="transactions", daemon=True)
                self._watcher.start()
        return chain + _NUMBER.pack(number), transaction

    def find(
        self, transaction_id: bytes, user: str, peer: str, *, follows: bool = False
    ) -> tuple[bytes, Transaction]:
        """Return the id of a user's transaction and itself; it may have ended without its client.

        Args:
            transaction_id: its id.
            user: who asks.
            peer: address of the connection that asks.
            follows: whether one that came later in its chain is meant, too.

        Raises:
            NotFoundError: the user has none of that id.
        """
        with self._lock:
            entry = self._entries.get(transaction_id[:_CHAIN_BYTES])
            if (
                entry is None
                or entry.user != user
                or (_NUMBER.pack(entry.number) != transaction_id[_CHAIN_BYTES:] and not follows)
            ):
                raise NotFoundError(
                    f"transaction {transaction_id.hex()!r} is not known: it was committed or rolled back, "
                    "was idle too long, or the gateway restarted, which wrote nothing of it; begin another "
                    "one, and prepare its statements there"
                )
            entry.used_at, entry.last_peer = self._clock(), peer
            return transaction_id[:_CHAIN_BYTES] + _NUMBER.pack(entry.number), entry.transaction

    def find_of_session(self, session_id: str | None, user: str, peer: str) -> Transaction | None:
        """Return the transaction of a user's session, which may have ended without its client.

        Args:
            session_id: the session; None for none.
            user: who asks.
            peer: address of the connection that asks.
        """
        if session_id is None or session_id not in self._sessions:
            return None
        with self._lock:
            entry = self._entries.get(self._sessions.get(session_id, b""))
            if entry is None or entry.user != user:
                return None
            entry.used_at, entry.last_peer = self._clock(), peer
            return entry.transaction

    def forget(self, transaction_id: bytes, peer: str) -> None:
        """Forget a transaction, which its client ends.

        Args:
            transaction_id: its id.
            peer: address of the connection that ends it; what it begins next continues the chain.
        """
        chain = transaction_id[:_CHAIN_BYTES]
        with self._lock:
            entry = self._drop(chain)
            if entry is None:
                return
            self._last_ended[entry.user, peer] = chain, entry.number + 1
            while len(self._last_ended) > self._limits.max_transactions:
                self._last_ended.popitem(last=False)

    def forget_of_session(self, session_id: str) -> None:
        """Forget the transaction of a session, which its client ends."""
        with self._lock:
            self._drop(self._sessions.get(session_id, b""))

    def end_session(self, session_id: str) -> None:
        """Roll back the transaction of a session that was closed."""
        with self._lock:
            entry = self._drop(self._sessions.get(session_id, b""))
        if entry is not None:
            entry.transaction.roll_back("its session was closed")

    def close(self) -> None:
        """Stop looking after transactions."""
        self._closed.set()

    def end_idle(self) -> None:
        """Roll back transactions that were idle too long, and forget those that nobody asks for."""
        now, limits = self._clock(), self._limits
        shortest = min(_GONE_SECONDS, limits.transaction_idle)
        with self._lock:
            ages = [(chain, one, now - one.used_at) for chain, one in self._entries.items()]
        idle = [(chain, one, seconds) for chain, one, seconds in ages if seconds > shortest]
        connected = self._list_connected() if idle else None
        for chain, entry, seconds in idle:
            transaction = entry.transaction
            if self._is_busy(transaction):
                entry.used_at = now
            elif seconds > limits.session_idle:
                with self._lock:
                    self._drop(chain)
                transaction.roll_back()
            elif transaction.is_fresh or transaction.is_over:
                continue  # It holds nothing.
            elif seconds > limits.transaction_idle:
                transaction.roll_back(
                    f"it was idle for more than {limits.transaction_idle:g} s, and nothing of it was written"
                )
            elif connected is not None and parse_peer(entry.last_peer) not in connected:
                transaction.roll_back("its client's connection ended, and nothing of it was written")

    def _make_room(self, user: str) -> None:
        """Check that one more may be open. The caller holds the lock."""
        limits = self._limits
        own = self._users[user]
        if len(self._entries) < limits.max_transactions and own < limits.max_user_transactions:
            return
        # Pools of connections begin transactions long before they use them, or never do.
        for chain, entry in list(self._entries.items()):
            is_spare = entry.transaction.is_over or entry.transaction.is_fresh
            if is_spare and (own < limits.max_user_transactions or entry.user == user):
                self._drop(chain)
                return
        raise ResourcesExhaustedError(
            f"{len(self._entries)} transactions are open, {own} of them of user {user!r}, which is as many "
            "as may: commit or roll back others, or ask the operator to raise max_transactions and "
            "max_user_transactions"
        )

    def _drop(self, chain: bytes) -> _Entry | None:
        entry = self._entries.pop(chain, None)
        if entry is None:
            return None
        if entry.session_id is not None:
            self._sessions.pop(entry.session_id, None)
        for counts, name in ((self._users, entry.user), (self._peers, entry.peer)):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
        return entry

    def _reserve(self, nbytes: int) -> None:
        most = self._limits.max_open_transaction_bytes
        with self._lock:
            if nbytes > 0 and self._nbytes + nbytes > most:
                raise ResourcesExhaustedError(
                    f"all open transactions together would keep {self._nbytes + nbytes} bytes of rows, and "
                    f"{most} are allowed: try again when others have committed, or ask the operator to "
                    "raise max_open_transaction_bytes"
                )
            self._nbytes += nbytes

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK_SECONDS):
            self.end_idle()
