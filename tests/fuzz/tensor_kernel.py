"""Draws a kernel for Blackwell's tensor cores that the language accepts; what it refuses is drawn anew."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

import phalanx as px
from fuzz.tensor_case import Case
from fuzz.tensor_plan import drawn
from fuzz.tensor_roles import Roles

ATTEMPTS = 200


def draw(seed: int, folder: Path) -> Case:
    """The case of a seed, the same on every machine. An internal error is raised on."""
    refused: list[str] = []
    for attempt in range(ATTEMPTS):
        case = _drawn(seed, attempt, folder, refused)
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


def _drawn(seed: int, attempt: int, folder: Path, refused: list[str]) -> Case | None:
    rng = random.Random(seed * 1009 + attempt)
    plan = drawn(rng)
    if plan is None:
        return None
    arguments, expected = plan.arrays(np.random.default_rng([seed, attempt]))
    text = Roles(plan).text(f"Tensor {seed}: {plan.types.text}.")
    grid = plan.cluster * plan.clusters
    return Case(seed, text, grid, arguments, expected, plan.features, folder, refused)
