"""The command `phalanx`."""

from __future__ import annotations

import typer

from phalanx.tools.bench.command import app as bench
from phalanx.tools.check import check

app = typer.Typer(help="Phalanx: GPU kernels whose choreography is checked before it runs.", no_args_is_help=True)


@app.callback()
def callback() -> None:
    """Keeps subcommands even while there is only one."""


@app.command()
def info() -> None:
    """Shows versions, the device that kernels run on, and the disk cache."""
    from rich.console import Console
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
    Console().print(table)


@app.command()
def clear_cache() -> None:
    """Removes every compiled kernel from the disk cache."""
    from phalanx.runtime.compiled import disk_cache

    disk_cache().clear()


app.command()(check)
app.add_typer(bench, name="bench")


def main() -> None:
    """The entry point of the console script."""
    app()
