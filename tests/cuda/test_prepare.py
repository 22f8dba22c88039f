"""What depends on the target is decided before the simulator runs: it runs what would be compiled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

import phalanx as px
from phalanx.cuda.prepare import default_arch
from phalanx.ir.archs import ARCHS, USUAL, Feature, arch_of
from phalanx.ir.core import Function
from phalanx.ir.effects import Effects, Target
from phalanx.language.kernel import Kernel
from phalanx.runtime.launch.specialise import Specialisation, read_arguments, specialise
from support.product_kernels import by_rows


@px.kernel(warps=4)
def product(A, B, C):
    a, b = px.shared((64, 64), A.dtype), px.shared((64, 64), A.dtype)
    px.store(a, px.load(A[0:64, 0:64]))
    px.store(b, px.load(B[0:64, 0:64]))
    px.fence.async_proxy()
    px.sync()
    px.store(C[0:64, 0:64], px.dot(a, b))


@px.kernel(warps=4)
def phases(X, Y, *, BYTES=64 * 1024):
    a, b = px.shared((BYTES // 4,), px.f32), px.shared((BYTES // 4,), px.f32)
    px.store(a, px.load(X[0 : BYTES // 4]))
    px.store(Y[0 : BYTES // 4], px.load(a) + 1)
    px.store(b, px.load(Y[0 : BYTES // 4]))
    px.store(X[0 : BYTES // 4], px.load(b) + 1)


def matrices() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    return a, b, np.zeros((64, 64), np.float32)


def specialised(kernel: Kernel, *args: Any) -> Specialisation:
    return specialise(kernel, read_arguments(kernel, args), kernel.bind_constants({}))


def instructions(function: Function) -> set[str]:
    return {op.mnemonic for op in function.walk()}


def test_products_are_chosen_for_the_target() -> None:
    made = specialised(product, *matrices())
    products = {"wgmma", "mma", "tcgen05.mma"}
    chosen = {name: instructions(made.prepared_for(arch)) & products for name, arch in ARCHS.items()}
    other = {"sm_90a": {"wgmma"}, "sm_120a": {"mma"}, "sm_121a": {"mma"}}
    assert chosen == {name: other.get(name, {"tcgen05.mma"}) for name in ARCHS}
    assert made.prepared is made.prepared_for(arch_of("sm_90a"))


def test_every_target_computes_and_checks_the_same() -> None:
    a, b, c = matrices()
    for name in ARCHS:
        c[:] = 0
        product[1](a, b, c, arch=name)
        np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
        assert px.check(product[1], a, b, c, arch=name).ok


def test_what_is_checked_is_the_targets_version() -> None:
    """Without its fence a product of `wgmma` reads stale operands; `mma.sync` needs none, `tcgen05` gets the compiler's."""

    @px.kernel(warps=4)
    def unfenced(A, B, C):
        a, b = px.shared((64, 64), A.dtype), px.shared((64, 64), A.dtype)
        px.store(a, px.load(A[0:64, 0:64]))
        px.store(b, px.load(B[0:64, 0:64]))
        px.store(C[0:64, 0:64], px.dot(a, b))

    args = matrices()
    kinds = {name: {found.kind for found in px.check(unfenced[1], *args, arch=name).findings} for name in ARCHS}
    assert kinds == {name: {"proxy"} if name == "sm_90a" else set() for name in ARCHS}


def test_exploring_takes_a_target() -> None:
    @px.kernel(warps=1)
    def small(X):
        b = px.barrier()
        b.arrive()
        b.wait(0)
        px.store(X[0], 1.0)

    seen = px.explore(small[1], np.zeros(4, np.float32), arch="sm_120a")
    assert seen.ok and seen.outcomes == 1


def test_buffers_share_memory_where_the_target_has_less() -> None:
    x, y = np.ones(16 * 1024, np.float32), np.zeros(16 * 1024, np.float32)
    made = specialised(phases, x, y)
    shared = {name: [b.name for b in made.prepared_for(arch).buffers if b.reuse is not None] for name, arch in ARCHS.items()}
    assert shared == {name: ["b"] if name in ("sm_120a", "sm_121a") else [] for name in ARCHS}
    assert px.check(phases[1], x, y, arch="sm_120a").ok
    specs = px.spec(x.shape, px.f32), px.spec(y.shape, px.f32)
    assert px.compile(phases[1], *specs, arch="sm_120a").shared_bytes <= ARCHS["sm_120a"].shared_limit
    phases[1](x, y, arch="sm_120a")
    assert (x == 3).all() and (y == 2).all()


def test_targets_with_as_much_memory_share_what_was_found_out() -> None:
    made = specialised(phases, np.ones(16 * 1024, np.float32), np.zeros(16 * 1024, np.float32))
    assert made.prepared_for(arch_of("sm_90a")) is made.prepared_for(arch_of("sm_100a"))
    products = specialised(product, *matrices())
    assert "wgmma" not in instructions(products.prepared_for(arch_of("sm_100a")))
    assert "wgmma" in instructions(products.prepared_for(arch_of("sm_90a")))


def kernel_of(*targets: Target, cluster: int = 1) -> Any:
    """As much of a kernel as says which GPUs have its instructions."""
    ops = [SimpleNamespace(effects=lambda target=target: Effects(target=target)) for target in targets]
    return SimpleNamespace(walk=lambda: ops, cluster_size=cluster)


def test_the_default_is_the_first_target_that_has_everything() -> None:
    newer, newest = Target((Feature.CLC,)), Target((Feature.MMA_BLOCK_SCALE,))
    assert default_arch(kernel_of(Target())).name == "sm_90a"
    assert default_arch(kernel_of(Target(), newer)).name == "sm_100a"
    assert default_arch(kernel_of(newer, newest)).name == "sm_120a"
    assert default_arch(kernel_of(Target((Feature.LD_RED,)))).name == "sm_103a", "none of the usual ones has it"
    assert default_arch(kernel_of(Target((Feature.WGMMA,)), newer)).name == "sm_90a", "the first, where there is none"
    assert default_arch(kernel_of(newest, cluster=16)).name == "sm_90a"
    assert [arch.name for arch in USUAL] == ["sm_90a", "sm_100a", "sm_120a"]


def test_a_constant_of_that_name_is_the_kernels_own() -> None:
    @px.kernel(warps=1)
    def named(X, *, arch=1):
        px.store(X[0], px.full((), arch, px.f32))

    x = np.zeros(1, np.float32)
    named[1](x, arch=5)
    assert x[0] == 5


def test_products_that_shared_memory_can_not_be_laid_out_for_are_replaced_before_the_simulator_runs() -> None:
    args = (*(np.ones((64, 64), ml_dtypes.bfloat16) for _ in range(2)), np.zeros((64, 64), np.float32))
    made = specialised(by_rows, *args)
    assert {"mma", "wgmma"} <= instructions(made.prepared)
    (note,) = [str(note) for note in made.prepared.notes]
    reason = "wgmma can't read a: wgmma reads tiles with a swizzle of 32, 64 or 128 bytes"
    assert note.endswith(f"px.dot runs as mma.sync: {reason}")
    by_rows[1](*args)
    assert (args[2] == 128).all() and px.check(by_rows[1], *args).ok
