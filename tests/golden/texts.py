"""`python -m golden.texts FOLDER` writes the CUDA text of every golden, library and test kernel, one file each.

Two commits produce the same kernels exactly if the folders that they write are equal (`diff -r`). Run it with
`PYTHONPATH=src:tests`. Each file holds the text that NVRTC gets, line comments included.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
from rich.progress import track

import support.tile_cases  # noqa: F401  fills the table
from cuda.test_kernels_on_host import ALL, text_of
from support.case_table import CASES as TILES
from support.host_cuda import module_for


def main(folder: Path) -> None:
    """Writes all texts into `folder`, which is made, and prints one number over all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = hashlib.sha256()
    names = [*ALL, *TILES]
    for name in track(names, "texts"):
        if name in ALL:
            source = text_of(ALL[name]()).source
        else:
            case = TILES[name]
            source = module_for(case.kernel, tuple(case.args(np.random.default_rng(0))), **case.constants).source
        whole.update(source.encode())
        (folder / f"{name.replace(' ', '_').replace('/', '_')}.cu").write_text(source)
    print(f"{len(names)} texts, {whole.hexdigest()[:16]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
