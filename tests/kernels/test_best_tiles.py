"""Choices for many rows at once are those for each of them, and are made when a second number of rows comes."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from phalanx.kernels import windows
from phalanx.kernels.products import matmul_config, split_config
from phalanx.kernels.products.best_tiles import best_of
from phalanx.kernels.products.by_rows import ByRows, octave
from phalanx.kernels.products.matmul_cuts import Problem
from phalanx.kernels.products.quickest_tiles import promising
from phalanx.kernels.products.tile_model import costs_of, predicted_tiles, predicted_with_fitted, sizes_of_all
from phalanx.runtime.device.devices import Device, device
from support.product_draws import KINDS, drawn

CARD = device()


def of_rows(rng: random.Random, problem: Problem, count: int) -> list[Problem]:
    """The product with other numbers of rows, from few to many, in ascending order."""
    base = 2 ** rng.uniform(0, 10)
    rows = {max(1, round(base * 2 ** rng.uniform(-1, 1))) for _ in range(count)}
    return [replace(problem, m=8 * each) for each in sorted(rows)]


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_many_at_once_are_chosen_as_one_by_one(kind: int) -> None:
    rng = random.Random(800 + kind)
    for _ in range(12):
        problems = of_rows(rng, drawn(rng, KINDS[kind]), 12)
        for whole in (False, True):
            assert best_of(problems, CARD, whole) == [best_of([each], CARD, whole)[0] for each in problems]


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_the_model_of_many_products_is_that_of_each(kind: int) -> None:
    rng = random.Random(900 + kind)
    for _ in range(12):
        problems = of_rows(rng, drawn(rng, KINDS[kind]), 5)
        problems = [each for each in problems if costs_of(each) is costs_of(problems[0])]
        costs = costs_of(problems[0])
        each = [predicted_with_fitted(problem, CARD) for problem in problems]
        table, count = each[0][0], each[0][2]
        at_once = predicted_tiles(table, problems[0], CARD, costs, sizes=sizes_of_all(problems, costs).columns)
        singly = np.array([predicted_tiles(table, problem, CARD, costs) for problem in problems])
        assert (at_once.reshape(singly.shape) == singly).all()
        _, few, _ = promising(problems, sizes_of_all(problems, costs), CARD)
        for found, (_, wanted, _) in zip(few, each):
            known = np.isfinite(found)
            assert (found[known] == wanted[known]).all(), "what is known is the model's time"
            assert np.argmin(found[:count]) == np.argmin(wanted[:count])
            assert (found[:2] == wanted[:2]).all() and (found[count:] == wanted[count:]).all()


def test_windows_are_octaves_up_to_a_length() -> None:
    assert octave(1, 256) == octave(16, 256) == range(1, 17)
    assert octave(17, 256) == range(17, 33) and octave(64, 256) == range(33, 65)
    assert octave(1000, 256) == range(769, 1025) and octave(1025, 256) == range(1025, 1281)
    assert octave(64, 32) == range(33, 65) and octave(65, 32) == range(65, 97)
    for longest in (32, 64, 256):
        followed = 1
        while followed < 3000:
            found = octave(followed, longest)
            assert found[0] == followed and all(octave(eights, longest) == found for eights in found)
            followed = found[-1] + 1


class Asked:
    """Chooses a product's rows, and notes for which it was asked."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []

    def __call__(self, problems: Sequence[Problem], device: Device) -> list[int]:
        self.rows.append([problem.m for problem in problems])
        return [problem.m for problem in problems]


def test_the_second_of_a_window_chooses_for_all() -> None:
    asked = Asked()
    choices = ByRows(asked, 64)
    for rows in (136, 136, 400, 256, 144, 4096):
        assert choices.of(Problem(rows, 512, 512), CARD) == rows
    assert asked.rows == [[136], [400], list(range(136, 257, 8)), [4096]]
    assert choices.of(Problem(136, 512, 1024), CARD) == 136, "other weights are chosen for on their own"
    assert choices.of(Problem(136, 512, 512), replace(CARD, sms=66)) == 136, "and so are other devices"
    assert asked.rows[4:] == [[136], [136]]


def test_rows_that_are_not_in_eights_are_chosen_for_alone() -> None:
    asked = Asked()
    choices = ByRows(asked, 64)
    for rows in (136, 140, 141):
        assert choices.of(Problem(rows, 512, 512), CARD) == rows
    for rows in (136, 144, 152):
        assert choices.of(Problem(rows, 512, 512, by_k=(False, True)), CARD) == rows
    assert asked.rows == [[136], [140], [141], [136], [144], [152]]


def test_no_more_choices_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "CHOICES", 40)
    asked = Asked()
    choices = ByRows(asked, 64)
    for rows in (8, 16, 136, 144, 264, 272, *range(8000, 8080, 8)):
        assert choices.of(Problem(rows, 512, 512), CARD) == rows
        assert len(choices.made) <= 40
    assert [len(rows) for rows in asked.rows] == [1, 16, 1, 16, 1, 1, *[1] * 10], "no windows without room"
    assert choices.of(Problem(8072, 512, 512), CARD) == 8072 and len(asked.rows) == 16
    assert choices.of(Problem(8, 512, 512), CARD) == 8 and asked.rows[16:] == [[8]], "the oldest was forgotten"


def test_threads_find_their_choices_while_others_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "CHOICES", 16)
    choices = ByRows(Asked(), 64)

    def ask(seed: int) -> bool:
        rng = random.Random(seed)
        rows = [8 * rng.randint(1, 100) for _ in range(2000)]
        return all(choices.of(Problem(m, 512, 512), CARD) == m for m in rows)

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(ask, range(4)))
    finally:
        sys.setswitchinterval(switching)
    assert len(choices.made) <= 16


@pytest.mark.parametrize("n, k, by_k", [(6144, 4096, (True, True)), (2048, 7168, (True, True)), (4096, 8192, (True, False))])
def test_splits_of_many_rows_are_those_of_each(n: int, k: int, by_k: tuple[bool, bool]) -> None:
    matmul_config.SPLITS.clear()
    rows = [8, 16, 60, 136, 419, 424, 512]
    at_once = [matmul_config.split_choice(Problem(m, n, k, by_k=by_k)) for m in (*rows, *rows)]
    assert len(matmul_config.SPLITS.made) > len(rows), "windows were chosen for"
    for m, found in zip((*rows, *rows), at_once):
        matmul_config.SPLITS.clear()
        assert matmul_config.split_choice(Problem(m, n, k, by_k=by_k)) == found


def test_split_k_for_many_rows_is_that_of_each() -> None:
    split_config.CHOSEN.clear()
    chosen = [split_config.choose_split(m, 4096, 4096) for m in (8, 9, 16, 128, 500)]
    for m, found in zip((8, 16, 16, 128, 504), chosen):
        assert split_config.best_either_way(m, 4096, 4096, True, True, device())[0] == found
    eight, rounded = (split_config.best_either_way(m, 1000, 1000, True, True, device())[0] for m in (341, 344))
    assert split_config.choose_split(341, 1000, 1000) == rounded != eight, "rows in eights have one choice"
