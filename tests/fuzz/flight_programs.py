"""Whole programs: products whose left operand is computed into registers while others are in flight."""

from __future__ import annotations

import importlib.util
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.flight_draft import KINDS, Draft, indented
from fuzz.flight_forms import FORMS, Plan
from fuzz.flight_operands import Tile

MOST_BYTES = 180_000
MOST_SUMS = 128
"""Registers of a thread that all accumulators of a program have together."""
OTHERS = 56
"""Registers of a thread for all else: the assembler refuses a program that has fewer."""
COLUMNS = (8, 16, 24, 32, 40, 64, 64, 96, 128, 128, 192, 256)
SEVERAL = ("arms", "two sums", "twice", "promoted")
"""Forms with two accumulators or more."""


@dataclass
class Case:
    """A kernel as text, and its arguments."""

    seed: int
    text: str
    names: list[str]
    arguments: list[Any]
    outputs: list[str]
    features: list[str]
    exact: bool
    loaded: dict[str, Any] = field(default_factory=dict)
    """Kernels by their text."""

    def load(self, folder: Path) -> Any:
        """The kernel, read from a file of its own. It is loaded once, so that it is read and prepared once."""
        if self.text not in self.loaded:
            self.loaded[self.text] = self._load(folder)
        return self.loaded[self.text]

    def _load(self, folder: Path) -> Any:
        name = f"flight_{self.seed}"
        path = folder / f"{name}.py"
        path.write_text(self.text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        finally:
            del sys.modules[name]
        return module.program

    def copies(self) -> list[Any]:
        return [x.copy() if isinstance(x, np.ndarray) else x for x in self.arguments]

    def results(self, arguments: list[Any]) -> dict[str, np.ndarray]:
        """The outputs among the arguments of a run."""
        return {name: arguments[self.names.index(name)] for name in self.outputs}


def draw(seed: int) -> Case:
    """The case of a seed, the same on every machine."""
    for attempt in range(100):
        case = _drawn(seed, attempt)
        if case is not None:
            return case
    raise AssertionError(f"seed {seed}: no program fits")


def _drawn(seed: int, attempt: int) -> Case | None:
    rng = random.Random(seed * 1013 + attempt)
    draft = Draft(rng, np.random.default_rng([seed, attempt]))
    kind = rng.choice(KINDS)
    form = rng.choice(list(FORMS))
    groups = rng.choice((1, 1, 1, 2))
    along = "n" if groups == 2 and rng.random() < 0.3 else "m"
    rows = 64 * (groups if along == "m" else 1) * rng.choice((1, 1, 1, 2))
    n = rng.choice(COLUMNS)
    if along == "n":
        n = max(16, 1 << n.bit_length() - 1)
    if kind.whole and n == 40:
        n = 48
    k = kind.depth * rng.choice((1, 1, 2, 2, 4))
    steps = rng.choice((2, 4, 6)) if form == "promoted" else rng.choice((1, 2, 3, 4, 5, 6))
    by_n = kind.left in ("bf16", "f16") and n % 16 == 0 and along == "m" and rng.random() < 0.25
    sums = rows * n // (128 * groups) // (2 if kind.sums == "f16" else 1)
    if sums * (3 if form == "promoted" else 2 if form in SEVERAL else 1) > MOST_SUMS:
        return None
    if rows * k // (128 * groups) > 96:
        return None
    draft.note(form)
    plan = Plan(draft, Tile(rows, k, steps, kind, rows, along=along), n, 4 * groups, along, by_n)
    body = FORMS[form](plan)
    if draft.shared_bytes > MOST_BYTES or sums + OTHERS > plan.registers:
        return None
    setup = list(draft.shared)
    if draft.copies:
        setup += ["ready = px.barrier()", "with ready.transaction():", *indented(draft.copies), "ready.wait(0)"]
    functions = [line for lines in draft.functions.values() for line in (*lines[:1], *lines[1:], "", "")]
    lines = [
        f'"""Products in flight {seed}: {", ".join(draft.features)}."""', "", "import phalanx as px", "", "", *functions,
        f"@px.kernel(warps={plan.warps})", f"def program({', '.join(draft.names)}):", *indented([*setup, *body]),
    ]  # fmt: skip
    features = [*draft.features, kind.left, f"sums {kind.sums}", f"{rows} x {n} x {k}", f"{groups} warpgroups along {along}"]
    return Case(
        seed, "\n".join(lines) + "\n", draft.names, draft.arguments, draft.outputs, features, kind.sums != "f16"
    )
