"""A recorded run as pictures: a row for each agent and engine, or a row for each stage of a ring."""

from __future__ import annotations

from phalanx.runtime.recording import Lane, SimRecording, Span, Use
from phalanx.tools.draw.svg import Canvas, shade

UNIT, ROW, THIN, TOP = 9.0, 24, 10, 44
"""Pixels: of a unit of the clock, of a row, of one of several in a row, above the first row."""
COLOURS = {"work": shade(4, 8), "signal": shade(1, 8), "copy": shade(5, 8), "product": shade(3, 8)}
MEANINGS = {
    "work": "threads read or write", "signal": "they signal or give work", "copy": "a copy in flight",
    "product": "a product in flight", "wait": "waits",
}  # fmt: skip
WRITES, READS = shade(5, 8), shade(3, 8)


def timeline_picture(recording: SimRecording, title: str = "", most: float = 90.0) -> str:
    """Who worked and who waited, in the first `most` units: agents and the engines that work for them, CTA by CTA.

    Anyone may call it. Lengths are units of the recording, not times: what is shown is what overlaps. Example:
    ``Path("copy.svg").write_text(timeline_picture(record(copy[2], x, y)))``.
    """
    lanes = sorted(recording.spans, key=lambda lane: (lane.cta, lane.first, lane.engine))
    lanes = [lane for lane in lanes if any(span.kind != "wait" for span in recording.spans[lane])]
    several = len({lane.cta for lane in lanes}) > 1
    names = [f"CTA {lane.cta}: {lane.title}" if several else lane.title for lane in lanes]
    left = 12 + 6.6 * max(map(len, names), default=0)
    canvas = Canvas(title or "A timeline of a simulated run")
    canvas.text(0, 14, canvas.title, size=12)
    legend(canvas, {kind: MEANINGS[kind] for kind in MEANINGS if kind in kinds(recording)})
    y = float(TOP)
    for lane, name in zip(lanes, names, strict=True):
        rows = stacked([span for span in recording.spans[lane] if span.start < most])
        height = ROW if len(rows) == 1 else 8 + THIN * len(rows)
        canvas.text(left - 8, y + height / 2 + 4, name, anchor="end")
        canvas.line(left, y + height - 1, left + min(most, recording.end) * UNIT, y + height - 1)
        for number, spans in enumerate(rows):
            top, size = (y + 3, ROW - 7) if len(rows) == 1 else (y + 4 + number * THIN, THIN - 2)
            for span in spans:
                draw_span(canvas, span, left, top, size, most)
        y += height
    canvas.grow(left + min(most, recording.end) * UNIT, y)
    return canvas.svg()


def stacked(spans: list[Span]) -> list[list[Span]]:
    """Spans in as few rows as keep them apart: an engine does several things at once."""
    rows: list[list[Span]] = [[]]
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        row = next((row for row in rows if not row or row[-1].end <= span.start), None)
        if row is None:
            rows.append(row := [])
        row.append(span)
    return rows


def kinds(recording: SimRecording) -> set[str]:
    """The kinds of spans in the recording: a legend lists them."""
    return {span.kind for spans in recording.spans.values() for span in spans}


def draw_span(canvas: Canvas, span: Span, left: float, y: float, height: float, most: float) -> None:
    """One piece of work or one wait, as far as the picture goes."""
    x, w = left + span.start * UNIT, (min(span.end, most) - span.start) * UNIT
    if span.kind == "wait":
        canvas.box(x + 1, y + height / 2 - 3, max(w - 2, 1), 7, kind="wait", hint=f"waits at {span.text}")
    else:
        canvas.box(x, y, max(w - 1, 1), height, COLOURS.get(span.kind, shade(6, 8)), hint=span.text)


def legend(canvas: Canvas, meanings: dict[str, str]) -> None:
    """What the colours mean."""
    x = 0.0
    for kind, text in meanings.items():
        if kind == "wait":
            canvas.box(x, 24, 16, 7, kind="wait")
        else:
            canvas.box(x, 22, 12, 11, COLOURS[kind])
        canvas.text(x + 20, 32, text, size=10)
        x += 34 + 5.6 * len(text)


def ring_picture(recording: SimRecording, buffer: str, title: str = "", cta: int = 0, most: float = 90.0) -> str:
    """When each stage of a buffer is filled and when it is read; between a fill and its last read it is full.

    Anyone may call it. `buffer` is a shared buffer whose first axis counts stages. Example:
    ``ring_picture(record(copy[2], x, y), "stages")``.
    """
    uses = [use for use in recording.uses if use.buffer == buffer and use.cta == cta]
    if not uses:
        names = sorted({use.buffer for use in recording.uses})
        raise ValueError(f"no stages of {buffer!r} are used in CTA {cta}; there are {', '.join(names) or 'none'}")
    canvas = Canvas(title or f"The stages of {buffer}")
    canvas.text(0, 14, canvas.title, size=12)
    x = 0.0
    for fill, text in ((WRITES, "is filled"), ("full", "is full"), (READS, "is read")):
        canvas.box(x, 22, 12, 11, "" if fill == "full" else fill, kind="wait" if fill == "full" else "")
        canvas.text(x + 18, 32, text, size=10)
        x += 34 + 5.6 * len(text)
    left, end = 62.0, min(most, max(use.end for use in uses))
    for stage in range(uses[0].stages):
        y = TOP + stage * ROW
        canvas.text(left - 8, y + 15, f"stage {stage}", anchor="end")
        canvas.line(left, y + ROW - 1, left + end * UNIT, y + ROW - 1)
        draw_stage(canvas, [use for use in uses if use.stage == stage], left, y, most)
    canvas.grow(left + end * UNIT, TOP + uses[0].stages * ROW)
    return canvas.svg()


def draw_stage(canvas: Canvas, uses: list[Use], left: float, y: float, most: float) -> None:
    """One stage: fills and reads, and what lies between them."""
    filled: float | None = None
    for use in sorted(uses, key=lambda use: (use.start, not use.writes)):
        if use.start >= most:
            return
        x, w = left + use.start * UNIT, (min(use.end, most) - use.start) * UNIT
        if not use.writes and filled is not None and use.start > filled:
            canvas.box(left + filled * UNIT, y + 8, (use.start - filled) * UNIT, 7, kind="wait", hint="full")
        fill, hint = (WRITES, "filled") if use.writes else (READS, "read")
        canvas.box(x, y + 3, max(w - 1, 1), ROW - 7, fill, hint=hint)
        filled = max(filled or 0.0, use.end)


__all__ = ["Lane", "ring_picture", "timeline_picture"]
