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
    from phalanx.sim.timeline.events import Lane

PAGE = Path(__file__).parent / "page"
AROUND = 3
"""Lines of a file that are shown before the first and behind the last line of the kernel."""
KINDS = ("work", "signal", "wait", "copy", "store", "load", "product")


@cache
def part(name: str) -> str:
    """A file of the page."""
    return (PAGE / name).read_text(encoding="utf-8")


def viewer_page(*traces: Trace) -> str:
    """The page of a timeline, or of two of one kernel, whose rows stand below each other or lie over each other."""
    data = json.dumps(data_of(*traces), separators=(",", ":")).replace("</", "<\\/")
    page = part("viewer.html")
    title = escape(f"{traces[0].kernel}: {'a timeline' if len(traces) == 1 else 'two timelines'}")
    parts = {"TITLE": title, "STYLE": part("viewer.css"), "DATA": data, "SCRIPT": part("viewer.js")}
    for name, text in parts.items():
        page = page.replace(f"<!--{name}-->", text, 1)
    return page


def data_of(*traces: Trace) -> dict[str, Any]:
    """What the page draws: rows, events as short lists, lines of source. Of two timelines, each begins at 0."""
    lanes = lanes_of(traces)
    texts: dict[str, int] = {}
    lines: dict[tuple[str, int], int] = {}
    events: list[list[Any]] = []
    for side, trace in enumerate(traces):
        number = len(events)
        first = min((event.start for event in trace.events), default=0.0) if len(traces) > 1 else 0.0
        for event in trace.events:
            key = (event.location.file, event.location.line) if event.location is not NOWHERE else ("", 0)
            name = f"{event.text}\n{event.barrier}"
            events.append([
                lanes[event.lane, side], KINDS.index(event.kind), round(event.start - first, 1), round(event.end - first, 1),
                lines.setdefault(key, len(lines)), texts.setdefault(name, len(texts)),
                *(cause + number if cause >= 0 else cause for cause in (event.after, event.released_by)),
                event.nbytes, event.phase,
            ])  # fmt: skip
    bound = next((trace.bound() for trace in traces if trace.busy), traces[0].bound())
    return {
        "kernel": traces[0].kernel,
        "sides": [{"source": trace.source, "cycles": trace.cycles, "clock": trace.clock} for trace in traces],
        "clock": traces[0].clock,
        "kinds": KINDS,
        "lanes": [[lane.place, lane.cta, lane.title, bool(lane.engine), side] for lane, side in lanes],
        "events": events,
        "texts": list(texts),
        "lines": list(lines),
        "files": files_of(list(lines)),
        "bound": str(bound) if bound.shares else "",
        "busy": [[unit, share] for unit, share in bound.shares.items()],
    }


def lanes_of(traces: tuple[Trace, ...]) -> dict[tuple[Lane, int], int]:
    """The number of each row, by lane and timeline: rows of the same agent are neighbours."""
    found = [(lane, side) for side, trace in enumerate(traces) for lane in trace.lanes]
    found.sort(key=lambda row: (row[0].place, row[0].cta, row[0].first, row[0].engine, row[1]))
    return {row: number for number, row in enumerate(found)}


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
