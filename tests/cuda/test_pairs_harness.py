"""Pairs of CTAs and cluster launch control on the CPU: whose barrier hears of bytes and commits, and who gets which tile."""

from __future__ import annotations

import numpy as np
import pytest

from phalanx.cuda.nvrtc import compile_cuda
from support.blackwell_texts import kernel_text
from support.host_cuda import COMPILER, MISSING, HostFailure, launch
from support.host_hand import HandWritten, TensorMap

needs_compiler = pytest.mark.skipif(COMPILER is None, reason=MISSING)
HEAD = kernel_text("tensor_memory.cuh")

# ---------------------------------------------------------------------- bytes

LOADS = HEAD + """
// Every CTA starts a barrier; LOAD brings boxes of 256 bytes; CTA r waits where bytes[r] says that some come.
extern "C" __global__ void __launch_bounds__(32) run(const __grid_constant__ Map map, const int* bytes, unsigned char* out) {
  extern __shared__ __align__(1024) unsigned char box[];
  __shared__ alignas(8) u64 bar;
  const unsigned rank = rank_in_cluster(), mine = place(&bar);
  if (threadIdx.x == 0) {
    start(mine, 1);
    started();
    expect(mine, bytes[rank]);
  }
  for (int i = threadIdx.x; i < 1024; i += 32) box[i] = 0;
  everyone_in_cluster();
  if (threadIdx.x == 0) {
    const unsigned to = place(box), lead = in_cta(mine, rank) & 0xfeffffffu;
    LOAD
  }
  if (threadIdx.x == 0 && bytes[rank]) wait_for(mine, 0);
  everyone_in_cluster();
  for (int i = threadIdx.x; i < 1024; i += 32) out[rank * 1024 + i] = box[i];
}
"""
WAYS = {
    "each its own, leaders hear": (
        "load_pair(to, &map, 0, rank, lead);", [512, 0, 512, 0], [[0], [1], [2], [3]]),
    "each its own, the odd ones hear": (
        "load_pair(to, &map, 0, rank, in_cta(mine, rank | 1));", [0, 512, 0, 512], [[0], [1], [2], [3]]),
    "own barriers": ("load_pair(to, &map, 0, rank, mine);", [256] * 4, [[0], [1], [2], [3]]),
    "to all, leaders hear twice": (
        "if (rank == 0) load_pair_multicast(to, &map, 0, 5, lead, 15);", [512, 0, 512, 0], [[5], [5], [5], [5]]),
    "to all by an odd one with its own barrier": (
        "if (rank == 3) load_pair_multicast(to, &map, 0, 5, mine, 15);", [0, 512, 0, 512], [[5], [5], [5], [5]]),
    "each half to its pair": (
        "load_pair_multicast(to + rank % 2 * 256, &map, 0, rank, lead, 3 << (rank & 2));", [1024, 0, 1024, 0],
        [[0, 1], [0, 1], [2, 3], [2, 3]]),
    "to some": (
        "if (rank == 1) load_pair_multicast(to, &map, 0, 6, lead, 0b1010);", [256, 0, 256, 0], [[], [6], [], [6]]),
    "own address with the bit cleared": (
        "load_pair(to, &map, 0, rank, mine & 0xfeffffffu);", [512, 0, 512, 0], [[0], [1], [2], [3]]),
    "without a pair": ("load(to, &map, 0, rank, mine);", [256] * 4, [[0], [1], [2], [3]]),
}  # fmt: skip


