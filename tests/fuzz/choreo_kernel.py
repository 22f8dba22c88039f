"""Whole kernels: sections of chains, one after the other, with what has to stand between them."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.choreo_chains import Chain, chain
from fuzz.choreo_parts import Cluster, Draft, indented

SHAPES = ((1, 1),) * 5 + ((2, 1),) * 6 + ((4, 1),) * 3 + ((2, 2),) * 3 + ((1, 2), (8, 1), (4, 2), (2, 4))
RARE = (16, 1)
MOST_BYTES = 190_000
MOST_WARPS = 16


@dataclass
class Case:
    """A kernel as text, its launch, and what its outputs must hold afterwards."""

    seed: int
    text: str
    grid: tuple[int, int]
    names: list[str]
    arguments: list[Any]
    computed: dict[str, Callable[[], np.ndarray]]
    features: list[str]

    @cached_property
    def expected(self) -> dict[str, np.ndarray]:
        """What NumPy says that the outputs hold."""
        return {name: compute() for name, compute in self.computed.items()}

    def load(self, folder: Path, text: str | None = None, name: str = "choreography") -> Any:
        """The kernel, or another `text` of it, read from a file of its own."""
        return load(self.text if text is None else text, folder, f"{name}_{self.seed}")

    def copies(self) -> list[Any]:
        return [x.copy() if isinstance(x, np.ndarray) else x for x in self.arguments]


def load(text: str, folder: Path, name: str) -> Any:
    """The kernel `program` of a text, as a module of its own."""
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]  # else all kernels of a run stay, and the collector goes through them again and again
    return module.program


def draw(seed: int) -> Case:
    """The case of a seed, the same on every machine."""
    for attempt in range(100):
        case = _drawn(seed, attempt)
        if case is not None:
            return case
    raise AssertionError(f"seed {seed}: no kernel fits")


def _drawn(seed: int, attempt: int) -> Case | None:
    rng = random.Random(seed * 1009 + attempt)
    x, y = rng.choice(SHAPES) if rng.random() > 0.01 else RARE
    clusters = rng.choice((1, 1, 2, 3)) if x * y < 8 else 1
    draft = Draft(rng, np.random.default_rng([seed, attempt]), Cluster(x, y), clusters)
    rings = iter(range(100))
    body: list[str] = []
    sections = rng.choice((1, 1, 2))
    warps: list[int] = []
    exact: list[int] = []
    for section in range(sections):
        flat = rng.random() < 0.3
        count = 1 if flat or rng.random() < 0.7 else 2
        chains = [chain(draft, lambda: next(rings), flat=flat) for _ in range(count)]
        if section:
            draft.note("two sections")
            body += _between(draft)
        lines, used = _section(draft, chains, flat, last=section == sections - 1, before=max(warps, default=0))
        if section < sections - 1:  # a later wait of the same agent may do as well
            lines = [line.replace("# needed: before the CTA ends", "# before the CTA ends") for line in lines]
        body += lines
        draft.over, draft.buffers = draft.buffers, []
        warps.append(used)
        exact += [used] if flat and chains[0].roles[0].exact else []
    if max(warps) > MOST_WARPS or draft.shared_bytes > MOST_BYTES or any(n != max(warps) for n in exact):
        return None
    options = [f"warps={max(warps)}", draft.cluster.option]
    if draft.cluster.size > 1 and "regs=" not in draft.features and draft.chance(0.15):
        options.append("exit_sync=False")
        body.append("px.cluster.sync()")
        draft.note("exit_sync=False")
    text = [
        f'"""Choreography {seed}: {", ".join(draft.features)}."""', "", "import phalanx as px", "", "",
        f"@px.kernel({', '.join(options)})", f"def program({', '.join(draft.names)}):",
        *indented(["rank = px.cluster.rank()", *body]),
    ]  # fmt: skip
    grid = (x * clusters, y)
    return Case(seed, "\n".join(text) + "\n", grid, draft.names, draft.arguments, draft.expected, draft.features)


def _between(draft: Draft) -> list[str]:
    """What lies between two sections, the second of which may take over memory of the first, and let engines write it.

    What threads of another CTA have stored is fenced by whoever issues such a copy, once it has learned of it: a fence of
    the CTA alone would do where the copy is its own, but not for one into the CTA that they stored into.
    """
    if any(feature in draft.features for feature in ("meeting store", "pass remote", "pass cluster.store")):
        return ["px.cluster.sync()", 'px.fence.async_proxy("cluster")']
    return ["px.fence.async_proxy()", "px.cluster.sync()" if draft.cluster.size > 1 else "px.sync()"]


def _section(draft: Draft, chains: list[Chain], flat: bool, *, last: bool, before: int) -> tuple[list[str], int]:
    """The declarations and the agents of a section, and how many warps they are; earlier sections have `before`."""
    lines = [line for one in chains for line in one.declared]
    if draft.started:
        meet = "px.cluster.sync()" if draft.cluster.size > 1 else "px.sync()"
        lines += [*draft.started, "px.fence.barrier_init()", meet]
        draft.started = []
    roles = [role for one in chains for role in one.roles]
    if flat:
        (role,) = roles
        return [*lines, *role.lines()], role.warps
    draft.rng.shuffle(roles)
    roles.sort(key=lambda role: not role.aligned)  # whole warpgroups begin at multiples of four warps
    first = 0
    limited = last and all(role.warps % 4 == 0 for role in roles) and draft.chance(0.7)
    # Warps that have no role here keep the registers that they start with, which the sum below does not foresee.
    limited = limited and sum(role.warps for role in roles) >= before
    if limited:
        draft.note("regs=")
        groups = sum(role.warps for role in roles) // 4
        few = sum(role.warps for role in roles if role.feeds) // 4
        most = min(232, (512 // max(groups, 2) * groups - 40 * few) // max(1, groups - few) // 8 * 8)
    for role in roles:
        regs = f", regs={40 if role.feeds else most}" if limited else ""
        lines += [f"with px.warps({first}, {role.warps}{regs}):", *indented(role.lines())]
        first += role.warps
    return lines, first
