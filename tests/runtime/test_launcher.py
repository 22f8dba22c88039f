"""The launcher on a fake driver: what a launch hands over, what it leaves alone, what it refuses."""

from __future__ import annotations

import struct
import threading
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.cuda.abi import ArraySlot, ScalarSlot, Signature, TensorMapSlot
from phalanx.errors import Error
from phalanx.runtime.device.driver import Driver, DriverError
from phalanx.runtime.device.statuses import REMEDIES
from phalanx.runtime.launch.launcher import Launcher

SIGNATURE = Signature(
    (
        ArraySlot(2, "f32", True, True, "X"),
        ScalarSlot("i32", "n"),
        ArraySlot(1, "bf16", name="Y"),
        ScalarSlot("f32"),
    ),
    (TensorMapSlot(0, (64, 32), swizzle=128), TensorMapSlot(0, (16, 32))),
    debug=True,
)


@pytest.fixture
def launcher(driver: Driver) -> Launcher:
    return Launcher(
        b"cubin", "k", SIGNATURE, device=0, threads=384, cluster=(2, 1, 1), shared_bytes=1000, driver=driver
    )


@pytest.fixture
def args(torch: Any) -> tuple[Any, ...]:
    return (
        torch.Tensor(0x10000, (100, 200), (256, 1)),
        7,
        torch.Tensor(0x20002, (5,), (3,), "bfloat16"),
        0.5,
    )


def changed(args: tuple[Any, ...], position: int, value: Any) -> tuple[Any, ...]:
    return (*args[:position], value, *args[position + 1 :])


def test_parameters_and_configuration(library: Any, launcher: Launcher, args: tuple[Any, ...]) -> None:
    launcher.launch((4, 3, 2), args, debug=0xABC0)
    (launch,) = library.launches
    assert (launch.grid, launch.block, launch.shared_bytes) == ((4, 3, 2), (384, 1, 1), 1000)
    assert (launch.function, launch.stream) == (3000, 0)
    assert launch.attributes == [(4, (2, 1, 1))]
    assert struct.unpack("<Qqqii", launch.parameter(0, 32)) == (0x10000, 256, 1, 100, 200)
    assert struct.unpack("<i", launch.parameter(1, 4)) == (7,)
    assert struct.unpack("<Qqi", launch.parameter(2, 20)) == (0x20002, 3, 5)
    assert struct.unpack("<f", launch.parameter(3, 4)) == (0.5,)
    assert launch.parameter(4, 128) == b"\x01" * 128
    assert launch.parameter(5, 128) == b"\x02" * 128
    assert launch.address(4) % 128 == 0
    assert struct.unpack("<Q", launch.parameter(6, 8)) == (0xABC0,)
    first, second = library.encoded
    assert (first["dims"], first["byte_strides"], first["box"]) == ([200, 100], [1024], [32, 64])
    assert (second["box"], second["enums"]) == ([32, 16], (0, 0, 3, 0))


def test_elements_that_share_bytes_are_bytes(library: Any, driver: Driver, torch: Any) -> None:
    """The struct and a plain descriptor count bytes; one that puts room between elements counts those."""
    maps = TensorMapSlot(0, (16, 64), swizzle=64), TensorMapSlot(0, (16, 128), swizzle=128, expands=True)
    signature = Signature((ArraySlot(2, "u8", True, True, "X"),), maps)
    launcher = Launcher(b"cubin", "k", signature, device=0, threads=128, driver=driver)
    torch.float4_e2m1fn_x2 = type(torch.float32)("float4_e2m1fn_x2")
    launcher.launch((1, 1, 1), (torch.Tensor(0x10000, (100, 128), (128, 1), "float4_e2m1fn_x2"),))
    assert struct.unpack("<Qqqii", library.launches[-1].parameter(0, 32)) == (0x10000, 128, 1, 100, 128)
    codes = torch.Tensor(0x20000, (100, 128), (128, 1), "uint8")
    launcher.launch((1, 1, 1), (px.packed(codes, px.f4e2m1),))
    assert struct.unpack("<Qqqii", library.launches[-1].parameter(0, 32)) == (0x20000, 128, 1, 100, 128)
    plain, spread = library.encoded[:2]
    assert (plain["dims"], plain["byte_strides"], plain["box"]) == ([128, 100], [128], [64, 16])
    assert (spread["dims"], spread["byte_strides"], spread["box"]) == ([256, 100], [128], [128, 16])
    with pytest.raises(Error, match="not a multiple of 32 bytes"):
        launcher.launch((1, 1, 1), (px.packed(torch.Tensor(0x20010, (100, 128), (128, 1), "uint8"), px.f4e2m1),))


