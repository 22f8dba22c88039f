"""A timeline as pictures: a row for each agent and engine, or a row for each stage of a ring."""

from __future__ import annotations

from phalanx.runtime.timeline.trace import Event, Lane, Trace, Use
from phalanx.tools.draw.svg import Canvas, shade

WIDTH, ROW, THIN, TOP = 810.0, 24, 10, 44
"""Pixels: of all cycles that are shown, of a row, of one of several in a row, above the first row."""
COLOURS = {
    "work": shade(4, 8), "signal": shade(1, 8), "copy": shade(5, 8), "product": shade(3, 8), "store": shade(6, 8),
    "load": shade(7, 8),
}  # fmt: skip
MEANINGS = {
    "work": "threads compute, read or write", "signal": "they signal", "copy": "a copy in flight",
    "store": "a store in flight", "load": "a load in flight", "product": "a product", "wait": "waits",
}  # fmt: skip
WRITES, READS = shade(5, 8), shade(3, 8)


class Window:
    """The cycles that a picture shows, from the first event on, and where they lie in it."""

    def __init__(self, trace: Trace, left: float, most: float | None) -> None:
        self.left = left
        self.start = min((event.start for event in trace.events), default=0.0)
        self.end = max((event.end for event in trace.events), default=1.0)
        if most is not None:
            self.end = min(self.end, self.start + most)
        self.unit = WIDTH / max(1.0, self.end - self.start)

    def x(self, time: float) -> float:
        """The place of a time on the x axis."""
        return self.left + (min(time, self.end) - self.start) * self.unit

    def width(self, start: float, end: float) -> float:
        """How wide a stretch of time is, as far as it is shown."""
        return (min(end, self.end) - start) * self.unit


def timeline_picture(trace: Trace, title: str = "", most: float | None = None) -> str:
    """Who worked and who waited, in the first `most` cycles: agents and the engines that work for them, CTA by CTA.

    Anyone may call it. Example: ``Path("copy.svg").write_text(timeline_picture(px.trace(copy[2], x, y)))``.
    """
    by_lane: dict[Lane, list[Event]] = {lane: [] for lane in trace.lanes}
    for event in trace.events:
        by_lane[event.lane].append(event)
    lanes = [lane for lane, events in by_lane.items() if any(event.kind != "wait" for event in events)]
    several = len({(lane.place, lane.cta) for lane in lanes}) > 1
    names = [f"CTA {lane.cta}: {lane.title}" if several else lane.title for lane in lanes]
    window = Window(trace, 12 + 6.6 * max(map(len, names), default=0), most)
    canvas = Canvas(title or "A timeline of a modelled run")
    canvas.text(0, 14, canvas.title, size=12)
    there = {event.kind for event in trace.events}
    legend(canvas, {kind: text for kind, text in MEANINGS.items() if kind in there})
    y = float(TOP)
    for lane, name in zip(lanes, names, strict=True):
        rows = stacked([event for event in by_lane[lane] if event.start < window.end])
        height = ROW if len(rows) == 1 else 8 + THIN * len(rows)
        canvas.text(window.left - 8, y + height / 2 + 4, name, anchor="end")
        canvas.line(window.left, y + height - 1, window.x(window.end), y + height - 1)
        for number, events in enumerate(rows):
            top, size = (y + 3, ROW - 7) if len(rows) == 1 else (y + 4 + number * THIN, THIN - 2)
            for event in events:
                draw_event(canvas, event, window, top, size)
        y += height
    canvas.text(window.left, y + 14, f"{window.end - window.start:,.0f} cycles", size=10)
    canvas.grow(window.x(window.end), y + 16)
    return canvas.svg()


def stacked(spans: list[Event]) -> list[list[Event]]:
    """Events in as few rows as keep them apart: an engine does several things at once."""
    rows: list[list[Event]] = [[]]
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        row = next((row for row in rows if not row or row[-1].end <= span.start), None)
        if row is None:
            rows.append(row := [])
        row.append(span)
    return rows


def draw_event(canvas: Canvas, event: Event, window: Window, y: float, height: float) -> None:
    """One piece of work or one wait, as far as the picture goes."""
    x, w = window.x(event.start), window.width(event.start, event.end)
    text = f"{event.line}: {event.location.text.strip()}"
    if event.kind == "wait":
        canvas.box(x + 1, y + height / 2 - 3, max(w - 2, 1), 7, kind="wait", hint=f"waits at {text}")
    else:
        canvas.box(x, y, max(w - 1, 1), height, COLOURS.get(event.kind, shade(6, 8)), hint=text)


def legend(canvas: Canvas, meanings: dict[str, str]) -> None:
    """Draws what the colours mean."""
    x = 0.0
    for kind, text in meanings.items():
        if kind == "wait":
            canvas.box(x, 24, 16, 7, kind="wait")
        else:
            canvas.box(x, 22, 12, 11, COLOURS[kind])
        canvas.text(x + 20, 32, text, size=10)
        x += 34 + 5.6 * len(text)


def ring_picture(trace: Trace, buffer: str, title: str = "", cta: int = 0, most: float | None = None) -> str:
    """When each stage of a buffer is filled and when it is read; between a fill and its last read it is full.

    Anyone may call it. `buffer` is a shared buffer whose first axis counts stages. Example:
    ``ring_picture(px.trace(copy[2], x, y), "stages")``.
    """
    uses = [use for use in trace.uses if use.buffer == buffer and use.cta == cta]
    if not uses:
        names = sorted({use.buffer for use in trace.uses})
        raise ValueError(f"no stages of {buffer!r} are used in CTA {cta}; there are {', '.join(names) or 'none'}")
    canvas = Canvas(title or f"The stages of {buffer}")
    canvas.text(0, 14, canvas.title, size=12)
    x = 0.0
    for fill, text in ((WRITES, "is filled"), ("full", "is full"), (READS, "is read")):
        canvas.box(x, 22, 12, 11, "" if fill == "full" else fill, kind="wait" if fill == "full" else "")
        canvas.text(x + 18, 32, text, size=10)
        x += 34 + 5.6 * len(text)
    window = Window(trace, 62.0, most)
    for stage in range(uses[0].stages):
        y = TOP + stage * ROW
        canvas.text(window.left - 8, y + 15, f"stage {stage}", anchor="end")
        canvas.line(window.left, y + ROW - 1, window.x(window.end), y + ROW - 1)
        draw_stage(canvas, [use for use in uses if use.stage == stage], window, y)
    canvas.grow(window.x(window.end), TOP + uses[0].stages * ROW)
    return canvas.svg()


def draw_stage(canvas: Canvas, uses: list[Use], window: Window, y: float) -> None:
    """One stage: fills and reads, and what lies between them."""
    filled: float | None = None
    for use in sorted(uses, key=lambda use: (use.start, not use.writes)):
        if use.start >= window.end:
            return
        if not use.writes and filled is not None and use.start > filled:
            canvas.box(window.x(filled), y + 8, window.width(filled, use.start), 7, kind="wait", hint="full")
        fill, hint = (WRITES, "filled") if use.writes else (READS, "read")
        canvas.box(window.x(use.start), y + 3, max(window.width(use.start, use.end) - 1, 1), ROW - 7, fill, hint=hint)
        filled = max(filled or 0.0, use.end)
