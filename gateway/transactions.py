"""Transactions and savepoints: there are none, and whoever asks is told so.

Each statement reads one state of its tables, and what it writes is there when it is answered. Pretending
would promise that several statements see the same state, or that what they wrote can be taken back.
"""

from google.protobuf.message import Message

from gateway.commands import Action, Call
from gateway.wire import unpack
from memwal.errors import UnsupportedError
from protos import flight_sql_pb2 as sql

_ACTIONS: tuple[tuple[str, type[Message], str], ...] = (
    ("BeginTransaction", sql.ActionBeginTransactionRequest, "transaction"),
    ("EndTransaction", sql.ActionEndTransactionRequest, "transaction"),
    ("BeginSavepoint", sql.ActionBeginSavepointRequest, "savepoint"),
    ("EndSavepoint", sql.ActionEndSavepointRequest, "savepoint"),
)


class Transactions:
    """The four actions about transactions, refused."""

    def actions(self) -> tuple[Action, ...]:
        """Returns the actions of this family."""
        return tuple(_refusal(name, message, what) for name, message, what in _ACTIONS)


def refuse_transaction(request: Message) -> None:
    """Lets a request pass that belongs to no transaction.

    Raises:
        UnsupportedError: the request names a transaction.
    """
    if request.HasField("transaction_id"):
        raise UnsupportedError(
            f"{request.DESCRIPTOR.name} names a transaction, and the gateway has none: each statement stands "
            "alone; connect with autocommit, and send no transaction_id"
        )


def _refusal(name: str, message: type[Message], what: str) -> Action:
    def run(body: bytes, _call: Call) -> bytes | None:
        unpack(message, body, f"the body of {name}")
        raise UnsupportedError(
            f"{name}: the gateway has no {what}s: each statement stands alone, and what it writes stays; "
            "connect with autocommit"
        )

    return Action(name, f"Refused: there are no {what}s.", run)
