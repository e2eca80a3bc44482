"""Transactions on the wire: the actions of Flight SQL, and the statements BEGIN, COMMIT and ROLLBACK.

A transaction of BeginTransaction has an id, which statements name; handles and tickets that are made in it
name it, too. A transaction of the statement BEGIN is the session's: it takes all statements of the session
that name no other, so the client must send the session's cookie back.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

import pyarrow as pa
from google.protobuf.message import Message

from lance_gateway.gateway.execution.updates import Updates
from lance_gateway.gateway.protocol.commands import Action, Call, Handler
from lance_gateway.gateway.protocol.origins import find_origin
from lance_gateway.gateway.statements.open_transactions import OpenTransactions
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, PreconditionError, UnsupportedError
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedWrite, WriteResult, first_word
from lance_gateway.planner.writes.transactions.transaction import Transaction
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos.flight_sql import pack

_FIRST_WORDS = frozenset(
    {"begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "set"}
)
_COMMENT = re.compile(r"--[^\n]*(?:\n|$)|/\*.*?\*/", re.DOTALL)
_NOISE = r"(?: (?:WORK|TRANSACTION|TRAN))?"
_BEGIN = re.compile(rf"(?:BEGIN{_NOISE}|START TRANSACTION)(?P<modes>(?: .*)?)")
_END = re.compile(rf"(?P<word>COMMIT|END|ROLLBACK|ABORT){_NOISE}(?: AND NO CHAIN)?")
_SET = re.compile(r"SET TRANSACTION(?P<modes> .*)")
_SAVEPOINT = re.compile(rf"(?:SAVEPOINT|RELEASE|ROLLBACK{_NOISE} TO)(?: .*)?")
# Those that are weaker than what is offered are had as well.
_LEVELS = r"REPEATABLE READ|READ COMMITTED|READ UNCOMMITTED|SNAPSHOT"
_MODE = re.compile(rf"(?:ISOLATION LEVEL (?P<level>{_LEVELS}|SERIALIZABLE)|READ (?P<access>ONLY|WRITE))")
_MODES = "READ ONLY, READ WRITE or ISOLATION LEVEL REPEATABLE READ"
_FORMS = MappingProxyType(
    {
        "begin": f"BEGIN or START TRANSACTION, and behind it {_MODES}",
        "start": f"START TRANSACTION, and behind it {_MODES}",
        "set": f"SET TRANSACTION {_MODES}",
    }
)
NO_SAVEPOINTS = "the gateway has no savepoints: roll the whole transaction back, or make several of it"


class Verb(Enum):
    """What a statement does with the transaction."""

    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ROLL_BACK = "ROLLBACK"
    SET = "SET TRANSACTION"


@dataclass(frozen=True, slots=True)
class TransactionText:
    """A parsed statement.

    Attributes:
        verb: what it does.
        is_read_only: whether the transaction may only read; None if it does not say.
    """

    verb: Verb
    is_read_only: bool | None = None


def parse_transaction_text(sql: str) -> TransactionText | None:
    """Return what a statement does with the transaction; None for all other statements.

    >>> parse_transaction_text("start transaction read only;")
    TransactionText(verb=<Verb.BEGIN: 'BEGIN'>, is_read_only=True)

    Raises:
        InvalidInputError: it begins like one, and does not go on like one.
        UnsupportedError: it asks for what is not supported.
    """
    word = first_word(sql)
    if word not in _FIRST_WORDS:
        return None
    text = " ".join(_COMMENT.sub(" ", sql).replace(",", " , ").rstrip("; \t\r\n").upper().split())
    if word == "set" and not text.startswith("SET TRANSACTION "):
        return None
    if _SAVEPOINT.fullmatch(text):
        raise UnsupportedError(NO_SAVEPOINTS)
    end = _END.fullmatch(text)
    if end is not None:
        return TransactionText(Verb.COMMIT if end["word"] in ("COMMIT", "END") else Verb.ROLL_BACK)
    begin = _BEGIN.fullmatch(text) or _SET.fullmatch(text)
    if begin is None:
        raise _syntax_error(sql, word)
    verb = Verb.SET if word == "set" else Verb.BEGIN
    return TransactionText(verb, _read_modes(begin["modes"].strip(), sql, word))


def _read_modes(text: str, sql: str, word: str) -> bool | None:
    """Return whether the modes say that the transaction only reads; None if they don't say."""
    is_read_only = None
    for mode in filter(None, re.split(r" ?, ?| (?=READ (?:ONLY|WRITE)\b|ISOLATION )", text)):
        match = _MODE.fullmatch(mode)
        if match is None:
            raise _syntax_error(sql, word)
        if match["level"] == "SERIALIZABLE":
            raise UnsupportedError(
                "transactions are not SERIALIZABLE: they are REPEATABLE READ, which reads one snapshot of "
                "each table and refuses to overwrite what others changed since; ask for that level"
            )
        if match["access"] is not None:
            is_read_only = match["access"] == "ONLY"
    return is_read_only


