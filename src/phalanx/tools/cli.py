"""The command `phalanx`."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from phalanx.tools.bench import PASSED_ON, bench
from phalanx.tools.calibrate.command import calibrate
from phalanx.tools.check import check
from phalanx.tools.debug import debug
from phalanx.tools.doctor import doctor
from phalanx.tools.draw.command import draw
from phalanx.tools.explain import explain
from phalanx.tools.export import export
from phalanx.tools.output import CODES, INTERRUPTED, UNABLE, guarded, say
from phalanx.tools.shake import shake
from phalanx.tools.trace import trace

ABOUT = "Phalanx: GPU kernels whose choreography is checked before it runs."
app = typer.Typer(help=ABOUT, epilog=CODES, no_args_is_help=True)


def show_version(wanted: bool) -> None:
    """Prints the version and ends the command, where `--version` is given."""
    if wanted:
        import phalanx as px

        say(f"phalanx {px.__version__}")
        raise typer.Exit


@app.callback()
def callback(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=show_version)
    ] = False,
) -> None:
    """Phalanx: GPU kernels whose choreography is checked before it runs."""


@app.command()
def info() -> None:
    """Shows versions, the device that kernels run on, and the disk cache."""
    from rich.table import Table

    import phalanx as px
    from phalanx.cuda.nvrtc import CompilerMissing, nvrtc_version
    from phalanx.runtime.compiled import disk_cache

    device = px.device()
    cache = disk_cache()
    try:
        compiler = nvrtc_version()
    except CompilerMissing as problem:
        compiler = f"missing: {problem}"
    table = Table(show_header=False)
    table.add_row("phalanx", px.__version__)
    table.add_row("device", f"{device.name}, {device.sms} SMs, {device.arch}")
    table.add_row("clusters at once", ", ".join(f"{device.clusters(n)} of {n}" for n in (1, 2, 4, 8, 16)))
    table.add_row("NVRTC", compiler)
    size = f"{cache.root}, {cache.size_bytes() >> 10} KiB"
    table.add_row("cache", size if cache.root else f"off: {cache.disabled_reason}")
    say(table)


@app.command()
def clear_cache() -> None:
    """Removes every compiled kernel from the disk cache."""
    from phalanx.runtime.compiled import disk_cache

    disk_cache().clear()


app.command(epilog=CODES)(calibrate)
app.command(epilog=CODES)(check)
app.command(epilog=CODES)(debug)
app.command(epilog=CODES)(doctor)
app.command(epilog=CODES)(draw)
app.command(epilog=CODES)(export)
app.command(epilog=CODES)(explain)
app.command(epilog=CODES)(shake)
app.command(epilog=CODES)(trace)
app.command(context_settings=PASSED_ON, epilog=CODES)(bench)


def main() -> None:
    """The entry point of the console script. A character that a terminal's encoding lacks is written as its number."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(guarded(run))


def run() -> int:
    """The command, without what the library around it would do with errors."""
    try:
        return app(standalone_mode=False) or 0
    except typer.Abort:
        return INTERRUPTED
    except Exception as problem:
        if not hasattr(problem, "show") or not hasattr(problem, "exit_code"):
            raise
        problem.show()  # a mistake on the command line, in words of the library that reads it
        return UNABLE
