"""Plans of library calls: the quick way to a call with new sizes launches what the whole way launches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import phalanx as px
from phalanx.errors import Error
from phalanx.kernels.matrices import empty
from phalanx.runtime import compiled
from phalanx.runtime.cache import DiskCache
from phalanx.runtime.device import torch_memory
from phalanx.runtime.launch import replay
from phalanx.runtime.launch.launch_list import recording
from phalanx.runtime.launch.memory import memories
from phalanx.runtime.launch.replay import remembered
from phalanx.runtime.planning.plans import CallPlan
from support.planned_calls import NAMES, Call, Draws, Watched, watched_gpu

pytestmark = pytest.mark.filterwarnings("ignore::phalanx.kernels.products.matmul.CopyWarning")
QUICK = ("softmax", "gather_rows", "pack_scales")
"""Functions whose kernels are small: the others take the processor for minutes."""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Watched]:
    monkeypatch.setattr(replay, "PLANNED_TIMES", 4)
    with watched_gpu(monkeypatch, tmp_path) as found:
        yield found


class Counted:
    """How many calls asked a plan, and how many of them took one of its ways."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked = self.planned = 0
        call = CallPlan.call

        def counted(plan: CallPlan, *args: Any) -> Any:
            found = call(plan, *args)
            self.asked += 1
            self.planned += found is not None
            return found

        monkeypatch.setattr(CallPlan, "call", counted)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def whole_way(gpu: Watched, call: Call) -> Any:
    """What a call does where nothing that was kept is looked at."""
    with recording():
        return gpu.run(call)


def compare(gpu: Watched, name: str, count: int, seed: int = 0) -> None:
    """Draws calls, and compares all that the driver gets, and what comes back: at first, and when they come again."""
    draws = Draws(gpu.torch, random.Random(f"{name} {seed}"))
    for number in range(count):
        call = draws.draw(name)
        quick, wanted = gpu.run(call), whole_way(gpu, call)
        assert wanted[0], "nothing is launched"
        assert quick == wanted, f"call {number}"
        if number % 3 == 0:
            assert gpu.run(call) == wanted and gpu.run(call) == wanted, f"call {number}, again"


def reasons() -> list[str]:
    return [why for memory in memories() for plan in getattr(memory, "plans", {}).values() for why in plan.why]


@pytest.mark.share(2)
@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in NAMES])
def test_new_sizes_launch_what_the_whole_way_launches(gpu: Watched, counted: Counted, name: str) -> None:
    compare(gpu, name, 80 if name not in QUICK else 40)
    assert len(reasons()) <= 2, reasons()  # a view of a single row has a stride that torch makes up
    assert counted.planned >= 20, f"{counted.planned} of {counted.asked}"


def test_all_functions_are_drawn() -> None:
    functions = {name: getattr(px.kernels, name) for name in dir(px.kernels)}
    assert {name for name, each in functions.items() if callable(each) and hasattr(each, "remembered")} <= set(NAMES)