def _syntax_error(sql: str, word: str) -> InvalidInputError:
    form = _FORMS.get(word, word.upper())
    return InvalidInputError(f"{sql!r} cannot be read: it is written {form}")


_DONE = WriteResult(-1)


# Messages that run or prepare a statement, and name its transaction by themselves.
_NAMING = (
    sql.CommandStatementQuery,
    sql.CommandStatementUpdate,
    sql.CommandStatementIngest,
    sql.ActionCreatePreparedStatementRequest,
)
_PREPARED = (sql.CommandPreparedStatementQuery, sql.CommandPreparedStatementUpdate)


def join_transaction(transactions: OpenTransactions, message: Message, call: Call) -> Call:
    """Return the call with the transaction that its message, or its session, is part of.

    Raises:
        NotFoundError: the message names one that is not known.
    """
    if isinstance(message, _NAMING):
        transaction_id = bytes(message.transaction_id)
    else:
        origin = find_origin(message)
        if origin is None:
            return call
        transaction_id = origin.transaction_id
    if transaction_id:
        follows = isinstance(message, _PREPARED)
        transaction_id, transaction = transactions.find(
            transaction_id, call.identity.name, call.peer, follows=follows
        )
        return dataclasses.replace(call, transaction=transaction, transaction_id=transaction_id)
    found = transactions.find_of_session(call.session_id, call.identity.name, call.peer)
    return call if found is None else dataclasses.replace(call, transaction=found)


@dataclass(frozen=True, eq=False)
class TransactionCommand(PreparedWrite):
    """A statement about the transaction of a call.

    Attributes:
        run: does what it says.
        changes: names of the tables that it writes.
    """

    sql: str
    run: Callable[[RunControl], None]
    changes: Sequence[str] = ()
    parameter_schema: pa.Schema = dataclasses.field(default_factory=lambda: pa.schema([]))

    is_transactional = True
    changes_something = False

    @property
    def target(self) -> str:
        """Names of the tables that COMMIT writes."""
        return ", ".join(self.changes)

    def execute(
        self,
        parameters: Sequence[pa.Scalar] = (),  # noqa: ARG002 - it has none
        control: RunControl | None = None,
    ) -> WriteResult:
        """See `PreparedWrite.execute`."""
        self.run(control or RunControl())
        return _DONE

    def execute_many(
        self,
        parameters: pa.Table,
        control: RunControl | None = None,  # noqa: ARG002 - it does nothing
    ) -> WriteResult:
        """See `PreparedWrite.execute_many`."""
        raise InvalidInputError(f"{self.sql!r} takes no parameters, and {parameters.num_rows} rows are bound")


class TransactionCommands:
    """Reads the statements about transactions.

    Args:
        transactions: of the server.
        open_session: opens a session for a client that has none; returns the call, in the session if the
            client is known to keep cookies.
    """

    def __init__(self, transactions: OpenTransactions, open_session: Callable[[Call], Call]) -> None:
        self._transactions = transactions
        self._open_session = open_session

    def read(self, statement: str, call: Call) -> TransactionCommand | None:
        """Return the command of a statement, for a call; None for all others.

        Raises:
            LanceGatewayError: it can't be read, or asks for what is not supported.
        """
        text = parse_transaction_text(statement)
        if text is None:
            return None
        if text.is_read_only is False:
            call.check_may_change(statement)
        if text.verb is Verb.BEGIN:
            if call.session_id is None and not call.transaction_id:
                # Drivers prepare a statement first, and send the cookie along when they execute it.
                call = self._open_session(call)
            return TransactionCommand(statement, lambda _: self._begin(call, is_read_only=text.is_read_only))
        if text.verb is Verb.SET:
            return TransactionCommand(statement, lambda _: _set(call, is_read_only=text.is_read_only))
        commits = text.verb is Verb.COMMIT
        changes = call.transaction.changed_tables if commits and call.transaction is not None else ()
        return TransactionCommand(
            statement, lambda control: self._end(call, control, commits=commits), changes
        )

    def _begin(self, call: Call, *, is_read_only: bool | None) -> None:
        transaction = call.transaction
        if call.transaction_id:
            # Drivers begin one before each statement that might be the first.
            if transaction is None or not transaction.is_fresh:
                raise PreconditionError("a transaction is open: COMMIT or ROLLBACK it before BEGIN")
        elif call.session_id is None:
            raise PreconditionError(
                "BEGIN needs a session, whose cookie tells the transaction of later statements, and this "
                "call has none: send cookies back (ADBC: adbc.flight.sql.rpc.with_cookie_middleware=true) "
                "and BEGIN again, or use the driver's own transactions (ADBC: autocommit=False)"
            )
        else:
            _, transaction = self._transactions.begin(call.identity.name, call.peer, call.session_id)
        if is_read_only is not None:
            transaction.set_read_only(is_read_only)

    def _end(self, call: Call, control: RunControl, *, commits: bool) -> None:
        transaction = call.transaction
        if transaction is None:
            if commits:
                raise PreconditionError(
                    "no transaction is open in this session, so there is nothing to COMMIT: each statement "
                    "outside of one is committed when it returns"
                )
            return
        if commits:
            _check_may_commit(transaction, call, control)
        if call.transaction_id:
            # The driver goes on with the same id.
            transaction.go_on(commits=commits)
            return
        if call.session_id is not None:
            self._transactions.forget_of_session(call.session_id)
        _finish(transaction, commits=commits)


