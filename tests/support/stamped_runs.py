"""Stamps without a GPU: those of a kernel's CUDA text, run on the CPU, and those that the simulator says it has to write."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Any
from unittest.mock import patch

import numpy as np

from phalanx.cuda.abi import STAMP_HEAD, STAMP_RECORDS, Extras, stamp_words
from phalanx.cuda.lower.lower import lower
from phalanx.cuda.module import Module, generate
from phalanx.cuda.text.sites import Site
from phalanx.cuda.text.stamps import stamp_of
from phalanx.ir.archs import arch_of
from phalanx.ir.core import Function, Op
from phalanx.language.kernel import Kernel
from phalanx.machines.rates import rates_of
from phalanx.runtime.launch.stamping import StampedRun, sampled_ctas
from phalanx.runtime.timeline.stamps import title_of
from phalanx.sim.agents import Agent
from phalanx.sim.timeline.clock import Clock, Places
from phalanx.sim.timeline.events import Run
from phalanx.sim.timeline.timer import Timer
from support.front import prepared
from support.host_cuda import launch, type_of

TOLD = "wait", "signal", "copy", "store", "product"
"""Kinds of stamps that the simulator's hooks tell, too; where a group closes, and where agents begin and end, follows."""
RING_WORDS = 2 + 2 * STAMP_RECORDS


@dataclass
class Written:
    """A stamp: when, where, the barrier's index, and the number beside it."""

    start: float
    end: float
    site: Site
    index: int
    more: int

    @property
    def told(self) -> tuple[Any, ...]:
        """All but its times."""
        return self.site.name, self.site.location.line, self.index, self.more


AgentKey = tuple[int, int, str]
"""The cluster, the CTA's rank, and what the agent is called."""


def stamped_text(kernel: Kernel, args: list[Any], *, arch: str = "sm_90a", sample: int = 64, **constants: Any) -> Any:
    """A kernel as the simulator runs it, and its CUDA text with stamps."""
    target = arch_of(arch)
    function = prepared(kernel, tuple(map(type_of, args)), target, **constants)
    return function, generate(lower(function, target, extras=Extras(stamps=sample)))


def stamps_of_text(module: Module, grid: Any, args: list[Any], *, seed: int = 1, sample: int = 64) -> StampedRun:
    """Runs the text on the CPU; the clock there goes on with every reading."""
    shape = (grid,) if isinstance(grid, int) else tuple(grid)
    shape = (*shape, 1, 1)[:3]
    warps = module.threads // 32
    words = np.zeros(stamp_words(sampled_ctas(shape, module.cluster, sample), warps), np.uint64)
    launch(module, shape, args, seed, debug=words)
    return StampedRun(module.entry, "a CPU", "sm_90a", module.sites, shape, module.cluster, warps, words)


