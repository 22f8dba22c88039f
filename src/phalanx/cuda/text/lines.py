"""From a line of PTX to the user's line: by the line of the CUDA text that it came from, and the comment above that."""

from __future__ import annotations

import re

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