def test_a_swizzle_of_wide_atoms(library: Any, driver: Driver, torch: Any) -> None:
    signature = Signature((ArraySlot(2, "f32", True, True, "X"),), (TensorMapSlot(0, (8, 32), swizzle=128, wide=True),))
    launcher = Launcher(b"cubin", "k", signature, device=0, threads=128, driver=driver)
    launcher.launch((1, 1, 1), (torch.Tensor(0x10000, (64, 64), (64, 1)),))
    (made,) = library.encoded
    assert made["enums"] == (0, 4, 3, 0)
    assert Signature.from_json(signature.to_json()) == signature


def test_scales_are_bytes_to_a_descriptor(library: Any, driver: Driver, torch: Any) -> None:
    """A tensor of float8_e8m0fnu has the map of u8."""
    signature = Signature((ArraySlot(2, "f8e8m0", True, True, "S"),), (TensorMapSlot(0, (32, 16)),))
    launcher = Launcher(b"cubin", "k", signature, device=0, threads=128, driver=driver)
    launcher.launch((1, 1, 1), (torch.Tensor(0x10000, (64, 16), (16, 1), "float8_e8m0fnu"),))
    (made,) = library.encoded
    assert (made["dtype"], made["dims"], made["byte_strides"], made["box"]) == (0, [16, 64], [16], [16, 32])


def test_dense_arrays_are_told_in_elements(library: Any, driver: Driver, torch: Any) -> None:
    """The struct and the descriptor count elements of 6 bits; only the descriptor's strides are bytes."""
    maps = (TensorMapSlot(0, (16, 128), swizzle=128, expands=True),)
    signature = Signature((ArraySlot(2, "f6e2m3", True, True, "X"),), maps)
    launcher = Launcher(b"cubin", "k", signature, device=0, threads=128, driver=driver)
    codes = torch.Tensor(0x20000, (100, 192), (192, 1), "uint8")
    launcher.launch((1, 1, 1), (px.packed(codes, px.f6e2m3, dense=True),))
    assert struct.unpack("<Qqqii", library.launches[-1].parameter(0, 32)) == (0x20000, 256, 1, 100, 256)
    (spread,) = library.encoded
    assert (spread["dims"], spread["byte_strides"], spread["box"]) == ([256, 100], [192], [128, 16])
    assert spread["dtype"] == 15


def test_repeated_launch_makes_one_driver_call(
    library: Any, launcher: Launcher, args: tuple[Any, ...]
) -> None:
    launcher.launch((2, 1, 1), args)
    library.calls.clear()
    for _ in range(3):
        launcher.launch((2, 1, 1), args)
    assert library.names() == ["cuLaunchKernelEx"] * 3


def test_only_what_changed_is_rewritten(
    library: Any, launcher: Launcher, args: tuple[Any, ...], torch: Any
) -> None:
    launcher.launch((2, 1, 1), args)
    launcher.launch((2, 1, 1), changed(args, 1, 9))
    assert struct.unpack("<i", library.launches[-1].parameter(1, 4)) == (9,)
    assert len(library.encoded) == 2
    moved = changed(args, 0, torch.Tensor(0x30000, (100, 200), (256, 1)))
    launcher.launch((2, 1, 1), moved)
    launch = library.launches[-1]
    assert struct.unpack("<Qqqii", launch.parameter(0, 32)) == (0x30000, 256, 1, 100, 200)
    assert struct.unpack("<i", launch.parameter(1, 4)) == (7,)
    assert [item["pointer"] for item in library.encoded] == [0x10000, 0x10000, 0x30000, 0x30000]
    assert launch.parameter(4, 128) == b"\x03" * 128
    launcher.launch((2, 1, 1), args)
    assert len(library.encoded) == 4  # both addresses are known by now
    assert library.launches[-1].parameter(5, 128) == b"\x02" * 128


def test_other_shape_packs_anew(library: Any, launcher: Launcher, args: tuple[Any, ...], torch: Any) -> None:
    launcher.launch((2, 1, 1), args)
    launcher.launch((2, 1, 1), changed(args, 0, torch.Tensor(0x10000, (50, 200), (256, 1))))
    assert struct.unpack("<Qqqii", library.launches[-1].parameter(0, 32)) == (0x10000, 256, 1, 50, 200)
    assert library.encoded[-1]["dims"] == [200, 50]


