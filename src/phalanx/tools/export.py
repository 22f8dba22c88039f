"""`phalanx export FILE[:KERNEL]`: the kernels of a file as machine code with a C launcher."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phalanx.errors import Error
from phalanx.tools.output import CLEAN, UNABLE, complain, say
from phalanx.tools.user_files import declared


def export(
    file: Annotated[str, typer.Argument(help="A file that launches kernels or has @px.example; FILE:KERNEL exports one.")],
    to: Annotated[Path, typer.Option(help="Where: each kernel gets a folder of its name in it.")],
    arch: Annotated[list[str] | None, typer.Option(help="A target; may be given several times (default: sm_90a).")] = None,
    interface: Annotated[
        list[str] | None, typer.Option(help="A calling convention besides: tvm-ffi, jax or hub; may be given several times.")
    ] = None,
) -> None:
    """Writes the kernels of a file as its @px.example functions or the file itself launch them.

    Cubins, a C launcher, a manifest, a loader. Sizes are those of the launch's arrays; where an example returns px.spec
    with named sizes, the C function takes them. Of several launches of one kernel the first is written. Exits with 0, or
    with 2 where it can't be done.
    """
    from phalanx.runtime.exporting.export import export as write

    try:
        written: set[str] = set()
        for launch in declared(file):
            if launch.name not in written:
                written.add(launch.name)
                folder, targets, around = to / launch.name, arch or ["sm_90a"], interface or []
                made = write(launch.bound, *launch.args, to=folder, arch=targets, interfaces=around, **launch.constants)
                say(str(made))
    except Error as error:
        complain(str(error))
        raise typer.Exit(UNABLE) from None
    raise typer.Exit(CLEAN)
