"""The launcher on a real GPU: parameters, descriptors, clusters, streams, graphs, traps."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.cuda.abi import ArraySlot, ScalarSlot, Signature, TensorMapSlot
from phalanx.cuda.nvrtc import compile_cuda
from phalanx.errors import Error
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.device.driver import HostBuffer, get_driver
from phalanx.runtime.device.host_copies import to_host
from phalanx.runtime.device.map_layout import map_layout
from phalanx.runtime.device.tensormap import Geometry, encode
from phalanx.runtime.launch.launcher import Launcher

pytestmark = pytest.mark.gpu
torch: Any = pytest.importorskip("torch")

STRUCTS = """
template <class T, int R> struct Array { T* data; long long stride[R]; int shape[R]; };
struct alignas(128) TensorMap { unsigned long long words[16]; };
"""

AFFINE = """
extern "C" __global__ void affine(Array<float, 2> x, Array<float, 2> y, float a, int b, long long c, double d,
                                  unsigned char negate) {
    for (int i = blockIdx.x; i < x.shape[0]; i += gridDim.x)
        for (int j = threadIdx.x; j < x.shape[1]; j += blockDim.x) {
            float v = x.data[i * x.stride[0] + j * x.stride[1]] * a + b + (float)c + (float)d;
            y.data[i * y.stride[0] + j * y.stride[1]] = negate ? -v : v;
        }
}
"""

# Each CTA copies one 16 x 32 tile with TMA; what lies outside x is stored as the zeros that TMA fills in.
TILE_COPY = """
extern "C" __global__ void tile_copy(Array<float, 2> x, Array<float, 2> y, const __grid_constant__ TensorMap map) {
    __shared__ alignas(128) float tile[16 * 32];
    __shared__ alignas(8) unsigned long long barrier;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier);
    unsigned dst = (unsigned)__cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;" :: "r"(bar) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];"
                     :: "r"(dst), "l"(&map), "r"(blockIdx.x * 32), "r"(blockIdx.y * 16), "r"(bar) : "memory");
    }
    __syncthreads();
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(bar) : "memory");
    for (int n = threadIdx.x; n < 16 * 32; n += blockDim.x) {
        long long i = blockIdx.y * 16 + n / 32, j = blockIdx.x * 32 + n % 32;
        if (i < y.shape[0] && j < y.shape[1]) y.data[i * y.stride[0] + j * y.stride[1]] = tile[n];
    }
}
"""

CLUSTER_RANKS = """
extern "C" __global__ void ranks(Array<int, 1> out) {
    extern __shared__ int scratch[];
    unsigned rank, size;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    scratch[0] = rank + 100 * size;
    out.data[blockIdx.x * out.stride[0]] = scratch[0];
}
"""

ADD_ONE = """
extern "C" __global__ void add_one(Array<float, 1> x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < x.shape[0]) x.data[i * x.stride[0]] += 1;
}
"""


def make(text: str, name: str, signature: Signature, **options: Any) -> Launcher:
    arch = get_driver().device(0).arch
    image = compile_cuda(STRUCTS + text, arch)
    return Launcher(image.cubin, name, signature, device=0, **{"threads": 128, **options})


def adder() -> Launcher:
    return make(ADD_ONE, "add_one", Signature((ArraySlot(1, "f32"),)))


def test_arrays_and_scalars_of_every_width() -> None:
    scalars = tuple(ScalarSlot(dtype) for dtype in ("f32", "i32", "i64", "f64", "bool"))
    launcher = make(AFFINE, "affine", Signature((ArraySlot(2, "f32"), ArraySlot(2, "f32"), *scalars)))
    x = torch.randn(37, 150, device="cuda")
    for view in (x, x.T, x[3:, ::2], x[:, :1]):
        y = torch.zeros_like(view)
        launcher.launch((8, 1, 1), (view, y, 2.0, -3, 1 << 20, 0.5, False))
        assert torch.allclose(y, view * 2 - 3 + (1 << 20) + 0.5)
        launcher.launch((8, 1, 1), (view, y, 0.5, 3, -5, 0.25, True))
        assert torch.allclose(y, -(view * 0.5 + 3 - 5 + 0.25))


@pytest.mark.parametrize("shape", [(64, 64), (50, 100), (1, 4), (16, 36)])
def test_tensor_map(shape: tuple[int, int]) -> None:
    signature = Signature((ArraySlot(2, "f32"), ArraySlot(2, "f32")), (TensorMapSlot(0, (16, 32)),))
    launcher = make(TILE_COPY, "tile_copy", signature)
    rows, columns = shape
    padded = torch.full((96, 128), 7.0, device="cuda")
    for _ in range(3):  # other addresses: the descriptor follows
        x = torch.randn(rows, columns, device="cuda")
        launcher.launch((4, 6, 1), (x, padded))
        assert torch.equal(padded[:rows, :columns], x)
        assert padded[rows:].abs().sum() == 0 and padded[:, columns:].abs().sum() == 0


def test_shapes_in_turns() -> None:
    """Each shape with descriptors of its own, from the second time on with a parameter buffer of its own."""

    @px.kernel(warps=1)
    def tiles(X, Y, *, BM=8, BN=32):
        i, j = px.block_id(0) * BM, px.block_id(1) * BN
        s, b = px.shared((BM, BN), X.dtype), px.barrier()
        with b.transaction():
            px.tma.load(X[i : i + BM, j : j + BN], s, b)
        b.wait(0)
        px.store(Y[i : i + BM, j : j + BN], px.load(s) * 2)

    given = [torch.randn(8 * n, 32 * (n + 1), device="cuda") for n in range(1, 12)]
    for _ in range(4):
        for x in given:
            y = torch.zeros_like(x)
            tiles[x.shape[0] // 8, x.shape[1] // 32](x, y, BM=8)
            assert torch.equal(y, 2 * x)


def test_tensor_map_of_an_array_it_can_not_express() -> None:
    signature = Signature((ArraySlot(2, "f32", name="X"), ArraySlot(2, "f32")), (TensorMapSlot(0, (16, 32)),))
    launcher = make(TILE_COPY, "tile_copy", signature)
    y = torch.zeros(64, 64, device="cuda")
    with pytest.raises(Error, match="array X has a stride of 260 bytes"):
        launcher.launch((2, 4, 1), (torch.zeros(64, 65, device="cuda"), y))
    with pytest.raises(Error, match="not a multiple of 16 bytes"):
        launcher.launch((2, 4, 1), (torch.zeros(64, 68, device="cuda")[:, 1:], y))
    launcher.launch((2, 4, 1), (torch.ones(64, 64, device="cuda"), y))
    assert y.sum() == 64 * 64


@pytest.mark.parametrize("size", [1, 2, 8, 16])
def test_clusters_and_large_shared_memory(size: int) -> None:
    signature = Signature((ArraySlot(1, "i32"),))
    launcher = make(CLUSTER_RANKS, "ranks", signature, cluster=(size, 1, 1), shared_bytes=150_000)
    out = torch.zeros(32, dtype=torch.int32, device="cuda")
    launcher.launch((32, 1, 1), (out,))
    assert out.tolist() == [n % size + 100 * size for n in range(32)]
    sms = get_driver().device(0).sm_count
    assert 0 < launcher.max_active_clusters() <= sms // size
    assert launcher.attribute("registers") > 0


def test_current_stream_is_used() -> None:
    launcher = adder()
    x = torch.zeros(1000, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        for _ in range(5):
            x.mul_(2)  # correct only if launches and torch's kernels are on the same stream
            launcher.launch((8, 1, 1), (x,))
    stream.synchronize()
    assert x.unique().tolist() == [31.0]


def test_graph_capture_and_replay() -> None:
    launcher = adder()
    x = torch.zeros(1000, device="cuda")
    launcher.launch((8, 1, 1), (x,))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            launcher.launch((8, 1, 1), (x,))
    torch.cuda.synchronize()
    assert x.unique().tolist() == [1.0]
    graph.replay()
    graph.replay()
    torch.cuda.synchronize()
    assert x.unique().tolist() == [7.0]


def test_first_launch_inside_a_capture() -> None:
    x = torch.zeros(1000, device="cuda")
    image = compile_cuda(STRUCTS + ADD_ONE, get_driver().device(0).arch)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launcher = Launcher(image.cubin, "add_one", Signature((ArraySlot(1, "f32"),)), device=0, threads=128)
        launcher.launch((8, 1, 1), (x,))
    graph.replay()
    torch.cuda.synchronize()
    assert x.unique().tolist() == [1.0]


def test_thread_without_a_context() -> None:
    launcher = adder()
    x = torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            launcher.launch((8, 1, 1), (x,), stream=0)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert failures == []
    assert x.unique().tolist() == [1.0]


class Interface:
    """A tensor known by its CUDA array interface alone."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.tensor.__cuda_array_interface__