def test_two_of_a_kernel_take_turns_without_packing(
    library: Any, launcher: Launcher, args: tuple[Any, ...], torch: Any
) -> None:
    flat = changed(args, 0, torch.Tensor(0x10000, (50, 200), (256, 1)))
    launcher.launch((2, 1, 1), args)
    other = launcher.fresh()
    other.launch((4, 1, 1), flat)
    library.calls.clear()
    for _ in range(2):
        assert launcher.try_launch((2, 1, 1), args) and other.try_launch((4, 1, 1), flat)
    assert library.names() == ["cuLaunchKernelEx"] * 4
    assert [launch.grid for launch in library.launches[-2:]] == [(2, 1, 1), (4, 1, 1)]
    shapes = [struct.unpack("<Qqqii", launch.parameter(0, 32))[3:] for launch in library.launches[-2:]]
    assert shapes == [(100, 200), (50, 200)]


def test_try_launch_only_for_the_same_geometry(
    library: Any, launcher: Launcher, args: tuple[Any, ...], torch: Any
) -> None:
    assert not launcher.try_launch((2, 1, 1), args)
    assert library.launches == []
    launcher.launch((2, 1, 1), args)
    assert launcher.try_launch((4, 1, 1), changed(args, 3, 1.25))
    assert library.launches[-1].grid == (4, 1, 1)
    assert struct.unpack("<f", library.launches[-1].parameter(3, 4)) == (1.25,)
    assert not launcher.try_launch((2, 1, 1), changed(args, 0, torch.Tensor(0x10000, (50, 200), (256, 1))))
    assert len(library.launches) == 2
    for device in (-1, 1):  # of the same geometry, elsewhere: another's to launch, or to simulate
        elsewhere = torch.Tensor(0x50000, (100, 200), (256, 1), device=device)
        assert not launcher.try_launch((2, 1, 1), changed(args, 0, elsewhere))
    assert len(library.launches) == 2 and launcher.try_launch((4, 1, 1), args)


def test_negative_zero_is_another_value(library: Any, launcher: Launcher, args: tuple[Any, ...]) -> None:
    for value, sign in ((0.0, 0), (-0.0, 0x80), (0.0, 0)):
        launcher.launch((2, 1, 1), changed(args, 3, value))
        assert library.launches[-1].parameter(3, 4)[3] == sign


def test_streams(library: Any, launcher: Launcher, args: tuple[Any, ...], torch: Any) -> None:
    for expected in (11, 12, 0):
        torch.streams[0] = expected
        launcher.launch((2, 1, 1), args)
        assert library.launches[-1].stream == expected
    launcher.launch((2, 1, 1), args, stream=99)
    assert library.launches[-1].stream == 99


SHAPED = (0x10000, (100, 200), (256, 1))
ELSEWHERE = (0x50000, (100, 200), (256, 1))  # an address belongs to one device


AGAIN = "or compile the kernel for arrays like this one"
UNALIGNED = "argument X is not aligned to 16 bytes, the kernel was compiled for arrays that are"
COPY = f"pass a contiguous copy whose rows are multiples of 16 bytes, {AGAIN}"


