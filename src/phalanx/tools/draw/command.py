"""`phalanx draw FILE[:KERNEL]`: timelines and rings of a file's examples, as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phalanx.errors import Error
from phalanx.tools.output import CLEAN, UNABLE, complain, say
from phalanx.tools.user_files import declared


def draw(
    file: Annotated[str, typer.Argument(help="A file that launches kernels or has @px.example; FILE:KERNEL draws one.")],
    to: Annotated[Path, typer.Option(help="The folder of the pictures.")] = Path(),
    arch: Annotated[
        str | None, typer.Option(help="The target whose version is drawn (default: the first that has all of it).")
    ] = None,
    most: Annotated[int, typer.Option(help="Cycles that a picture shows.")] = 20_000,
) -> None:
    """Draws what overlaps in the kernels of a file, as its @px.example functions or the file itself launch them.

    Each kernel gets NAME.timeline.svg, with a row for every role and engine of its first cluster, and NAME.BUFFER.svg for
    each shared buffer whose first axis counts stages. Times are those of `px.trace`, a model's. No GPU is needed. Exits with
    0, or with 2 where it can't be done.
    """
    from phalanx.runtime.timeline.tracing import trace
    from phalanx.tools.draw.timeline import ring_picture, timeline_picture

    try:
        to.mkdir(parents=True, exist_ok=True)
        drawn: set[str] = set()
        for launch in declared(file):
            if launch.name in drawn:
                continue
            drawn.add(launch.name)
            made = trace(launch.bound, *launch.args, arch=arch, **launch.constants)
            title = f"{launch.name}: who works and who waits"
            pictures = {f"{launch.name}.timeline.svg": timeline_picture(made, title, most)}
            for buffer in sorted({use.buffer for use in made.uses if use.cta == 0}):
                title = f"{launch.name}: stages of {buffer}"
                pictures[f"{launch.name}.{buffer}.svg"] = ring_picture(made, buffer, title, most=most)
            for name, text in pictures.items():
                (to / name).write_text(text, encoding="utf-8")
                say(str(to / name))
    except Error as error:
        complain(str(error))
        raise typer.Exit(UNABLE) from None
    raise typer.Exit(CLEAN)
