"""Where small steps of DataFusion over a client's text run: in this process, or in one that may end.

A gateway with worker processes sets the runner when it starts. The functions get and return values that can
be pickled, and depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple

from planner.bridge.run_control import RunControl

Arguments = TypeVarTuple("Arguments")
T = TypeVar("T")
Runner = Callable[[Callable[..., Any], tuple[Any, ...], RunControl], Any]


def run_here(function: Callable[..., Any], arguments: tuple[Any, ...], control: RunControl) -> Any:  # noqa: ANN401 - of the function
    """Run a function in this process."""
    # No snapshot can change under it: what it reads is in memory.
    return control.run_uninterrupted(lambda: function(*arguments))


_runner: Runner = run_here


def set_runner(runner: Runner) -> None:
    """Set what runs the functions of this process from now on."""
    global _runner  # noqa: PLW0603 - of the process, like its workers
    _runner = runner


def run_isolated(
    control: RunControl | None, function: Callable[[*Arguments], T], *arguments: *Arguments
) -> T:
    """Run a function in a worker process, if there are any.

    Args:
        control: stops it; None if nobody will.
        function: of a module, or a method of an object that can be pickled.
        arguments: of the function.

    Raises:
        Exception: whatever the function raises.
        LanceGatewayError: it was stopped.
    """
    result: T = _runner(function, arguments, control or RunControl())
    return result
