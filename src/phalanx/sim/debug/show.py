"""The state of a run as text: agents, memory, barriers, copies, values."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np

from phalanx.errors import columns_text
from phalanx.ir.types import FROM_NUMPY
from phalanx.ir.views import Buffer
from phalanx.location import NOWHERE, Location
from phalanx.sim.agents import Agent
from phalanx.sim.barriers import MBarrier
from phalanx.sim.debug.run import Run, awaited, position_of, who
from phalanx.sim.debug.waits import copy_text, in_flight, is_spinning, needs_of, waits_for
from phalanx.sim.machine import Cluster, Cta
from phalanx.sim.report import barrier_counts

AROUND = 4
"""Source lines that are listed before and after a place."""
ITEMS = 128
"""A tile of more elements is shown by its edges."""
WIDTH = 112


def place_text(place: Location) -> list[str]:
    """The source line of a place, and the calls that lead there."""
    if place is NOWHERE or not place.line:
        return []
    lines = [f"{place.line:5} | {place.text.rstrip()}"]
    caller = place.caller
    while caller is not None:
        lines.append(f"      = called at {caller.short}: {caller.text.strip()}")
        caller = caller.caller
    return lines


def source_text(place: Location) -> list[str]:
    """The lines around a place, which is marked."""
    first = max(1, place.line - AROUND)
    lines = [(n, linecache.getline(place.file, n).rstrip("\r\n")) for n in range(first, place.line + AROUND + 1)]
    return [f"{n:5} {'>' if n == place.line else '|'} {text}".rstrip() for n, text in lines if text or n <= place.line]


def agent_text(agent: Agent, run: Run) -> list[str]:
    """Where an agent is, and what it waits for."""
    place = position_of(agent, run).place
    at = "has not begun" if place is NOWHERE else f"at {place.short}"
    lines = [f"{who(agent)}, {at} (tick {run.tick})", *place_text(place)]
    if awaited(agent, run) is not None or is_spinning(agent):
        lines.append(f"  {waits_for(agent, run)}")
    return lines


def agents_text(clusters: list[Cluster], focus: Agent | None, run: Run) -> list[str]:
    """A row for each agent: its number, who it is, where, what it waits for."""
    rows = [("", "#", "cluster", "CTA", "role", "at", "")]
    for number, agent in enumerate(agent for cluster in clusters for agent in cluster.agents()):
        place = position_of(agent, run).place
        at = "-" if place is NOWHERE else place.short
        cta = agent.cta
        mark = ">" if agent is focus else ""
        rows.append((mark, str(number), str(cta.cluster.index), str(cta.rank), agent.role, at, waits_for(agent, run)))
    return [line.rstrip() for line in columns_text(rows).splitlines()]


def waits_text(clusters: list[Cluster], run: Run) -> list[str]:
    """Every agent that waits, what its wait lacks and who would bring it."""
    lines: list[str] = []
    for agent in (agent for cluster in clusters for agent in cluster.agents()):
        thing = awaited(agent, run)
        if isinstance(thing, list) or (thing is None and not is_spinning(agent)):
            continue  # of one that waits for its roles, they have lines of their own
        place = position_of(agent, run).place
        lines.append(f"{who(agent)}, at {place.short}: {waits_for(agent, run)}")
        lines += [f"  {line}" for line in needs_of(agent, run)]
    return lines or ["nobody waits"]


def barriers_text(ctas: list[Cta], name: str = "") -> list[str]:
    """The state of barriers, and who waits for them."""
    lines = []
    for cta in ctas:
        for array, barriers in cta.barriers.items():
            if array.exchange or (name and name not in (array.name, array.title)):
                continue
            lines += [f"{barrier.name} of CTA {cta.rank}: {state_of(barrier)}" for barrier in barriers]
    return lines or ["there is no such barrier" if name else "the kernel has no barriers"]


def state_of(barrier: MBarrier) -> str:
    """A barrier's phase, its pending arrivals and its bytes, and who waits for it."""
    if not barrier.live:
        return "invalidated" if barrier.invalidated else "not initialised"
    waiters = [f"{agent.role} of CTA {agent.cta.rank}" for agent, _ in barrier.waiters]
    return barrier_counts(barrier) + (f"; waited for by {', '.join(waiters)}" if waiters else "")


def copies_text(clusters: list[Cluster]) -> list[str]:
    """Work of engines in flight."""
    return [copy_text(copy) for cluster in clusters for copy in in_flight(cluster)] or ["nothing is in flight"]


def memory_text(cta: Cta, layout: Callable[[Buffer], str]) -> list[str]:
    """The buffers of a CTA: type, size and layout."""
    lines = []
    for buffer in cta.buffers:
        shape = ", ".join(map(str, buffer.shape))
        lines.append(f"{buffer.space.name} {buffer.name}: {buffer.dtype}[{shape}], {buffer.size_text}")
        arranged = layout(buffer)
        lines += [f"  {arranged}"] if arranged else []
    return lines or ["the kernel has no buffers"]


def value_text(name: str, value: Any) -> list[str]:
    """A value as people read it: numbers and barriers on one line, tiles below their type."""
    if isinstance(value, MBarrier):
        return [f"{name}: {state_of(value)}"]
    if isinstance(value, list):
        return [line for n, item in enumerate(value) for line in value_text(f"{name}[{n}]", item)]
    if isinstance(value, np.ndarray) and value.ndim:
        shape = ", ".join(map(str, value.shape))
        text = np.array2string(value, threshold=ITEMS, max_line_width=WIDTH)
        return [f"{name}: {type_text(value)}[{shape}]", *text.splitlines()]
    if isinstance(value, np.generic | np.ndarray):
        return [f"{name} = {value}"]
    return [f"{name} = {value}"]


def type_text(value: np.ndarray) -> str:
    """The element type of an array, as kernels name it."""
    dtype = FROM_NUMPY.get(value.dtype)
    return str(value.dtype) if dtype is None else dtype.name


def short_text(name: str, value: Any) -> str:
    """A variable on one line."""
    if isinstance(value, np.ndarray) and value.size > 8:
        shape = ", ".join(map(str, value.shape))
        return f"{name}: {type_text(value)}[{shape}]"
    lines = value_text(name, value)
    return f"{lines[0]} = {' '.join(line.strip() for line in lines[1:])}" if len(lines) > 1 else lines[0]
