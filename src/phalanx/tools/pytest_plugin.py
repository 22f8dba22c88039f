"""The pytest fixture `px_check`, which ships with the package.

Example::

    def test_ring_is_clean(px_check):
        px_check(ring[2], x, y, STAGES=3)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from phalanx.sanitizer.report import Report


@pytest.fixture
def px_check() -> Callable[..., Report]:
    """`px.check` that fails the test, with the whole report, if there is a finding; returns the report."""

    def run(bound: Any, *args: Any, **options: Any) -> Report:
        __tracebackhide__ = True
        import phalanx as px

        report = px.check(bound, *args, **options)
        if not report.ok:
            pytest.fail(str(report), pytrace=False)
        return report

    return run
