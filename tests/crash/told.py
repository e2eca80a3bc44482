"""What `lance_changes` tells of a table whose gateways are killed."""

from collections import defaultdict
from collections.abc import Iterable

from tests.crash.load import PER_REGION, Statement
from tests.support.processes.gateways import EngineGateway

Key = tuple[int, int]


class ToldChanges:
    """A copy of the table `kept`, which every single change since its last state is applied to.

    Args:
        reader: asks for the changes.
    """

    def __init__(self, reader: EngineGateway) -> None:
        self._reader = reader
        self._rows: dict[Key, int] = {}
        self._token = self._read_position()

    def check(self, sent: dict[int, list[Statement]]) -> None:
        """Go on to the newest state while nobody writes: each change fits, and all are told, in order.

        Args:
            sent: of each client since the last check, in order.
        """
        until = self._read_position()
        changes = self._reader.read(
            f"SELECT g, k, v, _change FROM lance_changes('kept', since => '{self._token}', "
            f"until => '{until}', mode => 'all') ORDER BY _sequence"
        ).to_pylist()
        values: dict[Key, list[int]] = defaultdict(list)
        for one in changes:
            key = one["g"], one["k"]
            match one["_change"]:
                case "insert":
                    assert key not in self._rows, one
                case "update_before":
                    assert self._rows[key] == one["v"], one
                    continue
                case "update_after":
                    assert key in self._rows, one
                case "delete":
                    assert self._rows.pop(key) == one["v"], one
                    continue
            self._rows[key] = one["v"]
            values[key].append(one["v"])
        kept = self._reader.read("SELECT g, k, v FROM kept").to_pylist()
        assert self._rows == {(row["g"], row["k"]): row["v"] for row in kept}
        for key, told in values.items():
            assert told == sorted(set(told)), f"key {key} has had the values {told}, not each once in order"
        for client, statements in sent.items():
            for key in self._keys(client):
                _check_acknowledged(key, values[key], statements)
        self._token = until

    def _keys(self, client: int) -> Iterable[Key]:
        return [(region, client * PER_REGION + at) for region in range(3) for at in range(PER_REGION)]

    def _read_position(self) -> str:
        token: str = self._reader.read("SELECT * FROM lance_position('kept')").column(0)[0].as_py()
        return token


def _check_acknowledged(key: Key, told: list[int], statements: Iterable[Statement]) -> None:
    for one in statements:
        if one.kind == "insert" and one.outcome == "acknowledged":
            assert one.number in told, f"{one} was acknowledged, and the changes of {key} are {told}"
