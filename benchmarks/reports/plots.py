"""Curves as small SVG files: the same numbers give the same bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lance_gateway.memwal.errors import InvalidInputError

_STYLE: dict[Any, Any] = {
    # Text stays text (small, searchable), and ids don't differ from run to run.
    "svg.fonttype": "none",
    "svg.hashsalt": "lance-gateway",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.3,
    "lines.markersize": 4,
    "legend.frameon": False,
}


@dataclass(frozen=True, slots=True)
class Curve:
    """Points to be joined by a line, in this order.

    Attributes:
        label: For the legend.
        points: x and y of each.
        dashed: Whether this is what others are compared with.
    """

    label: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False

    def __post_init__(self) -> None:
        if not self.points:
            raise InvalidInputError(f"the curve {self.label!r} has no points: measure at least one")


@dataclass(frozen=True, slots=True)
class Plot:
    """A diagram.

    Attributes:
        title: Above it.
        x_label: Quantity and unit.
        y_label: Quantity and unit.
        curves: In the order of the legend.
        logarithmic: The axes, of "x" and "y", that are.
        x_ticks: Where the x axis is labelled; () for round numbers.
    """

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    logarithmic: str = ""
    x_ticks: Sequence[float] = ()

    def write(self, path: Path) -> None:
        """Draw it into an SVG file, replacing an older one."""
        # Takes a second, which who draws nothing need not wait for.
        import matplotlib as mpl  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
        from matplotlib.ticker import FuncFormatter  # noqa: PLC0415

        with mpl.rc_context(_STYLE):
            figure = Figure(figsize=(6.4, 4.4), layout="constrained")
            axes = figure.subplots()
            for curve in self.curves:
                xs, ys = zip(*curve.points, strict=True)
                axes.plot(xs, ys, "--s" if curve.dashed else "-o", label=curve.label)
            axes.set(title=self.title, xlabel=self.x_label, ylabel=self.y_label)
            for letter, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
                if letter in self.logarithmic:
                    getattr(axes, f"set_{letter}scale")("log")
                    axis.set_major_formatter(FuncFormatter(_format_number))
                    axis.set_minor_formatter(FuncFormatter(_format_tick))
            if self.x_ticks:
                axes.set_xticks(self.x_ticks)
                axes.set_xticks((), minor=True)
            figure.legend(loc="outside lower center", ncols=2)
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, format="svg", metadata={"Date": None})


def _format_number(value: float, _: int | None = None) -> str:
    return f"{value:g}"


def _format_tick(value: float, _: int | None = None) -> str:
    """Between powers of ten, 2 and 5 are enough."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""
