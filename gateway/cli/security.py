"""`lance-gateway user`, `token` and `policy`: the files that say who may do what."""

import datetime as dt
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from lance_gateway.gateway.cli.commands import collect_flags, exit_on_error
from lance_gateway.pipeline.cli.options import StorageOptions

users = typer.Typer(help="Users and their passwords.", no_args_is_help=True)
tokens = typer.Typer(help="Static tokens for programs.", no_args_is_help=True)
policies = typer.Typer(help="What roles may see and do.", no_args_is_help=True)

_UserFile: TypeAlias = Annotated[Path, typer.Option("--file", help="The user file (auth.users_file).")]
_TokenFile: TypeAlias = Annotated[Path, typer.Option("--file", help="The token file (auth.tokens_file).")]
_Roles: TypeAlias = Annotated[
    list[str] | None, typer.Option("--role", help="Role in the policy; may be repeated.")
]


@users.command("add")
def add_user(
    name: Annotated[str, typer.Argument(help="Name of the user.")],
    file: _UserFile,
    role: _Roles = None,
    certificate: Annotated[
        list[str] | None,
        typer.Option(help="Name in a client certificate that stands for the user; may be repeated."),
    ] = None,
    no_password: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--no-password", help="The user has certificates only.")
    ] = False,
    replace: Annotated[  # noqa: FBT002 - as above
        bool,
        typer.Option(
            "--replace", help="Change a user who is there already; what is not given stays, but the password."
        ),
    ] = False,
) -> None:
    """Add a user; the password is asked for, or read from stdin. Running gateways notice."""
    with exit_on_error():
        from lance_gateway.gateway.auth.users import (  # noqa: PLC0415
            User,
            find_user,
            hash_password,
            write_user,
        )

        user = find_user(file, name) if replace else None
        hashed = None if no_password else hash_password(_read_password())
        certificates, roles = tuple(certificate or ()), frozenset(role or ())
        if user is not None:
            certificates, roles = certificates or user.certificates, roles or user.roles
        write_user(file, User(name, hashed, certificates, roles), replace=replace)
        typer.echo(f"user {name!r} is in {file}")


@users.command("remove")
def remove_user(name: Annotated[str, typer.Argument(help="Name of the user.")], file: _UserFile) -> None:
    """Remove a user; tokens that were issued to the user end."""
    with exit_on_error():
        from lance_gateway.gateway.auth.users import remove_user as remove  # noqa: PLC0415

        remove(file, name)
        typer.echo(f"user {name!r} is no longer in {file}")


@tokens.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Name of the token, by which it is revoked.")],
    file: _TokenFile,
    user: Annotated[str | None, typer.Option(help="User it stands for; by default its own name.")] = None,
    role: _Roles = None,
    expires_in: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Such as 90d; by default it does not expire.")
    ] = None,
) -> None:
    """Create a token and print it: only its SHA-256 digest is kept. Running gateways notice."""
    with exit_on_error():
        from lance_gateway.gateway.auth.gateway_tokens import create_token as create  # noqa: PLC0415

        expires = None if expires_in is None else _add_duration(expires_in)
        typer.echo(create(file, name, user or name, frozenset(role or ()), expires))


@tokens.command("revoke")
def revoke_token(name: Annotated[str, typer.Argument(help="Name of the token.")], file: _TokenFile) -> None:
    """Revoke a token: take it out of the file."""
    with exit_on_error():
        from lance_gateway.gateway.auth.gateway_tokens import revoke_token as revoke  # noqa: PLC0415

        revoke(file, name)
        typer.echo(f"token {name!r} is no longer in {file}")


@policies.command("check")
def check_policy(
    file: Annotated[Path, typer.Argument(help="The policy file (auth.policy_file).")],
    root: Annotated[
        str | None, typer.Option(help="Compare the grants with the tables of this root as well.")
    ] = None,
    storage_option: StorageOptions = None,
) -> None:
    """Check a policy file; every problem is one line."""
    with exit_on_error():
        from lance_gateway.gateway.auth.files import read_text  # noqa: PLC0415
        from lance_gateway.gateway.auth.policy import parse_policy  # noqa: PLC0415

        policy = parse_policy(read_text(file), str(file))
        if root is not None:
            from lance_gateway.gateway.auth.policy import find_policy_conflicts  # noqa: PLC0415 - loads pylance and DataFusion
            from lance_gateway.gateway.config.loader import load  # noqa: PLC0415
            from lance_gateway.gateway.start.opening import open_catalog  # noqa: PLC0415

            config = load(collect_flags(root, storage_option, None)).config
            with closing(open_catalog(config)) as catalog:
                conflicts = find_policy_conflicts(policy, catalog)
            for problem in conflicts:
                typer.echo(f"error: {problem}", err=True)
            if conflicts:
                raise typer.Exit(1)
        typer.echo("the policy is good")


def _read_password() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\n")


def _add_duration(duration: str) -> dt.datetime:
    from lance_gateway.memwal.errors import InvalidInputError  # noqa: PLC0415
    from lance_gateway.memwal.quantities import parse_seconds  # noqa: PLC0415

    try:
        seconds = parse_seconds(duration)
    except ValueError:
        raise InvalidInputError(
            f"--expires-in {duration!r} is not a duration: write 90d, 12h or 30m"
        ) from None
    return dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(seconds=float(str(seconds)))
