"""The report: findings as text for people, as JSON for tools, as an error for tests."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import dataclass, field
from typing import Any

from phalanx.errors import Error, display_path, excerpt
from phalanx.location import NOWHERE, Location
from phalanx.sanitizer.findings import Finding

WIDTH = 112
MAX_NOTES = 13

Line = list[tuple[str, str]]
"""Pieces of text with their styles."""


@dataclass
class Report:
    """What `px.check` found. `ok` when there is nothing; `print(report)` is for people.

    `schedules` are those that ran: the first that finds something is the last.
    """

    kernel: str
    findings: list[Finding] = field(default_factory=list)
    schedules: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    """What is legal but may surprise."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __bool__(self) -> bool:
        return self.ok

    def to_json(self) -> str:
        """All findings as JSON: ``{"kernel", "ok", "schedules", "findings": [...]}``."""
        return json.dumps(
            {
                "kernel": self.kernel, "ok": self.ok, "schedules": list(self.schedules),
                "findings": [finding.as_dict() for finding in self.findings],
                **({"notes": self.notes} if self.notes else {}),
            },
            indent=1,
        )

    def raise_if_found(self) -> None:
        """Raises `px.Error` with the whole report if there is a finding; its kind and place are the first one's."""
        if self.findings:
            first = self.findings[0]
            text = "\n\n".join([self.summary(), *map(plain_text, self.findings)])
            raise Error(text, location=first.location, kind=first.kind)

    def summary(self) -> str:
        """One line."""
        tried = len(self.schedules)
        under = f"under {tried} schedule{'s' * (tried != 1)}" if tried else "before any run"
        if self.ok:
            return f"{self.kernel}: no findings {under}"
        count = len(self.findings)
        return f"{self.kernel}: {count} finding{'s' * (count != 1)} {under}"

    def __str__(self) -> str:
        if sys.stdout.isatty():
            return self._coloured()
        return "\n\n".join([*map(plain_text, self.findings), "\n".join([*self._note_lines(), self.summary()])])

    def _note_lines(self) -> list[str]:
        return [f"note: {note}" for note in self.notes]

    def __repr__(self) -> str:
        return f"<Report {self.summary()}>"

    def __rich_console__(self, console: Any, options: Any) -> Any:
        yield from self._rich()

    def _rich(self) -> list[Any]:
        from rich.text import Text

        texts = []
        for finding in self.findings:
            for line in lines_of(finding):
                texts.append(Text.assemble(*line))
            texts.append(Text())
        texts += [Text(line) for line in self._note_lines()]
        texts.append(Text(self.summary(), style="bold green" if self.ok else "bold"))
        return texts

    def _coloured(self) -> str:
        from rich.console import Console

        console = Console(soft_wrap=True)
        with console.capture() as capture:
            for text in self._rich():
                console.print(text)
        return capture.get().rstrip("\n")


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
