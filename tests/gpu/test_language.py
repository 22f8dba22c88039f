"""On the GPU: kernels of random control flow give what Python gives for the same text."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from language.random_programs import INPUTS, Program, inputs, load_program, plain_result, unwritten

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    text = Program(random.Random(seed)).text()
    a, b = (torch.from_numpy(x).cuda() for x in inputs())
    out = torch.from_numpy(unwritten()).cuda()
    load_program(text, tmp_path)[len(INPUTS)](a, b, out)
    np.testing.assert_array_equal(out.cpu().numpy(), plain_result(text), err_msg=text)
