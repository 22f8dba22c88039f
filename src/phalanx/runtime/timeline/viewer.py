"""A timeline as one HTML file that needs nothing else: rows, bars, arrows, search, and the kernel's text with its times."""

from __future__ import annotations

import json
import linecache
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phalanx.location import NOWHERE

if TYPE_CHECKING:
    from phalanx.runtime.timeline.trace import Trace

PAGE = Path(__file__).parent / "page"
AROUND = 3
"""Lines of a file that are shown before the first and behind the last line of the kernel."""
KINDS = ("work", "signal", "wait", "copy", "store", "load", "product")


@cache
def part(name: str) -> str:
    """A file of the page."""
    return (PAGE / name).read_text(encoding="utf-8")


def viewer_page(trace: Trace) -> str:
    """The page of a timeline."""
    data = json.dumps(data_of(trace), separators=(",", ":")).replace("</", "<\\/")
    page = part("viewer.html")
    title = escape(f"{trace.kernel}: a timeline")
    parts = {"TITLE": title, "STYLE": part("viewer.css"), "DATA": data, "SCRIPT": part("viewer.js")}
    for name, text in parts.items():
        page = page.replace(f"<!--{name}-->", text, 1)
    return page


def data_of(trace: Trace) -> dict[str, Any]:
    """What the page draws: rows, events as short lists, lines of source."""
    lanes = {lane: number for number, lane in enumerate(trace.lanes)}
    texts: dict[str, int] = {}
    lines: dict[tuple[str, int], int] = {}
    events = []
    for event in trace.events:
        key = (event.location.file, event.location.line) if event.location is not NOWHERE else ("", 0)
        name = f"{event.text}\n{event.barrier}"
        events.append([
            lanes[event.lane], KINDS.index(event.kind), round(event.start, 1), round(event.end, 1),
            lines.setdefault(key, len(lines)), texts.setdefault(name, len(texts)), event.after, event.released_by,
            event.nbytes, event.phase,
        ])  # fmt: skip
    return {
        "kernel": trace.kernel,
        "source": trace.source,
        "cycles": trace.cycles,
        "clock": trace.clock,
        "span": trace.span,
        "kinds": KINDS,
        "lanes": [[lane.place, lane.cta, lane.title, bool(lane.engine)] for lane in lanes],
        "events": events,
        "texts": list(texts),
        "lines": list(lines),
        "files": files_of(list(lines)),
        "bound": str(trace.bound()),
        "busy": [[unit, share] for unit, share in trace.bound().shares.items()],
    }


def files_of(lines: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """The part of each file that the events are of."""
    found = []
    for file in dict.fromkeys(file for file, _ in lines if file):
        numbers = [line for name, line in lines if name == file]
        text = linecache.getlines(file)
        first = max(1, min(numbers) - AROUND)
        last = min(len(text), max(numbers) + AROUND)
        shown = [line.rstrip("\n") for line in text[first - 1 : last]]
        found.append({"name": Path(file).name, "path": file, "first": first, "lines": shown})
    return found
