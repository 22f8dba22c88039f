"""A timeline as Chrome's trace format, which Perfetto (ui.perfetto.dev) and chrome://tracing open."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phalanx.runtime.timeline.trace import Trace


def perfetto_text(trace: Trace) -> str:
    """The file's text: a process for each CTA, a thread for each row, an arrow from each release to its wait."""
    rows: list[dict[str, Any]] = []
    numbers = {lane: number + 1 for number, lane in enumerate(trace.lanes)}
    for lane, number in numbers.items():
        process = process_of(lane)
        place = f", place {lane.place}" if lane.place else ""
        rows.append({"ph": "M", "name": "process_name", "pid": process, "args": {"name": f"CTA {lane.cta}{place}"}})
        rows.append({"ph": "M", "name": "thread_name", "pid": process, "tid": number, "args": {"name": lane.title}})
    scale = 1 / trace.clock
    for event in trace.events:
        where = {"pid": process_of(event.lane), "tid": numbers[event.lane]}
        told: dict[str, Any] = {"line": event.line, "code": event.location.text.strip(), "kind": event.kind}
        told["cycles"] = round(event.cycles, 1)
        told |= {"bytes": event.nbytes} if event.nbytes else {}
        told |= {"barrier": event.barrier, "phase": event.phase} if event.barrier else {}
        span = {"ts": event.start * scale, "dur": event.cycles * scale}
        rows.append({"ph": "X", "name": name_of(event.kind, event.text), "cat": event.kind, **where, **span, "args": told})
        if event.kind == "wait" and event.released_by >= 0:
            by = trace.events[event.released_by]
            source = {"pid": process_of(by.lane), "tid": numbers[by.lane]}
            arrow = {"name": "releases", "cat": "release", "id": event.number}
            rows.append({"ph": "s", **arrow, **source, "ts": max(by.start, min(by.end, event.end) - 0.01) * scale})
            rows.append({"ph": "f", "bp": "e", **arrow, **where, "ts": event.end * scale})
    head = {"kernel": trace.kernel, "source": trace.source, "cycles": trace.cycles}
    return json.dumps({"traceEvents": rows, "displayTimeUnit": "ns", "otherData": head}, separators=(",", ":"))


def process_of(lane: Any) -> int:
    """The number of a CTA: those of the clusters that an SM holds at a time come one after the other."""
    return int(lane.place * 16 + lane.cta)


def name_of(kind: str, text: str) -> str:
    """What a bar is called."""
    return f"wait: {text}" if kind == "wait" else text
