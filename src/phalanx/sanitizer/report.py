"""The report: findings as text for people, as JSON for tools, as an error for tests."""

from __future__ import annotations

import html
import json
import sys
from dataclasses import dataclass, field
from typing import Any

from phalanx.errors import Error
from phalanx.sanitizer.finding_text import lines_of, plain_text
from phalanx.sanitizer.findings import Finding
from phalanx.sim.scheduler import Schedule


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
    order: Schedule | None = None
    """The order of events of the first run that found something, for a run that shows it again."""

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

    def _repr_html_(self) -> str:
        """As notebooks show it, where it is the last value of a cell."""
        text = "\n\n".join([*map(plain_text, self.findings), "\n".join([*self._note_lines(), self.summary()])])
        return f"<pre>{html.escape(text)}</pre>"

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
