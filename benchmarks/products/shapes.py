"""Shapes of a GEMM, and files of them.

Three forms, told apart by their first character and their name: lines of `M N K` (also with commas or `x` between, `#`
begins a comment), CSV with the header `M,N,K`, JSON lists `[M, N, K]` or objects. Each may name the contenders that run
that shape alone: more words on the line, a column `contenders` (separated by spaces), a key `contenders` with a list.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.location import Location

LARGEST = 2**31 - 1


@frozen
class Shape:
    """C (m, n) = A (m, k) @ B (n, k).T; `contenders` runs these alone, None all."""

    m: int
    n: int
    k: int
    contenders: tuple[str, ...] | None = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(m, n, k)."""
        return self.m, self.n, self.k

    def runs(self, name: str) -> bool:
        """Whether a contender runs this shape; `v6` also names `v6:STAGES=3`."""
        return self.contenders is None or name in self.contenders or name.partition(":")[0] in self.contenders

    def __str__(self) -> str:
        return f"{self.m} x {self.n} x {self.k}"


LARGE = tuple(
    Shape(*sizes) for sizes in (
        (4096, 4096, 4096), (8192, 8192, 8192), (4096, 4096, 14336), (2048, 2048, 16384), (8192, 8192, 2048),
        (16384, 4096, 4096),
    )
)  # fmt: skip
"""What the ladder is measured on."""


def read_shapes(path: Path) -> tuple[Shape, ...]:
    """The shapes of a file."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise Error(
            f"the shapes of {path} can't be read: {getattr(problem, 'strerror', None) or problem}",
            remedy="name a text file with a line M N K for each shape",
        ) from None
    if path.suffix == ".json" or text.lstrip()[:1] in ("[", "{"):
        found = _from_json(path, text)
    elif re.match(r"\s*\"?m\"?\s*,\s*\"?n\"?\s*,\s*\"?k\"?", text, re.IGNORECASE):
        found = _from_csv(path, text)
    else:
        found = _from_lines(path, text)
    if not found:
        raise Error(
            f"{path} has no shapes", remedy="write a line M N K for each shape"
        )
    return tuple(found)


def _broken(path: Path, number: int, line: str, why: str) -> Error:
    place = Location(str(path), number, 0, number, len(line.rstrip()), line)
    return Error(
        f"a shape {why}", location=place,
        remedy="a shape is three positive numbers M N K; names of contenders may follow",
    )


def _shape(path: Path, number: int, line: str, sizes: list[Any], contenders: Any) -> Shape:
    try:
        m, n, k = (int(size) for size in sizes)
    except (TypeError, ValueError):
        raise _broken(path, number, line, f"has {len(sizes)} sizes" if len(sizes) != 3 else "is no number") from None
    if not all(0 < size <= LARGEST for size in (m, n, k)):
        raise _broken(path, number, line, f"is {m} x {n} x {k}")
    names = contenders.split() if isinstance(contenders, str) else contenders
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise _broken(path, number, line, f"names the contenders {contenders!r}")
    return Shape(m, n, k, tuple(names) if names else None)


def _from_lines(path: Path, text: str) -> list[Shape]:
    shapes = []
    for number, line in enumerate(text.splitlines(), 1):
        words = re.sub(r"(?<=\d)\s*[x,]\s*(?=\d)", " ", line.partition("#")[0]).replace(",", " ").split()
        if words:
            shapes.append(_shape(path, number, line, words[:3], words[3:]))
    return shapes


def _from_csv(path: Path, text: str) -> list[Shape]:
    lines = text.splitlines()
    header, *rows = csv.reader(lines)
    titles = [title.strip().lower() for title in header]
    shapes = []
    for number, row in enumerate(rows, 2):
        if any(cell.strip() for cell in row):
            cells = dict(zip(titles, (cell.strip() for cell in row)))
            sizes = [cells.get(name) for name in "mnk"]
            shapes.append(_shape(path, number, lines[number - 1], sizes, cells.get("contenders") or None))
    return shapes


def _from_json(path: Path, text: str) -> list[Shape]:
    try:
        data = json.loads(text)
    except ValueError as problem:
        number = getattr(problem, "lineno", 1)
        line = text.splitlines()[number - 1] if text.splitlines() else ""
        raise _broken(path, number, line, f"file is no JSON: {problem}") from None
    items = data.get("shapes") if isinstance(data, dict) else data
    if not isinstance(items, list):
        raise _broken(path, 1, text.splitlines()[0], 'file has no list of shapes: write [[M, N, K], ...]')
    shapes = []
    for item in items:
        line = json.dumps(item)
        if isinstance(item, dict):
            lower = {str(key).lower(): value for key, value in item.items()}
            shapes.append(_shape(path, 1, line, [lower.get(name) for name in "mnk"], lower.get("contenders")))
        elif isinstance(item, list):
            shapes.append(_shape(path, 1, line, item[:3] if len(item) > 2 else item, item[3:] or None))
        else:
            raise _broken(path, 1, line, f"is {line}")
    return shapes
