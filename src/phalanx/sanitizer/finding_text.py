"""A finding as lines for people: the sentence, both places with carets, the facts, how to see it again."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from phalanx.errors import display_path, excerpt
from phalanx.location import NOWHERE, Location

if TYPE_CHECKING:
    from phalanx.sanitizer.findings import Finding

WIDTH = 112
MAX_NOTES = 13

Line = list[tuple[str, str]]
"""Pieces of text with their styles."""


def plain_text(finding: Finding) -> str:
    """A finding without colours."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines_of(finding))


def lines_of(finding: Finding) -> list[Line]:
    """A finding in fewer than 30 lines: the sentence, both places with carets, the facts, how to see it again."""
    first, *more = textwrap.wrap(finding.message, WIDTH - len(finding.kind) - 2, subsequent_indent="") or [""]
    if more:
        more = textwrap.wrap(" ".join(more), WIDTH - 2)
    lines: list[Line] = [[(finding.kind, "bold red"), (": ", ""), (first, "bold")]]
    lines += [[("  " + rest, "bold")] for rest in more]
    lines += place_lines(finding.location, finding.label, "red")
    if finding.other is not None:
        lines += place_lines(finding.other, finding.other_label, "yellow")
    shown = finding.notes[:MAX_NOTES]
    for note in shown:
        lines.append([("  = ", "cyan"), (note, "")])
    if len(finding.notes) > MAX_NOTES:
        lines.append([("  = ", "cyan"), (f"and {len(finding.notes) - MAX_NOTES} more", "")])
    lines.append([("  = ", "cyan"), (origin(finding), "")])
    return lines


def origin(finding: Finding) -> str:
    """How often it was seen, and how to see it again."""
    if not finding.schedule:
        return "found before any run"
    times = f"seen {finding.count} times; " if finding.count > 1 else ""
    again = f"schedule {finding.schedule}, seed {finding.seed}"
    if finding.schedule == "random":
        again += f": px.check(..., schedules=3, seed={finding.seed}) shows it again"
    return times + again


def place_lines(location: Location, label: str, style: str) -> list[Line]:
    """The source line with a caret, and where it was inlined."""
    if location is NOWHERE or not location.line:
        return []
    arrow, _, text, caret = excerpt(location)
    lines: list[Line] = [[(arrow, "blue")], [(text, "")], [(caret, style), (" " + label if label else "", style)]]
    caller = location.caller
    while caller is not None:
        lines.append([(f"  called at {display_path(caller.file)}:{caller.line}: {caller.text.strip()}", "dim")])
        caller = caller.caller
    return lines