def test_what_stands_for_machine_code_stays_with_the_fake_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A kernel that was launched there is compiled for whoever asks afterwards: neither memory nor disk has it."""
    users = DiskCache(tmp_path / "users")
    monkeypatch.setattr(compiled, "disk_cache", lambda: users)
    with monkeypatch.context() as patches, watched_gpu(patches, tmp_path / "fakes") as gpu:
        gpu.run(lambda: scaled(vector(gpu, 64)))
        assert [launch[0] for launch in gpu.launches] == ["scale_rows_kernel"]
    x = px.spec((64,), px.f32)
    made = px.compile(scale_rows[4], x, x, 2.0, B=16)
    assert made.name == "scale_rows_kernel" and not made.from_cache and made.cubin[:4] == b"\x7fELF"


# What a plan does not hold for ----------------------------------------------------------------------------------


@px.kernel(warps=1)
def scale_rows(X, Y, factor, *, B=16):
    i = px.block_id(0) * B
    px.store(Y[i : i + B], px.load(X[i : i + B]) * factor)


def vector(gpu: Watched, size: int, **how: Any) -> Any:
    return gpu.torch.distinct((size,), gpu.torch.float32, **how)


RUNS: list[Any] = []


@remembered("x")
def scaled(x: Any, *, factor: float = 2.0, limit: int = 1000) -> Any:
    """Long vectors have larger blocks; sizes that are a multiple of 7 are refused."""
    RUNS.append(x)
    if x.shape[0] % 7 == 0:
        raise Error("a multiple of 7", remedy="pass another one")
    result = empty(x, tuple(x.shape), "f32")
    block = 16 if x.shape[0] < limit else 32
    scale_rows[px.cdiv(x.shape[0], block)](x, result, factor, B=block)
    return result


def ran() -> int:
    """How often the function ran on arrays, not on what stands for them."""
    found = sum(hasattr(x, "data_ptr") for x in RUNS)
    RUNS.clear()
    return found


def test_a_plan_takes_over_from_the_third_size_on(gpu: Watched) -> None:
    ran()
    for size, runs in ((64, 1), (80, 1), (96, 0), (112 + 16, 0), (96, 0), (96, 0)):
        gpu.run(lambda size=size: scaled(vector(gpu, size)))  # type: ignore[misc]
        assert ran() == runs, size
        assert gpu.launches[-1][2] == (size // 16, 1, 1)


def test_calls_that_compare_otherwise_go_the_whole_way_once(gpu: Watched) -> None:
    for size in (64, 80, 96):
        scaled(vector(gpu, size))
    ran()
    for size, runs in ((1024, 1), (2048, 0), (128, 0), (4096, 0)):
        gpu.run(lambda size=size: scaled(vector(gpu, size)))  # type: ignore[misc]
        assert ran() == runs, size
        assert gpu.launches[-1][2] == (-(-size // (16 if size < 1000 else 32)), 1, 1)


@pytest.mark.parametrize("change", ["option", "type", "rank", "device", "strides", "alignment", "ragged"])
def test_other_types_are_no_matter_of_the_plan(gpu: Watched, change: str) -> None:
    for size in (64, 80, 96):
        scaled(vector(gpu, size))
    ran()
    x, options = vector(gpu, 128), {}
    if change == "option":
        options = {"factor": 3.0}
    elif change == "type":
        x = gpu.torch.distinct((128,), gpu.torch.float16)
    elif change == "rank":
        x = gpu.torch.distinct((128, 1), gpu.torch.float32)
    elif change == "device":
        x = vector(gpu, 128, device=1)
    elif change == "strides":
        x = vector(gpu, 256)[::2]
    elif change == "alignment":
        x = vector(gpu, 128, offset=4)
    elif change == "ragged":
        x = vector(gpu, 130)
    if change == "rank":
        with pytest.raises(Error):
            scaled(x, **options)
    else:
        scaled(x, **options)
    assert ran() == 1


def test_errors_are_the_functions_own(gpu: Watched) -> None:
    for size in (64, 80, 96):
        scaled(vector(gpu, size))
    ran()
    for _ in range(2):
        with pytest.raises(Error, match="a multiple of 7"):
            scaled(vector(gpu, 112))
    assert ran() == 2


def test_sizes_that_no_kernel_takes_are_not_planned(gpu: Watched) -> None:
    for size in (64, 80, 96):
        scaled(vector(gpu, size))
    ran()
    long = vector(gpu, 128)
    long.shape = (1 << 31,)
    with pytest.raises(TypeError, match="buffer is too small"):  # of the tests' torch, asked for the result
        scaled(long)
    assert ran() == 1


def test_nothing_is_planned_for_calls_under_a_watchdog(gpu: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (64, 80, 96):
        scaled(vector(gpu, size))
    ran()
    monkeypatch.setenv("PHALANX_WATCHDOG", "1")
    scaled(vector(gpu, 144))
    assert ran() == 1


@remembered("x")
def moody(x: Any, *, grids: Any) -> Any:
    """A function that does not do what it did: its grid comes from outside of its arguments."""
    result = empty(x, tuple(x.shape), "f32")
    scale_rows[grids.pop()](x, result, 2.0)
    return result


class Grids(list[int]):
    """Numbers that are hashed by identity."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_a_way_that_is_not_what_was_launched_is_refused(gpu: Watched) -> None:
    grids = Grids([9, 8, 7, 6, 5, 4, 3, 2, 1])
    for size in (64, 80, 96):
        moody(vector(gpu, size), grids=grids)
    assert any("what is launched is not what was launched" in why for why in reasons())
    assert gpu.launches[-1][2] == (grids[-1] + 2, 1, 1) or len(gpu.launches) == 3


def test_results_of_a_plan_that_come_again_are_made_anew(gpu: Watched) -> None:
    for size in (64, 80, 96):
        scaled(vector(gpu, size))
    x = vector(gpu, 96)
    found = []
    for _ in range(3):
        gpu.made = len(found)
        found.append(scaled(x).data_ptr())
    assert len(set(found)) == 3