def written(run: StampedRun) -> dict[AgentKey, list[Written]]:
    """The stamps of each agent, in its order."""
    found: dict[AgentKey, list[Written]] = {}
    size, step = prod(run.cluster), STAMP_HEAD + run.warps * RING_WORDS
    for cta in range((len(run.words) - STAMP_HEAD) // step):
        for warp in range(run.warps):
            ring = run.words[STAMP_HEAD + cta * step + STAMP_HEAD + warp * RING_WORDS :][:RING_WORDS]
            for start, end, place, more in ring[2 : 2 + 2 * int(ring[0])].view(np.uint32).reshape(-1, 4).tolist():
                site = run.sites[place & 0xFFFF]
                assert site.stamp is not None
                if (start or end) and site.stamp.kind in TOLD:
                    key = cta // size, cta % size, title_of(site, warp)
                    found.setdefault(key, []).append(Written(start, end, site, place >> 16, more))
    return found


@dataclass
class Told:
    """A stamp that the simulator says an agent has to write."""

    op: Op
    start: float
    end: float
    index: int = 0
    more: int = 0


class StampTimer(Timer):
    """The model's clock, which also tells every stamp."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.told: dict[AgentKey, list[Told]] = {}

    def note(self, agent: Agent, op: Op, start: float, index: int = 0, more: int = 0) -> None:
        """One stamp, which ends now."""
        stamp = stamp_of(op.effects())
        if stamp is None or stamp.kind not in TOLD:
            return
        key = agent.cta.cluster.index, agent.cta.rank, self.lane(agent, "").title
        told = self.told.setdefault(key, [])
        if stamp.masked and told and told[-1].op is op and not told[-1].more & more:
            told[-1].more |= more  # one more CTA of the mask
        else:
            told.append(Told(op, start, self.now[agent], index, more if stamp.masked or stamp.kind == "wait" else 0))

    def wait_passed(self, agent: Any, op: Any, barrier: Any, phase: int) -> None:
        before = self.now[agent]
        super().wait_passed(agent, op, barrier, phase)
        self.note(agent, op, before, barrier.index, phase & 1)

    def cluster_passed(self, agent: Any, op: Any, phase: int) -> None:
        before = self.now[agent]
        super().cluster_passed(agent, op, phase)
        self.note(agent, op, before)

    def rendezvous(self, agent: Any, op: Any, rendezvous: Any, phase: int) -> None:
        super().rendezvous(agent, op, rendezvous, phase)
        if not rendezvous.waits:
            self.note(agent, op, self.now[agent])

    def groups_passed(self, agent: Any, op: Any, engine: Any, newest: int, read: bool) -> None:
        before = self.now[agent]
        super().groups_passed(agent, op, engine, newest, read)
        self.note(agent, op, before)

    def arrive(self, agent: Any, op: Any, barrier: Any, count: int) -> None:
        super().arrive(agent, op, barrier, count)
        self.note(agent, op, self.now[agent], barrier.index, 1 << barrier.cta.rank)

    def issue(self, agent: Any, op: Any, copy: Any, accesses: Any) -> None:
        super().issue(agent, op, copy, accesses)
        for barrier in copy.barriers or (None,):
            place = (0, 0) if barrier is None else (barrier.index, 1 << barrier.cta.rank)
            self.note(agent, op, self.now[agent], *place)

    def work_given(self, agent: Any, op: Any, accesses: Any) -> None:
        super().work_given(agent, op, accesses)
        self.note(agent, op, self.now[agent])

    def signal_asked(self, signal: Any) -> None:
        super().signal_asked(signal)
        for barrier in signal.barriers:
            self.note(signal.agent, signal.op, self.now[signal.agent], barrier.index, 1 << barrier.cta.rank)


def stamps_of_model(function: Function, grid: Any, args: list[Any]) -> tuple[Run, dict[AgentKey, list[Told]]]:
    """A modelled run of all clusters, one after the other: its events, and the stamps that it has to write."""
    shape = (grid,) if isinstance(grid, int) else tuple(grid)
    with patch("phalanx.sim.timeline.clock.Timer", StampTimer):
        clock = Clock(function, (*shape, 1, 1)[:3], args, rates_of("sm_90a"), Places(1, 1), {})  # type: ignore[arg-type]
        run = clock.go()
    assert isinstance(clock.timer, StampTimer)
    return run, clock.timer.told


def as_buffer(module: Module, grid: tuple[int, int, int], told: dict[AgentKey, list[Told]]) -> StampedRun:
    """The buffer that a card would have written with the model's times, on one clock for all, in nanoseconds."""
    warps, size = module.threads // 32, prod(module.cluster)
    sites = {
        (title_of(site, warp), site.name, site.location.line): number
        for number, site in enumerate(module.sites)
        for warp in range(warps)
    }
    ctas = prod(grid)
    words = np.zeros(stamp_words(ctas, warps), np.uint64)
    base, step = 1 << 20, STAMP_HEAD + warps * RING_WORDS
    words[0], words[1] = ~np.uint64(base), base + 1 + max(int(each.end) for stamps in told.values() for each in stamps)
    for cta in range(ctas):
        words[STAMP_HEAD + cta * step :][:8] = 1, cta, base, 0, words[1], int(words[1]) - base, 0, 0
    rings: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}
    for (cluster, rank, title), stamps in told.items():
        first = int((re.findall(r"\d+", title) or ["0"])[0])  # of the agent's warps
        for each in stamps:
            place = sites[title, each.op.mnemonic, each.op.loc.line] | each.index << 16
            line = round(each.start) or 1, round(each.end) or 1, place, each.more
            rings.setdefault((cluster * size + rank, first), []).append(line)
    for (cta, warp), lines in rings.items():
        start = STAMP_HEAD + cta * step + STAMP_HEAD + warp * RING_WORDS
        words[start] = len(lines)
        room = words[start + 2 : start + 2 + 2 * len(lines)].view(np.uint32).reshape(-1, 4)
        room[:] = sorted(lines, key=lambda line: line[:2])
    return StampedRun(module.entry, "the model", "sm_90a", module.sites, grid, module.cluster, warps, words)
