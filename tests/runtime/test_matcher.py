"""The generated matcher says yes exactly where `call_key` is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phalanx.runtime.device.arrays import call_key
from phalanx.runtime.launch.matcher import make_matcher


@pytest.fixture
def example(torch: Any) -> tuple[Any, ...]:
    return (
        torch.Tensor(0x1000, (4, 8), (8, 1)),
        3,
        2.5,
        True,
        torch.Tensor(0x2008, (5,), (1,), "int8"),
        1 << 40,
    )


def test_pointers_and_values_come_back(torch: Any, example: tuple[Any, ...]) -> None:
    match = make_matcher(example)
    assert match(example) == [0x1000, 3, 2.5, True, 0x2008, 1 << 40]
    other = (
        torch.Tensor(0x5550, (4, 8), (8, 1)),
        -7,
        0.0,
        False,
        torch.Tensor(0x2018, (5,), (1,), "int8"),
        1 << 41,
    )
    assert match(other) == [0x5550, -7, 0.0, False, 0x2018, 1 << 41]
    assert call_key(other)[0] == call_key(example)[0]


@pytest.mark.parametrize(
    ("position", "replacement"),
    [
        (0, ((0x1004, (4, 8), (8, 1)), {})),
        (0, ((0x1000, (8, 4), (8, 1)), {})),
        (0, ((0x1000, (4, 8), (1, 4)), {})),
        (0, ((0x1000, (4, 8), (8, 1)), {"dtype": "int32"})),
        (0, ((0x1000, (4, 8, 1), (8, 1, 1)), {})),
        (0, 3),
        (0, np.zeros((4, 8), np.float32)),
        (1, 1 << 31),
        (1, 3.0),
        (1, True),
        (1, ((0x1000, (), ()), {})),
        (2, 2),
        (3, 1),
        (4, None),
        (5, 5),
        (5, 1 << 63),
    ],
)
def test_anything_else_is_refused(
    torch: Any, example: tuple[Any, ...], position: int, replacement: Any
) -> None:
    if isinstance(replacement, tuple):
        replacement = torch.Tensor(*replacement[0], **replacement[1])
    changed = (*example[:position], replacement, *example[position + 1 :])
    assert make_matcher(example)(changed) is None
    if replacement is not None:
        assert call_key(changed)[0] != call_key(example)[0]


def test_number_of_arguments(example: tuple[Any, ...]) -> None:
    match = make_matcher(example)
    assert match(example[:-1]) is None
    assert match((*example, 1)) is None
    assert make_matcher(())(()) == []
    assert make_matcher(())((1,)) is None


def test_other_arrays_go_through_call_key() -> None:
    x, y, z = np.zeros((4, 8)), np.ones((4, 8)), np.zeros((4, 9))
    match = make_matcher((x, 3))
    assert match((x, 4)) == [x.ctypes.data, 4]
    assert (match((y, 4)) is not None) == (x.ctypes.data % 16 == y.ctypes.data % 16)
    assert match((z, 4)) is None


def test_tensor_changed_in_place(torch: Any, example: tuple[Any, ...]) -> None:
    match = make_matcher(example)
    example[0].shape, example[0]._strides = (8, 4), (1, 8)
    assert match(example) is None


def test_torch_counts_a_version_of_what_is_written(torch: Any, example: tuple[Any, ...]) -> None:
    match = make_matcher(example, (4,))
    match(example)
    assert torch.counted == [example[4]]
    assert match((*example[:1], 3.0, *example[2:])) is None
    assert torch.counted == [example[4]], "no launch, no version"


@pytest.mark.parametrize("records", [True, False])
def test_a_tensor_that_torch_records_is_refused(torch: Any, example: tuple[Any, ...], records: bool) -> None:
    torch.is_grad_enabled = lambda: records
    match = make_matcher(example)
    assert match(example) is not None
    example[4].requires_grad = True
    assert (match(example) is None) is records


def test_a_tensor_without_memory_is_refused(torch: Any, example: tuple[Any, ...]) -> None:
    """It is at 0, as empty ones are, which other empty ones are like."""
    match = make_matcher(example)
    assert match((torch.Tensor(0, (4, 8), (8, 1)), *example[1:])) is None
    empty = (torch.Tensor(0, (0, 8), (8, 1)),)
    assert make_matcher(empty)(empty) == [0]
