"""The kernels that measure a card do what they say: in the simulator without findings, with the right results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.tools.calibrate import copies, products, threads
from phalanx.tools.calibrate.measure import PROBES
from phalanx.tools.calibrate.probe import Probe

STEPS = 3
SMS = 2


class HostArrays:
    """Arrays for the simulator: as on a card, of two SMs."""

    real = True
    sms = SMS

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.zeros(shape, dtype.numpy)

    def numbers(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return np.random.default_rng(0).standard_normal(shape).astype(dtype.numpy)

    def indices(self, values: Any) -> Any:
        return np.asarray(values, np.int32)


EVERY = (*PROBES, threads.CLOCK[0], products.AT_WORK, copies.reread(2))
FEWER = {threads.chain: {"LENGTH": 4}}
"""Constants with which the simulator is quick."""


def arguments(probe: Probe, steps: int = STEPS) -> tuple[list[Any], dict[str, Any]]:
    """What a probe is launched with."""
    given = [*probe.arrays(HostArrays(), steps), probe.given(steps)]
    return given, {**dict(probe.constants), **FEWER.get(probe.kernel, {})}


@pytest.mark.parametrize("probe", EVERY, ids=lambda probe: f"{probe.finds}-{probe.kernel.name}")
def test_a_probe_has_no_findings(probe: Probe) -> None:
    args, constants = arguments(probe)
    px.check(probe.bound(SMS, 2), *args, **constants).raise_if_found()


def probe_of(name: str) -> Probe:
    return next(probe for probe in PROBES if probe.finds == name)


@pytest.mark.parametrize("name", ["load_latency", "load_latency_hbm"])
def test_a_chase_follows_its_table(name: str) -> None:
    probe = probe_of(name)
    (table, found, steps), _ = arguments(probe)
    assert len(set(table[table > 0])) == STEPS + 1
    probe.bound(SMS, STEPS)(table, found, steps)
    assert found[0] == table.max()


def test_loads_out_of_hbm_never_share_a_page() -> None:
    (table, _, _), _ = arguments(probe_of("load_latency_hbm"))
    places = np.sort(table[table > 0])
    assert (np.diff(np.concatenate([[0], places])) * 4 == threads.PAGE).all()


def test_atomics_leave_a_word_of_zero() -> None:
    (table, steps), _ = arguments(probe_of("atomic_latency"))
    probe_of("atomic_latency").bound(SMS, STEPS)(table, steps)
    assert not table.any()


def test_all_tiles_are_copied() -> None:
    (x, y, steps), _ = arguments(probe_of("hbm_rate"))
    x[:] = np.random.default_rng(0).standard_normal(x.shape)
    probe_of("hbm_rate").bound(SMS, STEPS)(x, y, steps)
    assert len(x) == SMS * STEPS * copies.ROWS and np.array_equal(x, y)


def test_arithmetic_runs_step_by_step() -> None:
    x = np.array([1, 2, 3], np.float32)
    threads.chain[1](x, 2, LENGTH=2)
    assert x[0] == ((((1 * 2 + 3) * 2 + 3) * 2 + 3) * 2 + 3)
    row = np.zeros(8192, np.float32)
    threads.multiplied[1](row, 2)
    assert np.allclose(row, 2.0, atol=1e-6)
    row[:] = 0
    threads.powers[1](row, 0)
    assert not row.any()


@pytest.mark.parametrize("name", ["tensor_rate", "shared_rate", "tensor_drain", "tensor_drain_registers"])
def test_products_add_up(name: str) -> None:
    probe = probe_of(name)
    (a, y, steps), constants = arguments(probe)
    probe.bound(1, STEPS)(a, y, steps, **constants)
    shape = {"M": 64, "N": 64, "K": 16} if probe.kernel is not products.products else {"M": 128, "N": 256, "K": 64}
    m, n, k = ({**shape, **constants}[size] for size in "MNK")
    wide = a.astype(np.float32)
    assert np.allclose(y[:m, :n], steps * wide[:m, :k] @ wide[:n, :k].T, rtol=1e-3, atol=1e-3)


def test_products_of_warps_add_up() -> None:
    (a, y, steps), _ = arguments(probe_of("tensor_share_mma"))
    products.by_warps[1](a, y, steps)
    wide = a.astype(np.float32)[:64, :32]
    assert np.allclose(y[:256, :64], np.tile(steps * wide @ wide.T, (4, 1)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("name", "word"), [("tensor_share_mma", "mma.sync"), ("tensor_rate", "wgmma.mma_async")])
def test_products_run_on_what_they_measure(name: str, word: str) -> None:
    probe = probe_of(name)
    args, constants = arguments(probe)
    made = px.compile(probe.bound(SMS, STEPS), *args, arch="sm_90a", **constants)
    assert word in made.ptx and not made.spills


def test_each_number_has_one_probe() -> None:
    names = [probe.finds for probe in PROBES]
    assert len(set(names)) == len(names) == 34
