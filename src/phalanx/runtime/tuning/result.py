"""What `px.tune` gives back: the best configuration, the table of all, and the kernel bound to the best."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from phalanx.frozen import frozen
from phalanx.language.kernel import Kernel
from phalanx.runtime.device.power import Reading

SHOWN_WIDTH = 140


@frozen
class Row:
    """One configuration: milliseconds of a launch, speed relative to the best (1.0), "ok" or what is wrong with it, and why.

    `rounds` is how many blocks the time is the median of: those that fall behind are not measured to the end. `drawn` has
    the energy of a launch, power and clock where they were read (mode "steady", through NVML); `rate` is FLOP per cycle per
    SM where the operations of a launch were given too. `modelled`: milliseconds on the model of time, where it was asked.
    """

    config: dict[str, Any]
    ms: float | None
    ratio: float | None
    status: str
    note: str = ""
    rounds: int = 0
    drawn: Reading | None = None
    rate: float | None = None
    modelled: float | None = None

    @property
    def ok(self) -> bool:
        """Whether it was measured."""
        return self.status == "ok"


def printed(shown: Any) -> str:
    """Renders what rich can show as plain text, without colours and without blanks at the ends of lines."""
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=SHOWN_WIDTH, no_color=True, highlight=False, markup=False).print(shown)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


FIGURES: dict[str, Callable[[Row], str]] = {
    "ms": lambda row: _shown(row.ms, ".4f"),
    "model": lambda row: "" if row.modelled in (None, row.ms) else _shown(row.modelled, ".4f"),
    "speed": lambda row: _shown(row.ratio, ".3f"),
    "J": lambda row: "" if row.drawn is None else _shown(row.drawn.joules, ".4g"),
    "W": lambda row: "" if row.drawn is None else _shown(row.drawn.watts, ".0f"),
    "MHz": lambda row: "" if row.drawn is None else _shown(row.drawn.megahertz, ".0f"),
    "FLOP/cycle/SM": lambda row: _shown(row.rate, ".0f"),
}
"""The columns of a table that are figures; one that no row has is left out."""


@frozen(eq=False)
class Tuned:
    """A kernel (or function) with its best configuration; call it, or index it with a grid, like the kernel.

    `.best` is that configuration, `.table` a `Row` for each, fastest first; `print(tuned)` shows them. `.from_cache` tells
    whether the search was made by an earlier call, `.unkept` why this one can't be kept on disk, `.unmetered` why no energy
    could be read, if so.
    """

    target: Any
    grid: Any
    table: tuple[Row, ...]
    device: str
    from_cache: bool = False
    unkept: str = ""
    unmetered: str = ""

    @property
    def best(self) -> dict[str, Any]:
        """The fastest configuration."""
        return dict(self.table[0].config)

    @property
    def name(self) -> str:
        """The name of the kernel or function."""
        return self.target.name if isinstance(self.target, Kernel) else getattr(self.target, "__name__", "function")

    def __call__(self, *args: Any, **constants: Any) -> Any:
        """Launches with the best constants, on the grid of the search; `constants` override them."""
        chosen = {**self.table[0].config, **constants}
        if isinstance(self.target, Kernel):
            return self.target[self.grid](*args, **chosen)
        return self.target(*args, **chosen)

    def __getitem__(self, grid: Any) -> Any:
        """The kernel on another grid, with the best constants."""
        return _Bound(self.target[grid], self.table[0].config)

    def __rich__(self) -> Any:
        from rich.table import Table

        names = list(dict.fromkeys(name for row in self.table for name in row.config))
        shown = Table(title=f"{self.name} on {self.device}", title_justify="left")
        for name in names:
            shown.add_column(name, justify="right")
        figures = [(title, show) for title, show in FIGURES.items() if any(show(row) for row in self.table)]
        for title, _ in figures:
            shown.add_column(title, justify="right")
        shown.add_column("status", no_wrap=True)
        shown.add_column("", overflow="fold")
        for row in self.table:
            cells = [str(row.config.get(name, "")) for name in names]
            cells += [show(row) for _, show in figures]
            shown.add_row(*cells, row.status, row.note, style=None if row.ok else "dim")
        remarks = (("not kept on disk", self.unkept), ("no energy, power or clock", self.unmetered))
        shown.caption = "\n".join(f"{what}: {why}" for what, why in remarks if why) or None
        shown.caption_justify = "left"
        return shown

    def __str__(self) -> str:
        return printed(self.__rich__())

    def __repr__(self) -> str:
        measured = sum(row.ok for row in self.table)
        return f"<Tuned {self.name}: {self.best}, {measured} of {len(self.table)} measured>"


class _Bound:
    """A bound launch with constants of its own."""

    def __init__(self, bound: Any, constants: dict[str, Any]) -> None:
        self.bound, self.constants = bound, constants

    def __call__(self, *args: Any, **constants: Any) -> Any:
        return self.bound(*args, **{**self.constants, **constants})