def loads(statement: str, expected: list[int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What lies in the shared memories in the end, and the rows of the array."""
    rows, out = np.arange(8 * 256, dtype=np.uint32).astype(np.uint8).reshape(8, 256), np.zeros((4, 1024), np.uint8)
    rows += np.arange(8, dtype=np.uint8)[:, None]
    kernel = HandWritten(LOADS.replace("LOAD\n", f"{statement}\n"), "run", 32, 1024, (4, 1, 1))
    launch(kernel, 4, [TensorMap(rows, (1, 256)), np.array(expected, np.int32), out], seed)
    return out.reshape(4, 4, 256), rows


@needs_compiler
@pytest.mark.share(14)
@pytest.mark.parametrize("name", WAYS)
def test_whose_barrier_hears_of_the_bytes(name: str) -> None:
    statement, expected, rows_in = WAYS[name]
    for seed in range(3):
        out, rows = loads(statement, expected, seed)
        for rank, there in enumerate(rows_in):
            assert np.array_equal(out[rank, : len(there)], rows[there])
            assert not out[rank, len(there) :].any()
    compile_cuda(LOADS.replace("LOAD\n", f"{statement}\n"), "sm_100a")


@needs_compiler
@pytest.mark.share(4)
@pytest.mark.parametrize("statement, expected, story", [
    ("load_pair(to, &map, 0, rank, lead);", [256, 256, 256, 256], "wait for each other"),
    ("load(to, &map, 0, rank, lead);", [512, 0, 512, 0], "a copy to CTA 1 with a barrier of CTA 0|a copy to CTA 3"),
    ("load_pair(to, &map, 0, rank, in_cta(mine, 0));", [1024, 0, 0, 0], r"a copy to CTA \d with a barrier of CTA 0"),
    ("load_pair_multicast(to, &map, 0, 0, lead, 31);", [0] * 4, "a multicast to CTA 4 of 4"),
])  # fmt: skip
def test_bytes_that_go_astray(statement: str, expected: list[int], story: str) -> None:
    with pytest.raises(HostFailure, match=story):
        loads(statement, expected, 1)


@needs_compiler
@pytest.mark.parametrize("bits", [4, 6])
def test_packed_elements_get_padding(bits: int) -> None:
    """Sixteen elements become sixteen bytes, of which the last ones are not told; coordinates are of elements, and the
    barrier counts the bytes of the array."""
    text = LOADS.replace("LOAD\n", "load_pair(to, &map, 64, 2 * rank, mine);\n")
    rows, out = np.random.default_rng(0).integers(0, 256, (8, 24 * bits), dtype=np.uint8), np.zeros((4, 1024), np.uint8)
    maps = TensorMap(rows, (2, 128), bits=bits)
    launch(HandWritten(text, "run", 32, 1024, (4, 1, 1)), 4, [maps, np.full(4, 32 * bits, np.int32), out], 1)
    units = out[:, :256].reshape(8, 8, 16)[:, :, : 2 * bits]
    assert np.array_equal(units, rows.reshape(8, 12, 2 * bits)[:, 4:12])


# ---------------------------------------------------------------------- commits

COMMITS = HEAD + """
extern "C" __global__ void __launch_bounds__(32) run(unsigned* out) {
  __shared__ alignas(8) u64 bar;
  const unsigned rank = rank_in_cluster();
  if (threadIdx.x == 0) {
    start(place(&bar), 1);
    started();
  }
  everyone_in_cluster();
  if (threadIdx.x == 0) {
    COMMIT
  }
  __syncwarp();
  unsigned ok;
  for (int i = 0; i < 60; ++i)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(ok) : "r"(place(&bar)));
  out[rank] = ok;
  everyone_in_cluster();
}
"""


@needs_compiler
@pytest.mark.share(8)
@pytest.mark.parametrize("statement, told", [
    ("if (rank == 2) commit<2>(place(&bar));", [0, 0, 1, 0]),
    ("if (rank == 2) commit<2>(in_cta(place(&bar), 1));", [0, 1, 0, 0]),
    ("if (rank == 0) commit_pair(place(&bar), 0b1011);", [1, 1, 0, 1]),
    ("if (rank == 1) commit<1>(place(&bar));", [0, 1, 0, 0]),
    ('if (rank == 0) asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%0];" :: "l"(&bar));',
     [1, 0, 0, 0]),
])  # fmt: skip
def test_who_hears_of_a_commit(statement: str, told: list[int]) -> None:
    text = COMMITS.replace("COMMIT\n", f"{statement}\n")
    for seed in range(3):
        out = np.zeros(4, np.uint32)
        launch(HandWritten(text, "run", 32, 0, (4, 1, 1)), 4, [out], seed)
        assert out.tolist() == told
    compile_cuda(text, "sm_100a")


@needs_compiler
def test_the_groups_do_not_mix() -> None:
    text = COMMITS.replace("COMMIT\n", "commit<1>(place(&bar)); commit<2>(place(&bar));\n")
    with pytest.raises(HostFailure, match=r"tcgen05.commit with cta_group::2 in a kernel that uses cta_group::1"):
        launch(HandWritten(text, "run", 32, 0, (2, 1, 1)), 2, [np.zeros(4, np.uint32)], 1)


# ---------------------------------------------------------------------- cluster launch control

TILES = HEAD + """
// Counts in `out` who worked on which CTA's tile; clusters take over others until they are refused.
extern "C" __global__ void __launch_bounds__(64) run(int* out, int width) {
  __shared__ alignas(16) u64 said[2];
  __shared__ alignas(8) u64 bar;
  const unsigned rank = rank_in_cluster();
  if (threadIdx.x == 0) {
    start(place(&bar), 1);
    started();
  }
  everyone_in_cluster();
  unsigned x = blockIdx.x - rank, y = blockIdx.y, more = 1;
  for (unsigned turn = 0; more; ++turn) {
    if (threadIdx.x == 0) {
      out[y * width + x + rank] += 1;
      ASK
    }
    wait_for(place(&bar), turn % 2);
    asm volatile("{ .reg .b128 said; .reg .pred p; ld.shared::cta.b128 said, [%3];\\n"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, said; selp.u32 %0, 1, 0, p;\\n"
                 "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, %2, _, _}, said; }"
                 : "=r"(more), "+r"(x), "+r"(y) : "r"(place(said)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    everyone_in_cluster();
    AFTER
  }
}
"""
ONE = """expect(place(&bar), 16);
      asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                   :: "r"(place(said)), "r"(place(&bar)) : "memory");"""
ALL = """expect(place(&bar), 16);
      if (rank == 0)
        asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
                     ".multicast::cluster::all.b128 [%0], [%1];" :: "r"(place(said)), "r"(place(&bar)) : "memory");"""


def tiles(ask: str, ctas: int, seed: int, after: str = "") -> np.ndarray:
    out = np.zeros((3, 8), np.int32)
    text = TILES.replace("ASK", ask).replace("AFTER", after)
    launch(HandWritten(text, "run", 64, 0, (ctas, 1, 1)), (8, 3), [out, 8], seed)
    return out


@needs_compiler
@pytest.mark.share(4)
@pytest.mark.parametrize("ask, ctas", [(ONE, 1), (ALL, 1), (ALL, 2), (ALL, 4)])
def test_every_tile_is_somebodys(ask: str, ctas: int) -> None:
    for seed in range(6):
        assert (tiles(ask, ctas, seed) == 1).all()
    compile_cuda(TILES.replace("ASK", ask).replace("AFTER", ""), "sm_100a")


@needs_compiler
def test_what_is_refused_is_not_asked_again() -> None:
    again = f"if (!more && threadIdx.x == 0) {{ {ONE} }}"
    with pytest.raises(HostFailure, match=r"clusterlaunchcontrol.try_cancel after a response that was a refusal"):
        tiles(ONE, 1, 1, again)


@needs_compiler
def test_a_refusal_names_nobody() -> None:
    text = TILES.replace("ASK", ONE).replace("AFTER", "").replace("@p clusterlaunchcontrol", "clusterlaunchcontrol")
    with pytest.raises(HostFailure, match=r"query_cancel.get_first_ctaid of a response that was a refusal"):
        launch(HandWritten(text, "run", 64), (8, 3), [np.zeros((3, 8), np.int32), 8], 1)


@needs_compiler
def test_responses_are_waited_for() -> None:
    text = TILES.replace("ASK", ONE).replace("AFTER", "").replace("wait_for(place(&bar), turn % 2);", "")
    with pytest.raises(HostFailure, match="query_cancel of 16 bytes that no try_cancel has written"):
        launch(HandWritten(text, "run", 64), (8, 3), [np.zeros((3, 8), np.int32), 8], 1)


@needs_compiler
def test_every_cta_expects_its_response() -> None:
    with pytest.raises(HostFailure, match="wait for each other"):
        tiles(f"if (rank == 0) {ALL}", 2, 1)
