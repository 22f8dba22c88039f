"""`phalanx calibrate`: measures this machine's GPU, and writes the numbers that the model of time uses for it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phalanx.errors import Error
from phalanx.tools.output import CLEAN, FOUND, UNABLE, complain, say

if TYPE_CHECKING:
    from phalanx.machines.rates import Rates
    from phalanx.tools.calibrate.measure import Measured


def calibrate(
    to: Annotated[Path | None, typer.Option(help="The file to write (default: beside the user's compiled kernels).")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Print each number beside the one that ships.")] = False,
    gpu: Annotated[int, typer.Option(help="The number of the GPU.")] = 0,
) -> None:
    """Measures this machine's GPU for the model of time, in about a minute, and writes its numbers to a file.

    Short kernels, a few launches each: latencies of loads, copies, barriers and clusters, rates of L2, HBM, tensor cores
    and special functions, launches. From then on `px.trace`, and what is chosen by the model, use that file on a machine
    with such a GPU; PHALANX_CARD names it elsewhere. Exits with 0; with 1 where a number could not be measured, and is that
    of another card; with 2 where it can't be done, as without a GPU of Hopper's kind.
    """
    import phalanx as px
    from phalanx.machines.rates import measured_rates, text_of
    from phalanx.runtime.timeline.cards import write_card
    from phalanx.tools.calibrate.card import Card
    from phalanx.tools.calibrate.measure import measure

    try:
        card = Card(px.device(gpu))
        began = time.perf_counter()
        usual = measured_rates(card.here.arch)
        source = f"phalanx calibrate {px.__version__} on this card, {time.strftime('%Y-%m-%d', time.gmtime())}"
        made = measure(card, usual, source, progress)
        path = write_card(text_of(made.rates), card.here, to)
    except Error as error:
        complain(str(error))
        raise typer.Exit(UNABLE) from None
    if compare:
        say(table(made, usual))
    for each in made.problems:
        say(f"{each.probe.finds} ({each.probe.what}) is that of the {usual.name}: {each.problem}")
    say(f"{made.rates.name}: {len(made.found) - len(made.problems)} numbers in {time.perf_counter() - began:.0f} s")
    say(str(path))
    raise typer.Exit(FOUND if made.problems else CLEAN)


def progress(name: str) -> None:
    """What is being measured, on a terminal, or where `PHALANX_PROGRESS` asks for it."""
    wanted = os.environ.get("PHALANX_PROGRESS", "")
    if wanted == "1" and name:
        complain(name)
    elif wanted != "0" and sys.stderr.isatty():
        sys.stderr.write(f"\r{name:<40}\r" if name else "\r" + " " * 40 + "\r")
        sys.stderr.flush()


def table(made: Measured, usual: Rates) -> str:
    """The numbers of the card beside those that ship, a line each."""
    from phalanx.machines.rates import rounded

    lines = [f"{'number':24}{'measured':>12}{'ships':>12}{'ratio':>8}{'us a step':>12}  step"]
    rows = [("clock", "with the tensor cores at work"), ("l2_bytes", "what L2 keeps")]
    rows += [(each.probe.finds, each.probe.what) for each in made.found]
    for name, what in rows:
        value, ships = float(getattr(made.rates, name)), float(getattr(usual, name))
        took = f"{made.microseconds[name]:.4g}" if name in made.microseconds else ""
        lines.append(f"{name:24}{rounded(value):>12}{rounded(ships):>12}{value / ships:8.3f}{took:>12}  {what}")
    lines.append(f"{'clock, idle':24}{rounded(made.clock_idle):>12}{'':32}  with little to do")
    return "\n".join(lines)
