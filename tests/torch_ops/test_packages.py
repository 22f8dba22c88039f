"""AOTInductor's packages, made of a model with our operators and loaded by another process that has `phalanx.torch`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

import phalanx as px  # noqa: E402
from support.torch_operators import heads, numbers  # noqa: E402

pytestmark = [pytest.mark.long, pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs g++")]


class Network(torch.nn.Module):
    """A norm, a product with an activation, attention, and a softmax: operators with one result and with two."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = torch.nn.Parameter(numbers(24)), torch.nn.Parameter(numbers(64, 24))

    def forward(self, x: Any, k: Any, v: Any) -> Any:
        h = px.torch.matmul(px.torch.rms_norm(x, self.norm), self.up.T, None, "silu")
        y = px.torch.attention(h[None, None], k, v)
        return px.torch.softmax(y + 1)


LOADER = """
import sys
import torch
import phalanx.torch

inputs, wanted = torch.load(sys.argv[2])
model = torch._inductor.aoti_load_package(sys.argv[1])
for given, expected in zip(inputs, wanted):
    result = model(*given)
    assert torch.allclose(result.float(), expected.float(), rtol=2e-2, atol=2e-2), (result - expected).abs().max()
print("equal", len(inputs))
"""


def test_a_package_is_loaded_by_another_process(tmp_path: Path) -> None:
    model = Network().eval()
    given = [(numbers(rows, 24), heads(40, 1, seed=1), heads(40, 1, seed=2)) for rows in (20, 31)]
    rows = torch.export.Dim("rows", min=2, max=40)
    with torch.no_grad():
        exported = torch.export.export(model, given[0], dynamic_shapes=({0: rows}, None, None))
        assert any(str(node.target).startswith("phalanx.") for node in exported.graph.nodes)
        made = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "model.pt2"))
        torch.save((given, [model(*one) for one in given]), tmp_path / "cases.pt")
    command = [sys.executable, "-c", LOADER, made, str(tmp_path / "cases.pt")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "equal 2"
