"""`phalanx debug FILE[:KERNEL]`: a simulated launch, step by step, in the terminal."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phalanx.errors import Error
from phalanx.runtime.debugging import debug as begin
from phalanx.sanitizer.findings import KINDS
from phalanx.tools.check import declared
from phalanx.tools.output import CLEAN, FOUND, UNABLE, complain, say

if TYPE_CHECKING:
    from phalanx.sim.debug.session import Session

STYLES = (
    (r"(?m)^.*, CTA \d+, cluster \d+(?=, )", "bold"), (r"(?m)^ *\d+ [|>]", "dim"), (r"(?m)^ *--> .*$", "blue"),
    (r"(?m)\^+( .*)?$", "red"), (rf"(?m)^(suspected )?({'|'.join(KINDS)})(?=: )", "bold red"),
    (r"waits? for [^;\n]*", "yellow"), (r"can't arrive any more|it has ended|nobody has .*$", "red"),
)  # fmt: skip
"""What stands out in what a session says: who, the margin of the source, findings, waits."""


def debug(
    file: Annotated[str, typer.Argument(help="A file that launches kernels or has @px.example; FILE:KERNEL debugs one.")],
    commands: Annotated[
        Path | None, typer.Option(help="Take the commands from a file, one a line, and print each before what it says.")
    ] = None,
    schedule: Annotated[
        str, typer.Option(help="The order of events: late, early, random, or found: one in which the checks find something.")
    ] = "late",
    seed: Annotated[int, typer.Option(help="The seed of a random order.", min=0)] = 0,
    arch: Annotated[
        str | None, typer.Option(help="The target whose version runs (default: the first that has all of it).")
    ] = None,
) -> None:
    """Runs a kernel of a file in the simulator, step by step, as the file or its first @px.example launches it.

    Stops at lines, px.breakpoint, phases of barriers and findings; shows tiles, memory, barriers and who waits for whom;
    goes back. `help` lists the commands, an empty line repeats the one before. Exits with 0, with 1 where something was
    found, with 2 where it can't be done.
    """
    try:
        launches = declared(file)
        launch = launches[0]
        others = [name for name in dict.fromkeys(each.name for each in launches) if name != launch.name]
        if others:
            complain(f"{launch.name}; FILE:KERNEL takes another: {', '.join(others)}")
        lines = None if commands is None else commands.read_text("utf-8").splitlines()
        session = begin(
            launch.bound, *launch.args, schedule=schedule, seed=seed, arch=arch, write=writer(), **launch.constants
        )
        if lines is None:
            with interruptible(session):
                session.interact()
        else:
            session.say(session.here())
            session.script(lines)
    except Error as error:
        complain(str(error))
        raise typer.Exit(UNABLE) from None
    raise typer.Exit(FOUND if session.found() else CLEAN)


@contextmanager
def interruptible(session: Session) -> Iterator[None]:
    """Control-C stops a run that goes on, where it is, and ends the session at the prompt."""

    def interrupt(number: int, frame: object) -> None:
        if not session.running:
            raise KeyboardInterrupt
        session.interrupted = True

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def writer() -> Callable[[str], object]:
    """Prints plainly, and in colours where a person looks."""
    if not sys.stdout.isatty():
        return say
    with suppress(ImportError):
        import readline  # noqa: F401  (the prompt has a history then)
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)

    def write(text: str) -> None:
        shown = Text(text)
        for pattern, style in STYLES:
            shown.highlight_regex(pattern, style)
        console.print(shown)

    return write