@pytest.mark.parametrize(
    ("position", "value", "message", "remedy"),
    [
        (
            0, (SHAPED, {"dtype": "int32"}), "argument X is i32 of rank 2, the kernel was compiled for f32 of rank 2",
            f"convert or reshape it, {AGAIN}",
        ),
        (
            0, ((0x10000, (100,), (1,)), {}), "argument X is f32 of rank 1, the kernel was compiled for f32 of rank 2",
            f"convert or reshape it, {AGAIN}",
        ),
        (
            0, (ELSEWHERE, {"device": 1}), "argument X is on CUDA device 1, the kernel runs on device 0",
            "put all arguments on one device",
        ),
        (
            0, (ELSEWHERE, {"device": -1}), "argument X is in host memory, the kernel runs on CUDA device 0",
            "copy it there",
        ),
        (
            0, ((0x10000, (100, 200), (512, 2)), {}), "argument X has inner stride 2, the kernel was compiled for 1",
            f"pass a contiguous copy, {AGAIN}",
        ),
        (0, ((0x10004, (100, 200), (256, 1)), {}), UNALIGNED, COPY),
        (0, ((0x10000, (100, 200), (255, 1)), {}), UNALIGNED, COPY),
        (
            0, ((0x10000, (0, 200), (256, 1)), {}), "array X is empty, which a TMA descriptor can't express",
            "do not launch for an empty array",
        ),
        (0, 3, "argument X is an array of rank 2, got a scalar", "pass an array of f32 on CUDA device 0"),
        (1, ((0x10000, (), ()), {}), "argument n is a scalar, got an array", "pass a number"),
        (1, 2**31, "argument n is i32, which can't hold 2147483648", "pass a number that fits i32"),
        (1, 2.5, "argument n is i32, which can't hold 2.5", "pass a number that fits i32"),
        (
            2, ((0x10000, (2**31,), (1,)), {"dtype": "bfloat16"}), "argument Y has an axis of 2**31 elements or more",
            "split the array",
        ),
        (3, 1e300, "argument 3 is f32, which can't hold 1e+300", "pass a number that fits f32"),
        (3, "text", "argument 3 is f32, which can't hold 'text'", "pass a number that fits f32"),
    ],
)  # fmt: skip
def test_refusals(
    library: Any,
    launcher: Launcher,
    args: tuple[Any, ...],
    torch: Any,
    position: int,
    value: Any,
    message: str,
    remedy: str,
) -> None:
    if isinstance(value, tuple):
        value = torch.Tensor(*value[0], **value[1])
    bad = changed(args, position, value)
    for before in (False, True):  # as the first launch, and after a good one
        if before:
            launcher.launch((2, 1, 1), args)
        with pytest.raises(Error) as error:
            launcher.launch((2, 1, 1), bad)
        assert (error.value.message, error.value.remedy) == (message, remedy)
    assert len(library.launches) == 1
    launcher.launch((2, 1, 1), args)  # and the next good one is whole again
    assert struct.unpack("<Qqqii", library.launches[-1].parameter(0, 32)) == (0x10000, 256, 1, 100, 200)
    assert struct.unpack("<i", library.launches[-1].parameter(1, 4)) == (7,)
    assert struct.unpack("<f", library.launches[-1].parameter(3, 4)) == (0.5,)


def test_number_of_arguments(launcher: Launcher, args: tuple[Any, ...]) -> None:
    with pytest.raises(Error, match="kernel k takes 4 run-time arguments, got 3") as error:
        launcher.launch((2, 1, 1), args[:3])
    assert error.value.remedy == "pass argument X, argument n, argument Y, argument 3"


def test_a_kernel_that_takes_nothing(driver: Driver, args: tuple[Any, ...]) -> None:
    launcher = Launcher(b"", "k", Signature(()), device=0, threads=32, driver=driver)
    with pytest.raises(Error, match="kernel k takes 0 run-time arguments, got 1") as error:
        launcher.launch((1, 1, 1), args[:1])
    assert error.value.remedy == "pass none: constants were settled when it was compiled"


def test_rows_that_are_not_whole(driver: Driver, torch: Any) -> None:
    slot = ArraySlot(2, "bf16", True, True, "W", whole_rows=True)
    launcher = Launcher(b"", "k", Signature((slot,)), device=0, threads=32, driver=driver)
    with pytest.raises(Error) as error:
        launcher.launch((1, 1, 1), (torch.Tensor(0x10000, (4, 30), (32, 1), "bfloat16"),))
    assert error.value.message == "argument W has 30 columns, the kernel was compiled for a multiple of 16 bytes"
    assert error.value.remedy == f"pad its rows to a multiple of 8 columns, {AGAIN}"


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ((3, 1, 1), r"grid \(3, 1, 1\) can't be divided into clusters of \(2, 1, 1\)"),
        ((2, 65536, 1), r"has 65536 CTAs along axis 1, the hardware takes 0 to 65535"),
        ((2**31, 1, 1), r"along axis 0, the hardware takes 0 to 2147483647"),
        ((-2, 1, 1), r"has -2 CTAs along axis 0"),
    ],
)
def test_bad_grids(library: Any, launcher: Launcher, args: tuple[Any, ...], grid: Any, message: str) -> None:
    with pytest.raises(Error, match=message):
        launcher.launch(grid, args)
    assert library.launches == []


def test_empty_grid_launches_nothing(library: Any, launcher: Launcher, args: tuple[Any, ...]) -> None:
    launcher.launch((0, 1, 1), args)
    assert library.launches == []


def test_no_arguments(library: Any, driver: Driver) -> None:
    launcher = Launcher(b"", "k", Signature(()), device=0, threads=32, driver=driver)
    launcher.launch((1, 1, 1), ())
    launcher.launch((1, 1, 1), ())
    assert [launch.attributes for launch in library.launches] == [[], []]


