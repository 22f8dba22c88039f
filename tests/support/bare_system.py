"""A system that has neither NVIDIA's packages nor what Windows lacks of POSIX, made of the one that runs the tests.

`pytest -p support.bare_system tests/sim` runs tests there; `tests/test_platforms.py` runs a program. What is taken away is
the packages, and the names that Python's `os` has on POSIX alone. `sys.platform` stays: Python's own library chose its
parts by it when it was loaded.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from typing import Any

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


def pytest_configure(config: Any) -> None:
    """pytest asks the real system for its folders."""
    from _pytest import tmpdir

    user = tmpdir.get_user_id()
    tmpdir.get_user_id = lambda: user  # type: ignore[attr-defined]
    bare()