class Capsule:
    """A tensor known by DLPack alone."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize("wrap", [Interface, Capsule])
def test_other_array_protocols(wrap: Any) -> None:
    x = torch.arange(60, device="cuda", dtype=torch.float32).reshape(6, 10)[1:, ::2]
    assert describe(wrap(x)) == describe(x)
    assert np.array_equal(to_host(wrap(x)), x.cpu().numpy())
    line = torch.zeros(1000, device="cuda")
    launcher = adder()
    for _ in range(2):
        launcher.launch((8, 1, 1), (wrap(line),))
    torch.cuda.synchronize()
    assert line.unique().tolist() == [2.0]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "int64", "bool"])
def test_to_host(dtype: str) -> None:
    x = torch.tensor([[0, 1, 2], [3, 4, 5]], device="cuda").to(getattr(torch, dtype))
    found = to_host(x)
    assert found.dtype.name == dtype
    assert found.astype(np.float64).tolist() == x.cpu().to(torch.float64).tolist()


def test_record_is_readable_after_a_trap() -> None:
    """In a process of its own: a trap ends its CUDA context."""
    script = '''
import struct
import torch
import phalanx as px
from phalanx.cuda.nvrtc import compile_cuda
from phalanx.cuda.abi import Signature
from phalanx.runtime.device.driver import DriverError, HostBuffer, get_driver
from phalanx.runtime.launch.launcher import Launcher
text = """extern "C" __global__ void stuck(void* debug) {
    *(volatile int*)debug = 4711; __threadfence_system(); __trap(); }"""
driver = get_driver()
image = compile_cuda(text, driver.device(0).arch)
torch.zeros(1, device="cuda")
with driver.context(0):
    record = HostBuffer(driver, 64)
launcher = Launcher(image.cubin, "stuck", Signature((), debug=True), device=0, threads=1)
launcher.launch((1, 1, 1), (), debug=record.device_pointer)
try:
    driver.synchronize(0)
except DriverError as error:
    print(error.name, struct.unpack_from("<i", record.memory)[0])
'''
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split()[-1:] == ["4711"], done.stderr
    assert "CUDA_ERROR_" in done.stdout


def test_host_buffer_is_written_by_a_kernel() -> None:
    driver = get_driver()
    with driver.context(0):
        record = HostBuffer(driver, 4096)
    text = 'extern "C" __global__ void say(void* debug) { ((int*)debug)[threadIdx.x] = threadIdx.x * 3; }'
    launcher = make(text, "say", Signature((), debug=True), threads=64)
    launcher.launch((1, 1, 1), (), debug=record.device_pointer)
    driver.synchronize(0)
    assert record.memory[:256].cast("i").tolist() == [3 * n for n in range(64)]
    record.clear()
    assert not any(record.memory)
    record.free()


KINDS = [
    Geometry(dtype, (1,) * rank, (16,) * (rank - 1), box[:rank], swizzle, promotion, fill, wide=wide)
    for rank in range(1, 6)
    for dtype, box, swizzle, promotion, fill, wide in (
        ("bf16", (64, 64, 2, 1, 1), 128, 256, False, False), ("f32", (8, 256, 1, 3, 1), 32, 128, True, False),
        ("u8", (128, 16, 1, 1, 2), 0, 0, False, False), ("f16", (32, 128, 1, 1, 1), 64, 64, False, False),
    )
]  # fmt: skip


@pytest.mark.parametrize("fixed", KINDS, ids=lambda fixed: f"{fixed.dtype}-{len(fixed.dims)}")
def test_descriptors_are_packed_as_the_driver_encodes_them(fixed: Geometry) -> None:
    """Sizes, strides and addresses of all magnitudes, in any combination."""
    driver, rng, rank, refused = get_driver(), random.Random(len(fixed.dims)), len(fixed.dims), 0
    layout = map_layout(driver, fixed)
    assert layout is not None, "the driver's descriptors are not made of fields any more"
    for _ in range(400):
        pointer = 16 * (1 + rng.getrandbits(rng.randint(4, 43)))
        dims = tuple(1 + rng.getrandbits(rng.randint(0, 32)) for _ in range(rank))
        strides = tuple(16 * rng.getrandbits(rng.randint(0, 32)) for _ in range(rank - 1))
        try:
            wanted = encode(driver, pointer, fixed._replace(dims=dims, byte_strides=strides))
        except Error:
            refused += 1
            continue
        assert layout.packed(pointer, dims, strides) == wanted, (pointer, dims, strides)
    assert refused < 200