@remembered("x")
def twice(x: Any, *, factor: float = 2.0) -> Any:
    """Two launches with something between them; two results, of which the first is like the argument."""
    between = empty(x, tuple(x.shape), "f32")
    result, narrow = empty(x, tuple(x.shape), "f32"), empty(x, tuple(x.shape), "bf16")
    scale_rows[px.cdiv(x.shape[0], 16)](x, between, factor)
    scale_rows[px.cdiv(x.shape[0], 16)](between, result, factor)
    return result, narrow


def noted(gpu: Watched, monkeypatch: pytest.MonkeyPatch, *, quickly_empty: bool = True) -> list[Any]:
    """Notes what torch is asked for; it may have no short way to a tensor."""
    found: list[Any] = []
    inner, alike, guards = gpu.torch._C, gpu.torch.empty_like, gpu.torch._C._dynamo.guards
    quickly = guards._empty_strided_cuda
    take, give = inner._cuda_cudaCachingAllocator_raw_alloc, inner._cuda_cudaCachingAllocator_raw_delete

    def taken(nbytes: int, stream: int) -> Any:
        found.append((nbytes, stream))
        return take(nbytes, stream)

    def given(pointer: int) -> None:
        found.append("given")
        give(pointer)

    def made(x: Any) -> Any:
        found.append("like")
        return alike(x)

    def quick(*given: Any) -> Any:
        found.append("quick")
        return quickly(*given)

    monkeypatch.setattr(inner, "_cuda_cudaCachingAllocator_raw_alloc", taken)
    monkeypatch.setattr(inner, "_cuda_cudaCachingAllocator_raw_delete", given)
    monkeypatch.setattr(gpu.torch, "empty_like", made)
    if quickly_empty:
        monkeypatch.setattr(guards, "_empty_strided_cuda", quick)
    else:
        monkeypatch.delattr(guards, "_empty_strided_cuda")
    torch_memory._memory.cache_clear()
    torch_memory.torch_memory(0)
    assert found == ["quick"] * quickly_empty  # which is tried once
    found.clear()
    return found


@pytest.mark.parametrize("ways", [["quick", "quick"], []])
def test_what_passes_between_launches_has_no_tensor(
    gpu: Watched, monkeypatch: pytest.MonkeyPatch, ways: list[str]
) -> None:
    found = noted(gpu, monkeypatch, quickly_empty="quick" in ways)
    gpu.torch.streams[0] = 7
    for size in (64, 80):
        twice(vector(gpu, size))
    assert not found
    for number in range(replay.PLANNED_TIMES + 4):  # by a plan, once the whole way, and then by a replay
        gpu.run(lambda: twice(vector(gpu, 96)))
        assert found == ([] if number == replay.PLANNED_TIMES + 1 else [(96 * 4, 7), *ways, "given"])
        assert not gpu.torch.taken and len(gpu.launches) == 2
        found.clear()
    gpu.torch.streams[0] = 0


@remembered("x")
def thrice(x: Any, *, factor: float = 2.0) -> Any:
    """Three launches with two arrays between them, made one after the other, and a third behind the result."""
    first, second = empty(x, (x.shape[0] + 1,), "f32"), empty(x, tuple(x.shape), "f32")
    result, third = empty(x, tuple(x.shape), "f32"), empty(x, tuple(x.shape), "f32")
    for source, target in ((x, first), (first, second), (second, third), (third, result)):
        scale_rows[px.cdiv(x.shape[0], 16)](source, target, factor)
    return result


def test_arrays_that_follow_each_other_are_taken_together(gpu: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_memory, "PART", 512)
    found = noted(gpu, monkeypatch)
    for size in (64, 80):
        thrice(vector(gpu, size))
    wanted = [(1024 + 128 * 4, 0), "quick", (128 * 4, 0), "given", "given"]
    for number in range(replay.PLANNED_TIMES + 4):  # by a plan, once the whole way, and then by a replay
        found.clear()
        gpu.run(lambda: thrice(vector(gpu, 128)))
        assert found == ([] if number == replay.PLANNED_TIMES + 1 else wanted)
        assert not gpu.torch.taken and len(gpu.launches) == 4


def test_it_is_given_back_where_a_launch_fails(gpu: Watched) -> None:
    for size in (64, 80, 96):
        twice(vector(gpu, size))
    gpu.status = 700
    with pytest.raises(Error):
        twice(vector(gpu, 112))
    assert not gpu.torch.taken


