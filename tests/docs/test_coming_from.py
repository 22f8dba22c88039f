"""The page for people from other languages: ours runs, theirs is compiled where their compilers are installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from phalanx.cuda.nvrtc import compile_cuda
from support.doc_pages import Page

KERNELS = ("A scaled copy", "A softmax of rows", "A product", "A tile by the copy engine")
PEERS = {
    "Triton": ("triton", "torch"),
    "TileLang": ("tilelang",),
    "CuTe": ("cutlass",),
}
RUN = {
    "Triton": """
import torch
x = torch.arange(5000.0); y = torch.zeros(5000)
scale[(5,)](x, y, 5000, 0.5, BLOCK=1024)
assert torch.equal(y, x / 2)
x = torch.randn(3, 200); y = torch.zeros(3, 200)
softmax[(3,)](x, y, 200, BLOCK=256)
assert torch.allclose(y, x.softmax(1), atol=1e-6)
a, b, c = torch.randn(70, 100).half(), torch.randn(50, 100).half(), torch.zeros(70, 50)
matmul[(2, 1)](a, b, c, 70, 50, 100, BM=64, BN=64, BK=32)
assert torch.allclose(c, a.float() @ b.float().T, atol=1e-3)
""",
    "TileLang": """
import tilelang
from tilelang import tvm
target = tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
with target:
    for made in (scale(5000), softmax(3, 256), matmul(256, 256, 256)):
        assert "__global__" in tilelang.lower(made, target=target, enable_device_compile=False).kernel_source
""",
    "CuTe": """
from cutlass.cute.runtime import make_fake_compact_tensor
x = make_fake_compact_tensor(cutlass.Float32, (5000,))
assert cute.compile(scale, x, x, cutlass.Float32(0.5), options="--gpu-arch=sm_90a")
x = make_fake_compact_tensor(cutlass.Float32, (128, 64), stride_order=(1, 0), assumed_align=16)
assert cute.compile(doubled, x, x, options="--gpu-arch=sm_90a")
""",
}


def test_ours_runs_and_prints_what_the_page_says(page: Page, tmp_path: Path, regenerate: bool) -> None:
    page.compare(page.printed_here(tmp_path, "coming_from.py"), regenerate)


def test_each_kernel_has_ours_and_another(page: Page) -> None:
    assert [title for title in page.titles() if title in KERNELS] == list(KERNELS)
    for section in re.split(r"^## ", page.text, flags=re.MULTILINE):
        if section.partition("\n")[0] in KERNELS:
            languages = re.findall(r"^### (.*)$", section, re.MULTILINE)
            assert languages[0] == "Phalanx" and len(languages) > 2 and max(Counter(languages).values()) == 1


def code_of(page: Page, language: str, kind: str) -> str:
    """All blocks below the headings of a language."""
    parts = re.split(r"^##+ (.*)\n", page.text, flags=re.MULTILINE)
    bodies = [body for title, body in zip(parts[1::2], parts[2::2], strict=True) if title == language]
    return "\n\n".join(re.findall(rf"^```{kind}\n(.*?)^```$", "".join(bodies), re.DOTALL | re.MULTILINE))


def test_cuda_compiles(page: Page) -> None:
    text = code_of(page, "CUDA", "cuda")
    image = compile_cuda("#define INFINITY __int_as_float(0x7f800000)\n" + text, "sm_90a")
    assert [found.function for found in image.resources] == ["doubled", "softmax", "scale"]
    assert all(found.spill_load_bytes == 0 for found in image.resources) and "cp.async.bulk.tensor.2d" in image.ptx


@pytest.mark.long
@pytest.mark.parametrize("language", PEERS)
def test_the_others_compile(page: Page, tmp_path: Path, language: str) -> None:
    missing = [name for name in PEERS[language] if find_spec(name) is None]
    if missing:
        pytest.skip(f"{language} needs {' and '.join(missing)}, which is not installed")
    (tmp_path / "page.py").write_text(code_of(page, language, "py") + RUN[language])
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUTE_DSL_ARCH": "sm_90a"}
    command = [sys.executable, "page.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
