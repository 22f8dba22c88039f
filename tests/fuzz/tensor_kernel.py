"""Draws a kernel for Blackwell's tensor cores that the language accepts; what it refuses is drawn anew."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

import phalanx as px
from fuzz import tensor_alone, tensor_plan
from fuzz.tensor_case import Case
from fuzz.tensor_roles import Roles

ATTEMPTS = 200
ALONE, DOT = 0.25, 0.15
"""Shares of kernels of one agent, with products of its own and with `px.dot`; the others have roles."""


def draw(seed: int, folder: Path) -> Case:
    """The case of a seed, the same on every machine. An internal error is raised on."""
    refused: list[str] = []
    for attempt in range(ATTEMPTS):
        case = sketch(seed, attempt, folder, refused)
        if case is None:
            continue
        try:
            assert case.module is not None
            return case
        except px.Error as error:
            if error.message.startswith("internal"):
                raise
            refused = [*refused, f"{error.message}\n{case.text}"]
    raise AssertionError(f"seed {seed}: no kernel is accepted:\n" + "\n".join(refused))


def sketch(seed: int, attempt: int, folder: Path, refused: list[str]) -> Case | None:
    """What is drawn at one attempt, whether the language accepts it or not; None where sizes do not fit together."""
    rng, data = random.Random(seed * 1009 + attempt), np.random.default_rng([seed, attempt])
    title = f"Tensor {seed}."
    way = rng.random()
    if way < ALONE + DOT:
        alone = tensor_alone.drawn(rng, data)
        if alone is None:
            return None
        alone.tensor = alone.tensor and way < ALONE
        body, result = alone.written() if way < ALONE else alone.dotted()
        text = alone.text(title, body)
        return Case(seed, text, 1, alone.arguments, {"C": result}, alone.features, folder, refused)
    plan = tensor_plan.drawn(rng)
    if plan is None:
        return None
    arguments, expected = plan.arrays(data)
    grid = plan.cluster * plan.clusters
    return Case(seed, Roles(plan).text(title), grid, arguments, expected, plan.features, folder, refused)