def _set(call: Call, *, is_read_only: bool | None) -> None:
    if call.transaction is None:
        raise PreconditionError("no transaction is open: SET TRANSACTION comes behind BEGIN")
    if is_read_only is not None:
        call.transaction.set_read_only(is_read_only)


def _check_may_commit(transaction: Transaction, call: Call, control: RunControl) -> None:
    """Check that COMMIT may write, before the transaction is forgotten.

    Raises:
        PermissionDeniedError: it would change something, and the session of the call is read-only.
        LanceGatewayError: the statement was stopped.
    """
    if transaction.changed_tables:
        call.check_may_change("COMMIT")
        control.begin_writing()


def _finish(transaction: Transaction, *, commits: bool) -> None:
    if commits:
        transaction.commit()
    else:
        transaction.roll_back()


class TransactionActions:
    """The four actions about transactions; those about savepoints are refused.

    Args:
        transactions: of the server.
        updates: runs COMMIT like a statement.
    """

    def __init__(self, transactions: OpenTransactions, updates: Updates) -> None:
        self._transactions = transactions
        self._updates = updates

    def list_handlers(self) -> Sequence[Handler]:
        """Return the handlers of this family."""
        return (
            Action(
                "BeginTransaction",
                "Begin a transaction and return its id.",
                sql.ActionBeginTransactionRequest,
                self._begin,
            ),
            Action(
                "EndTransaction",
                "Commit a transaction, or roll it back.",
                sql.ActionEndTransactionRequest,
                self._end,
            ),
            Action("BeginSavepoint", "Refused.", sql.ActionBeginSavepointRequest, _refuse_savepoint),
            Action("EndSavepoint", "Refused.", sql.ActionEndSavepointRequest, _refuse_savepoint),
        )

    def _begin(self, _request: sql.ActionBeginTransactionRequest, call: Call) -> bytes:
        transaction_id, _ = self._transactions.begin(call.identity.name, call.peer)
        return pack(sql.ActionBeginTransactionResult(transaction_id=transaction_id))

    def _end(self, request: sql.ActionEndTransactionRequest, call: Call) -> None:
        if request.action == sql.ActionEndTransactionRequest.END_TRANSACTION_COMMIT:
            _, transaction = self._transactions.find(request.transaction_id, call.identity.name, call.peer)
            self._updates.run(
                "COMMIT",
                ", ".join(transaction.changed_tables),
                call.settings,
                call,
                lambda query: self._commit(request, transaction, call, query.control),
            )
        elif request.action == sql.ActionEndTransactionRequest.END_TRANSACTION_ROLLBACK:
            try:
                _, transaction = self._transactions.find(
                    request.transaction_id, call.identity.name, call.peer
                )
            except NotFoundError:
                return  # Nothing is left of it, which is what the client wants.
            self._transactions.forget(request.transaction_id, call.peer)
            transaction.roll_back()
        else:
            raise InvalidInputError(
                f"EndTransaction has the action {request.action}: choose commit or rollback"
            )

    def _commit(
        self,
        request: sql.ActionEndTransactionRequest,
        transaction: Transaction,
        call: Call,
        control: RunControl,
    ) -> WriteResult:
        _check_may_commit(transaction, call, control)
        self._transactions.forget(request.transaction_id, call.peer)
        transaction.commit()
        return _DONE


def _refuse_savepoint(_request: Message, _call: Call) -> bytes | None:
    raise UnsupportedError(NO_SAVEPOINTS)
