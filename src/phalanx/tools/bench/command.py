"""`phalanx bench`: benchmarks on a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from phalanx.errors import Error
from phalanx.runtime.device.timing import MODES
from phalanx.tools.bench.contenders import OURS
from phalanx.tools.bench.gemm import BURST_OURS, DEFAULT_MODES, ROUNDS, GemmBench, Options, energy_table, table
from phalanx.tools.bench.peers import PEERS
from phalanx.tools.output import CODES, UNABLE, complain, say

app = typer.Typer(help="Measures kernels on a GPU, beside other libraries.", epilog=CODES, no_args_is_help=True)
MODES_HERE = ",".join(DEFAULT_MODES)
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def words(text: str) -> list[str]:
    """`a,b c` as a list; a comma inside the constants of a rung (`v6:STAGES=3,GROUP=4`) stays in it."""
    found: list[str] = []
    for part in text.replace(" ", ",").split(","):
        if "=" in part and ":" not in part and found:
            found[-1] += f",{part}"
        elif part:
            found.append(part)
    return found


def fail(error: Error) -> None:
    """Shows an error and ends the command with the code for what can't be run."""
    complain(str(error))
    raise typer.Exit(UNABLE) from None


@app.command()
def gemm(
    shapes: Annotated[Path | None, typer.Option(help="A file of shapes: M N K lines, CSV or JSON.")] = None,
    modes: Annotated[
        str, typer.Option(help="steady (each alone, power-limited), burst (boost clock), turns, cold (no L2).")
    ] = MODES_HERE,
    rungs: Annotated[str, typer.Option(help="Our contenders: v6, v6:STAGES=3,GROUP=4, matmul.")] = ",".join(OURS),
    burst_rungs: Annotated[str, typer.Option(help="Those of them that run in bursts.")] = ",".join(BURST_OURS),
    peers: Annotated[str, typer.Option(help="The others; cuBLAS is always there.")] = ",".join(PEERS),
    rounds: Annotated[int, typer.Option(help="Rounds of the mode turns, and of cold.", min=1)] = ROUNDS,
    burst_rounds: Annotated[int, typer.Option(help="Rounds of the burst mode.", min=1)] = MODES["burst"].rounds,
    steady_rounds: Annotated[int, typer.Option(help="Rounds of the steady mode.", min=1)] = MODES["steady"].rounds,
    ladder: Annotated[Path | None, typer.Option(help="The folder examples/gemm, if it is elsewhere.")] = None,
    out: Annotated[Path | None, typer.Option(help="A folder for gemm.json, gemm.png and gemm.svg.")] = None,
) -> None:
    """bf16 GEMM: the ladder and px.kernels.matmul against cuBLAS, Triton and TileLang. Exits with 2 on errors."""
    from phalanx.tools.bench.device import TorchDevice
    from phalanx.tools.bench.plot import plot_gemm, pyplot
    from phalanx.tools.bench.results import load, save
    from phalanx.tools.bench.shapes import LARGE, read_shapes

    try:
        chosen = LARGE if shapes is None else read_shapes(shapes)
        options = Options(
            chosen, words(rungs), words(burst_rungs), words(peers), words(modes), rounds, burst_rounds, steady_rounds,
            ladder,
        )
        if out is not None:
            pyplot()  # before the minutes of measuring, not after
        results = GemmBench(options, TorchDevice()).run()
        for mode in options.modes:
            say("\n".join(table(results["rows"], mode) + energy_table(results["rows"], mode)))
        if out is not None:
            save(out / "gemm.json", results)
            plot_gemm(load(out / "gemm.json"), [out / "gemm.png", out / "gemm.svg"])
            say(f"\nwritten to {out}")
    except Error as error:
        fail(error)


@app.command()
def plot(
    file: Annotated[Path, typer.Argument(help="A gemm.json that phalanx bench gemm wrote.")],
    out: Annotated[Path | None, typer.Option(help="The folder of the pictures; the file's own by default.")] = None,
) -> None:
    """Draws a results file again, as PNG and SVG beside it."""
    from phalanx.tools.bench.plot import plot_gemm
    from phalanx.tools.bench.results import load

    folder = file.parent if out is None else out
    try:
        plot_gemm(load(file), [folder / f"{file.stem}.png", folder / f"{file.stem}.svg"])
    except Error as error:
        fail(error)


def script(name: str) -> Path:
    """A benchmark of the checkout that this package is in, or of the working directory."""
    for base in (Path(__file__).resolve().parents[4], Path.cwd()):
        path = base / "benchmarks" / f"{name}.py"
        if path.is_file():
            return path
    raise Error(f"benchmarks/{name}.py is not here", remedy="run it in a checkout of phalanx")


def run_script(name: str, arguments: list[str]) -> None:
    """Runs a script of `benchmarks/` with these arguments, and ends the command with its code."""
    try:
        path = script(name)
    except Error as error:
        fail(error)
    raise typer.Exit(subprocess.run([sys.executable, str(path), *arguments], check=False).returncode)


@app.command(context_settings=PASSED_ON)
def rowwise(context: typer.Context) -> None:
    """Softmax, norms and cross entropy against torch: benchmarks/rowwise.py, with its options."""
    run_script("rowwise", context.args)


@app.command(context_settings=PASSED_ON)
def gather(context: typer.Context) -> None:
    """Rows by index against torch: benchmarks/gather.py, with its options."""
    run_script("gather", context.args)


@app.command(context_settings=PASSED_ON)
def copy(context: typer.Context) -> None:
    """The ring-buffered TMA copy against torch's: benchmarks/device_copy.py, with its options."""
    run_script("device_copy", context.args)
