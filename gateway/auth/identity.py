"""Who a caller is."""

from dataclasses import dataclass

from memwal.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Identity:
    """A principal.

    Args:
        name: of the user.
        roles: what a policy grants to.
        method: how the identity was proven: "password", "token", "jwt", "certificate", or "none".
    """

    name: str
    roles: frozenset[str]
    method: str

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidInputError("an identity without a name: name the user")


ANONYMOUS = Identity("anonymous", frozenset(), "none")
