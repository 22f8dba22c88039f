"""docs/architecture.md draws which rooms a call of the library enters on its way to a launch: the walks themselves."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import phalanx as px
from support.fake_driver import encode_described
from support.fake_torch import fake_torch_gpu

ROOT = Path(px.__file__).parent.as_posix() + "/"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
MOST_ROOMS = 12


class Walk:
    """The rooms that a call enters, in the order in which it first does, and the arrays that are read on the way."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.rooms: dict[str, None] = {}
        self.described: list[Any] = []
        sys.setprofile(self._note)
        try:
            call()
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(ROOT):
            return
        *folders, name = file.removeprefix(ROOT).split("/")
        self.rooms["/".join(folders[:2]) or name] = None
        if frame.f_code.co_name == "describe_torch":
            self.described.append(frame.f_locals["x"])


def drawn(call: str) -> list[str]:
    """The rooms of the table below a call on the page."""
    text = PAGE.read_text(encoding="utf-8").partition(f"`{call}`:\n")[2].lstrip("\n").partition("\n\n")[0]
    return re.findall(r"^\| `([\w/.]+)` \|", text, re.MULTILINE)


@pytest.fixture
def torch() -> Iterator[Any]:
    with fake_torch_gpu() as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.driver.functions["cuLaunchKernelEx"] = lambda *_: 0
        found.driver.functions["cuTensorMapEncodeTiled"] = encode_described
        yield found


@pytest.mark.parametrize("call", ["px.kernels.matmul(x, w.T)", "px.kernels.rms_norm(x)"])
def test_a_call_enters_the_rooms_that_the_page_draws(torch: Any, call: str) -> None:
    x, w = torch.empty((512, 512), torch.bfloat16), torch.empty((512, 512), torch.bfloat16)
    function = getattr(px.kernels, call.partition("(")[0].removeprefix("px.kernels."))
    arguments = (x, w.T) if "w" in call.partition("(")[2] else (x,)
    function(*arguments)  # reads and loads the kernel
    function.memory.clear()
    walk = Walk(lambda: function(*arguments))
    assert list(walk.rooms) == drawn(call) and len(walk.rooms) <= MOST_ROOMS
    assert len({id(x) for x in walk.described}) == len(walk.described) >= 2
    assert set(Walk(lambda: function(*arguments)).rooms) == {"runtime/launch", "runtime/device"}, "made into a replay"
    assert set(Walk(lambda: function(*arguments)).rooms) <= {"runtime/launch", "runtime/device"}