def test_on_another_device_a_tensor_holds_it(gpu: Watched) -> None:
    for size in (64, 80, 96):
        gpu.run(lambda size=size: twice(vector(gpu, size, device=1)))  # type: ignore[misc]
        assert len(gpu.launches) == 2 and not gpu.torch.taken


def test_calls_that_come_a_few_times_take_the_plan(gpu: Watched, counted: Counted) -> None:
    for size in (64, 80):
        scaled(vector(gpu, size))
    for number in range(6):
        scaled(vector(gpu, 96))
        assert counted.planned == min(number + 1, replay.PLANNED_TIMES + 1)


@px.kernel(warps=1)
def add_rows(X, Y, OUT, *, B=16):
    i = px.block_id(0) * B
    px.store(OUT[i : i + B], px.load(X[i : i + B]) + px.load(Y[i : i + B]) * 2)


@remembered("x", "y", "out")
def added(x: Any, y: Any, *, out: Any = None) -> Any:
    RUNS.append(x)
    result = empty(x, tuple(x.shape), "f32") if out is None else out
    add_rows[px.cdiv(x.shape[0], 16)](x, y, result)
    return result


@pytest.mark.parametrize("learnt", ["xy", "xx"])
def test_new_sizes_of_arguments_that_share_an_address(gpu: Watched, learnt: str) -> None:
    """One plan has them all, whatever it was learnt from; what comes often is repeated."""

    def call(pattern: str, size: int) -> Call:
        made = {name: vector(gpu, size) for name in "xy"}
        return lambda: added(*[made[name] for name in pattern])

    for size in (64, 80):
        added_once = call(learnt, size)
        gpu.run(added_once)
    ran()
    for number, size in enumerate((96, 112 + 16, *(144,) * 8)):
        for pattern in ("xx", "xy", "xx"):
            again = call(pattern, size)
            found = gpu.run(again)
            assert number > 2 or ran() == 0
            assert found == whole_way(gpu, again), (size, pattern)
            ran()


def test_a_plan_gives_back_the_result_that_is_an_operand(gpu: Watched) -> None:
    for size in (64, 80, 96, *(112 + 16,) * 8):
        x, y = vector(gpu, size), vector(gpu, size)
        assert added(x, y, out=x) is x


class Hashed:
    """An option that counts how often a call is looked up."""

    hashes = 0

    def __hash__(self) -> int:
        Hashed.hashes += 1
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashed)


@remembered("x")
def chosen(x: Any, *, how: Any = None, factor: float = 2.0) -> Any:
    result = empty(x, tuple(x.shape), "f32")
    scale_rows[px.cdiv(x.shape[0], 16)](x, result, factor)
    return result


def test_a_new_geometry_is_looked_up_once(gpu: Watched) -> None:
    how = Hashed()
    for size in (64, 80, 96):
        chosen(vector(gpu, size), how=how)
    for size in (112, 128):
        Hashed.hashes = 0
        chosen(vector(gpu, size), how=how)
        assert Hashed.hashes == 1


def test_options_that_are_left_out_are_no_part_of_a_key(gpu: Watched) -> None:
    """Those that are given are, even if they are what they are anyway; both launch the same."""
    for size in (64, 80, 96, 96, 112):
        x = vector(gpu, size)
        left_out = gpu.run(lambda x=x: chosen(x))  # type: ignore[misc]
        given = gpu.run(lambda x=x: chosen(x, factor=float("2.0")))  # type: ignore[misc]
        other = gpu.run(lambda x=x: chosen(x, factor=3.0))  # type: ignore[misc]
        assert left_out == given == whole_way(gpu, lambda x=x: chosen(x)) and other != given  # type: ignore[misc]
    options = {key[0] for key in chosen.remembered}
    assert options == {None, (None, type(None), 2.0, float), (None, type(None), 3.0, float)}


def test_what_comes_once_is_not_kept_where_it_fails(gpu: Watched) -> None:
    with pytest.raises(Error):
        chosen(vector(gpu, 64), factor="two")
    assert not chosen.remembered


def test_other_threads_streams_are_used(gpu: Watched) -> None:
    for size in (64, 80, 96):
        scaled(vector(gpu, size))
    gpu.torch.streams[0] = 77
    gpu.run(lambda: scaled(vector(gpu, 128)))
    assert gpu.launches[-1][4] == 77
    gpu.torch.streams[0] = 0
    gpu.run(lambda: scaled(vector(gpu, 144)))
    assert gpu.launches[-1][4] == 0
