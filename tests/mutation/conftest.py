"""Prints the score of each kernel's mutants after the run, also where workers ran the tests."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, ())]
    scores = [value for report in reports for name, value in report.user_properties if name == "mutants"]
    if scores:
        terminalreporter.section("mutants")
        for score in scores:
            terminalreporter.write_line(score)
