"""The user's lines in the CUDA text: a comment above what was written for each, which leads back from PTX, and `#line`."""

from __future__ import annotations

import re

from phalanx.ir.core import Function
from phalanx.location import NOWHERE, Location

_PLACE = re.compile(r"\.loc\s+\d+\s+(\d+)\s+\d+(?:.*?inlined_at\s+\d+\s+(\d+))?")
_COMMENT = re.compile(r"\s*// (\S+:\d+):")


def user_line(source: str, ptx: str, line: int) -> str | None:
    """The user's line ("k.py:12") that a line of PTX was written for, if the PTX was made with `--generate-line-info`.

    For the compiler's driver. `source`: the CUDA text, in which a comment names each new line of the user's.
    """
    text = source.splitlines()
    kernel = next((number for number, item in enumerate(text, 1) if "__global__" in item), len(text))
    for item in reversed(ptx.splitlines()[:line]):
        places = _PLACE.search(item)
        inside = [int(place) for place in places.groups() if place and int(place) > kernel] if places else []
        if inside:  # not in a device function, all of which stand above the kernel
            comments = (_COMMENT.match(item) for item in reversed(text[: inside[0]]))
            return next((found[1] for found in comments if found), None)
    return None


def source_comment(loc: Location) -> str:
    """What the comment above the text for a line says: `k.py:12: x = px.load(X[0:64])`."""
    where = f"{loc.short}: {loc.text.strip()}" if loc.text.strip() else loc.short
    return where if loc.caller is None else f"{where}  (called at {loc.caller.short})"


def with_line_directives(source: str, function: Function) -> str:
    """The CUDA text with `#line` before each line of the kernel, so that tools show the user's file in its place.

    For the compiler's driver. Device functions stand above the kernel and keep their own lines. Example::

        compile_cuda(with_line_directives(module.source, function), "sm_90a", options=("--generate-line-info",))
    """
    places = {_as_written(source_comment(op.loc)): op.loc for op in function.walk() if op.loc is not NOWHERE}
    place = function.loc
    out: list[str] = []
    inside = False
    for text in source.splitlines():
        inside = inside or "__global__" in text
        bare = text.strip()
        if bare.startswith("//"):
            place = places.get(bare, place)
        elif inside and bare and place is not NOWHERE:
            out.append(f'#line {place.line} "{_quoted(place.file)}"')
        out.append(text)
    return "\n".join(out) + "\n"


def without_line_directives(source: str) -> str:
    """The CUDA text as it is without `#line`."""
    return "".join(text for text in source.splitlines(keepends=True) if not text.startswith("#line "))


def _as_written(comment: str) -> str:
    """The first line of a comment as the writer puts it down."""
    return f"// {comment.splitlines()[0]}".rstrip().rstrip("\\")


def _quoted(path: str) -> str:
    """A path inside quotes of C++."""
    return path.replace("\\", "/").replace('"', '\\"')
