"""A system that has neither NVIDIA's packages nor what Windows lacks of POSIX, made of the one that runs the tests.

`pytest -p support.bare_system tests/sim` runs tests there; `tests/test_platforms.py` runs a program. What is taken away is
the packages, and the names that Python's `os` has on POSIX alone. `sys.platform` stays: Python's own library chose its
parts by it when it was loaded.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

PACKAGES = ("cuda", "nvidia", "fcntl", "grp", "pwd", "resource")
"""NVIDIA's, and modules of Python that Windows has not."""
CALLS = (
    "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "chown", "fchmod", "fork", "getegid", "geteuid", "getgid", "getuid", "killpg",
    "mkfifo", "sched_getaffinity", "setsid", "sysconf",
)  # fmt: skip


class Missing:
    """Finds nothing, loudly, for a package that is not installed."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> None:
        if name.partition(".")[0] in PACKAGES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def bare() -> None:
    """Takes it all away from this process."""
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]
    sys.meta_path.insert(0, Missing())
    for name in CALLS:
        if hasattr(os, name):
            delattr(os, name)
    multiprocessing.get_all_start_methods = lambda: ["spawn"]  # type: ignore[method-assign]


UNCOMPILED = ("NVRTC is not available", "No module named 'cuda", "host_build.py", "has no attribute 'fork'")
"""What a failure says that comes of a compiler, or of processes begun by fork, which such a system has not."""


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Iterator[None]:
    """A test that compiles CUDA text, or runs it on the CPU, is skipped."""
    outcome = yield
    report = outcome.get_result()
    if report.failed and any(word in str(report.longrepr) for word in UNCOMPILED):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, "needs a compiler, or fork")


def pytest_configure(config: Any) -> None:
    """pytest asks the real system for its folders."""
    from _pytest import tmpdir

    user = tmpdir.get_user_id()
    tmpdir.get_user_id = lambda: user  # type: ignore[attr-defined]
    bare()