def test_host_array_is_refused(driver: Driver) -> None:
    launcher = Launcher(b"", "k", Signature((ArraySlot(1, "f32"),)), device=0, threads=32, driver=driver)
    with pytest.raises(Error, match="argument 0 is in host memory, the kernel runs on CUDA device 0"):
        launcher.launch((1, 1, 1), (np.zeros(4, np.float32),))


def test_large_shared_memory_and_clusters_are_asked_for(library: Any, driver: Driver) -> None:
    def make(cluster: tuple[int, int, int], shared_bytes: int) -> None:
        Launcher(
            b"",
            "k",
            Signature(()),
            device=0,
            threads=32,
            cluster=cluster,
            shared_bytes=shared_bytes,
            driver=driver,
        )

    make((4, 4, 1), 200_000)
    set_calls = [call[2:] for call in library.calls if call[0] == "cuFuncSetAttribute"]
    assert set_calls == [(8, 200_000), (14, 1)]
    with pytest.raises(
        Error, match="kernel k needs 232449 bytes of shared memory, device 0 has 232448 per CTA"
    ):
        make((1, 1, 1), 232_449)


def test_overlap_attribute(library: Any, driver: Driver) -> None:
    launcher = Launcher(b"", "k", Signature(()), device=0, threads=32, overlap=True, driver=driver)
    launcher.launch((1, 1, 1), ())
    assert library.launches[0].attributes == [(6, (1, 0, 0))]


def test_cooperative_attribute(library: Any, driver: Driver) -> None:
    launcher = Launcher(b"", "k", Signature(()), device=0, threads=32, cooperative=True, driver=driver)
    launcher.launch((132, 1, 1), ())
    launcher.fresh().launch((132, 1, 1), ())
    assert [launch.attributes for launch in library.launches] == [[(2, (1, 0, 0))]] * 2
    library.failures["cuLaunchKernelEx"] = [720]
    with pytest.raises(Error) as caught:
        launcher.launch((500, 1, 1), ())
    assert caught.value.message == "launch of k: CUDA_ERROR_NUMBER_720 (something about 720)"
    assert caught.value.remedy == REMEDIES["cooperative_launch_too_large"]
    assert caught.value.location.file.endswith("test_launcher.py")


def test_occupancy(driver: Driver) -> None:
    def make(cluster: tuple[int, int, int]) -> Launcher:
        return Launcher(b"", "k", Signature(()), device=0, threads=32, cluster=cluster, driver=driver)

    assert make((2, 1, 1)).max_active_clusters() == 66
    assert make((1, 1, 1)).max_active_clusters() == 2 * 132
    assert make((1, 1, 1)).attribute("registers") == 40


def test_wrong_context_is_put_right(library: Any, launcher: Launcher, args: tuple[Any, ...]) -> None:
    library.context = 1001
    library.failures["cuLaunchKernelEx"] = [400]
    library.calls.clear()
    launcher.launch((2, 1, 1), args)
    assert len(library.launches) == 1
    assert [call[1] for call in library.calls if call[0] == "cuCtxSetCurrent"] == [1000, 1001]


def test_failed_launch(library: Any, launcher: Launcher, args: tuple[Any, ...]) -> None:
    library.failures["cuLaunchKernelEx"] = [701]
    with pytest.raises(DriverError) as error:
        launcher.launch((2, 1, 1), args)
    assert error.value.message == "launch of k: CUDA_ERROR_NUMBER_701 (something about 701)"
    assert error.value.remedy == REMEDIES["launch_out_of_resources"]
    assert error.value.location.file == __file__, "the line that launches"


def test_threads_do_not_mix_their_arguments(library: Any, driver: Driver) -> None:
    signature = Signature((ScalarSlot("i32"), ScalarSlot("i32")))
    launcher = Launcher(b"", "k", signature, device=0, threads=32, driver=driver)
    seen: list[tuple[int, int]] = []
    record = library._cuLaunchKernelEx

    def look(*arguments: Any) -> None:
        record(*arguments)
        launch = library.launches[-1]
        seen.append(struct.unpack("<ii", launch.parameter(0, 4) + launch.parameter(1, 4)))

    library._cuLaunchKernelEx = look

    def work(start: int) -> None:
        for n in range(start, start + 200):
            launcher.launch((1, 1, 1), (n, -n))

    threads = [threading.Thread(target=work, args=(1000 * t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted((n, -n) for t in range(4) for n in range(1000 * t, 1000 * t + 200))
