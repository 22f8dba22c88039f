"""Every example on the GPU: the same result as NumPy, with and without the watchdog."""

from __future__ import annotations

import dataclasses

import pytest

from examples.cases import EXAMPLES, random_case
from examples.simple import NAMES, SIZES, case
from phalanx.runtime.launch.dispatch import BoundLaunch

pytestmark = pytest.mark.gpu
pytest.importorskip("torch")


def mover():
    from common import gpu_mover

    found = gpu_mover()
    assert found is not None
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_with_the_watchdog(name: str) -> None:
    case = random_case(name, 0)
    watched = dataclasses.replace(case.launch.kernel, watchdog=True)
    case.launch = BoundLaunch(watched, case.launch.grid)
    case.run(*mover())


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("seed", range(6))
def test_is_right(name: str, seed: int) -> None:
    random_case(name, seed).run(*mover())


@pytest.mark.parametrize("watchdog", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_simple_ones(name: str, watchdog: bool) -> None:
    for sizes in SIZES[name]:
        made = case(name, **sizes)
        made.launch = BoundLaunch(dataclasses.replace(made.launch.kernel, watchdog=watchdog), made.launch.grid)
        made.run(*mover())
