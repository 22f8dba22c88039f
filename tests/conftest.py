"""What every test folder shares: the golden switch, and skipping GPU tests where there is no GPU."""

from __future__ import annotations

import ctypes
import gc
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from support.host_build import NoCompiler

settings.register_profile("no times", deadline=None)  # machines are shared: a slow case is no wrong one
settings.load_profile("no times")
# Constants of the sources are none of what is drawn: each process would read all files for them, and what is drawn would
# depend on which ones happen to be loaded.
providers.is_local_module_file = lambda path: False


gc.disable()  # nothing of what is collected goes again: looking through it anew costs a third of that time
gc.set_threshold(20_000, 10, 10)  # kernels are many small objects that stay for a test: 700, as usual, finds no garbage


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regenerate", action="store_true", help="write the golden files anew")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Skips what a test does as text on the CPU where no compiler is; what it showed before that has been shown."""
    try:
        return (yield)
    except NoCompiler as missing:
        pytest.skip(str(missing))


def _gpu_missing() -> str | None:
    """Why GPU tests can't run here, or None when they can."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver on this machine"
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "no CUDA device on this machine"
    return None


def _keep_shares(items: list[pytest.Item]) -> None:
    """Marks `long` what the mark `share` leaves out; crossed lists are shared along diagonals, so that all values stay."""
    seen: Counter[str] = Counter()
    for item in items:
        share = item.get_closest_marker("share")
        if share is None:
            continue
        name = item.nodeid.split("[")[0]
        place, total = seen[name], 0
        seen[name] += 1
        _, *inner = item.iter_markers("parametrize")  # the last list turns fastest
        for mark in reversed(inner):
            place, position = divmod(place, len(mark.args[1]))
            total += position
        if (place + total) % share.args[0]:
            item.add_marker(pytest.mark.long)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is long
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _keep_shares(items)
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    reason = _gpu_missing() if gpu_items else None
    if reason:
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def regenerate(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written instead of compared."""
    return bool(request.config.getoption("--regenerate"))


@pytest.fixture
def sanitizers() -> None:
    """Skips a test where programs can't run under the C++ compiler's sanitizers."""
    from support.host_build import why_not_sanitized

    if reason := why_not_sanitized():
        pytest.skip(reason)
