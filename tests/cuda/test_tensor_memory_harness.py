"""Tensor memory on the CPU: who may allocate it and for how long, what loads, stores and copies touch, what is late."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from phalanx.cuda.nvrtc import CompileFailure, compile_cuda
from support import host_build
from support.blackwell_texts import kernel_text
from support.host_cuda import COMPILER, MISSING, HostFailure, launch
from support.host_hand import HandWritten

needs_compiler = pytest.mark.skipif(COMPILER is None, reason=MISSING)
HEAD = kernel_text("tensor_memory.cuh")


def run(text: str, *args: object, threads: int = 128, shared: int = 0, ctas: int = 1, seed: int = 1) -> None:
    launch(HandWritten(text, "run", threads, shared, (ctas, 1, 1)), ctas, list(args), seed)


def body(statements: str, parameters: str = "", threads: int = 128) -> str:
    """A kernel `run` with a place for an address in shared memory."""
    return f"""{HEAD}
extern "C" __global__ void __launch_bounds__({threads}) run({parameters}) {{
  extern __shared__ __align__(1024) unsigned char bytes[];
  __shared__ alignas(8) u64 bar;
  __shared__ unsigned where;
  const int warp = threadIdx.x / 32;
{statements}
}}
"""


# ---------------------------------------------------------------------- allocation

ALLOCATIONS = {
    "too few": ("allocate<1>(place(&where), 16);", "tcgen05.alloc of 16 columns: they are a power of two from 32 to 512"),
    "no power of two": ("allocate<1>(place(&where), 96);", "tcgen05.alloc of 96 columns"),
    "too many": ("allocate<1>(place(&where), 1024);", "tcgen05.alloc of 1024 columns"),
    "not freed": (
        "allocate<1>(place(&where), 64);", "CTA 0 of a cluster ends and has not freed 64 columns of tensor memory"),
    "after relinquishing": (
        "columns<1>(place(&where), 32); give_back<1>(where, 32); allocate<1>(place(&where), 32);",
        "tcgen05.alloc after tcgen05.relinquish_alloc_permit"),
    "a larger one": (
        "allocate<1>(place(&where), 32); give_back<1>(where, 32); allocate<1>(place(&where), 64);",
        "tcgen05.alloc of 64 columns after one of 32: later ones may not be larger"),
    "freed in part": (
        "allocate<1>(place(&where), 64); give_back<1>(where, 32);", "tcgen05.dealloc of 32 columns at address 0x"),
    "freed twice": (
        "allocate<1>(place(&where), 64); const unsigned t = where; give_back<1>(t, 64); give_back<1>(t, 64);",
        "where there is no allocation of that size"),
    "no room": ("allocate<1>(place(&where), 512); allocate<1>(place(&where), 512);", "the threads wait for each other"),
    "two groups": (
        "allocate<1>(place(&where), 64); give_back<2>(where, 64);", "cta_group::2 in a kernel that uses cta_group::1"),
    "a pair of one": ("allocate<2>(place(&where), 64);", "there is no other CTA of its pair"),
    "lanes that disagree": (
        "allocate<1>(place(&where), threadIdx.x ? 64 : 32);", "tcgen05.alloc with other operands in lane"),
    "misaligned": ("allocate<1>(place(&where) + 2, 32);", "misaligned access of 4 bytes"),
}  # fmt: skip


@needs_compiler
@pytest.mark.share(7)
@pytest.mark.parametrize("name", ALLOCATIONS)
def test_what_an_allocation_may_not_do(name: str) -> None:
    statements, story = ALLOCATIONS[name]
    with pytest.raises(HostFailure, match=story):
        run(body(f"if (warp == 0) {{ {statements} }}"))


@needs_compiler
def test_places_differ_and_memory_is_given_back() -> None:
    """Two allocations that both fit; where they lie is not for the kernel to know."""
    statements = """
  if (warp == 0) {
    for (int turn = 0; turn < 3; ++turn) {
      allocate<1>(place(&where), 128);
      const unsigned first = where;
      __syncwarp();
      allocate<1>(place(&where), 128);
      const unsigned second = where;
      if (threadIdx.x == 0) out[2 * turn] = first, out[2 * turn + 1] = second;
      __syncwarp();
      give_back<1>(first, 128);
      give_back<1>(second, 128);
    }
  }"""
    seen = set()
    for seed in range(5):
        out = np.zeros(6, np.uint32)
        run(body(statements, "unsigned* out"), out, seed=seed)
        assert set(out.tolist()) <= {0, 128, 256, 384} and all(out[::2] != out[1::2])
        seen |= set(out.tolist())
    assert seen == {0, 128, 256, 384}


@needs_compiler
def test_a_pair_gets_the_same_columns() -> None:
    statements = """
  if (warp == 0) {
    columns<2>(place(&where), 64);
    if (threadIdx.x == 0) out[rank_in_cluster()] = where;
    everyone_in_cluster();
    give_back<2>(where, 64);
  } else {
    everyone_in_cluster();
  }"""
    for seed in range(4):
        out = np.full(2, 9999, np.uint32)
        run(body(statements, "unsigned* out"), out, ctas=2, seed=seed)
        assert out[0] == out[1] < 512
    unequal = statements.replace("place(&where), 64)", "place(&where), rank_in_cluster() ? 32 : 64)")
    with pytest.raises(HostFailure, match=r"tcgen05.alloc of (64|32) columns, and of (64|32) in the other CTA of the pair"):
        run(body(unequal, "unsigned* out"), out, ctas=2)


# ---------------------------------------------------------------------- loads and stores

SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
"""Registers of x1."""


def table(shape: str, l: int, i: int, split: int) -> tuple[int, int]:
    """The lane and column of register i of lane l."""
    return {
        "32x32b": (l, i),
        "16x64b": (l // 4 + 8 * (l % 2), l // 2 % 2 + 2 * i),
        "16x128b": (l // 4 + 8 * (i % 2), l % 4 + 4 * (i // 2)),
        "16x256b": (l // 4 + 8 * (i // 2 % 2), 2 * (l % 4) + i % 2 + 8 * (i // 4)),
        "16x32bx2": (l % 16, i + l // 16 * split),
    }[shape]


def moving(shape: str, times: int, packed: bool, split: int) -> str:
    """Loads by a shape what is in tensor memory, then stores what came by a shape to other columns."""
    count = SHAPES[shape] * times
    names = ", ".join(f"%{n}" for n in range(count))
    after = f", {split}" if shape == "16x32bx2" else ""
    outputs = ", ".join(f'"=r"(words[{n}])' for n in range(count))
    inputs = ", ".join(f'"r"(words[{n}])' for n in range(count))
    mode = f"sync.aligned.{shape}.x{times}"
    statements = f"""
  if (warp == 0) columns<1>(place(&where), 512);
  __syncthreads();
  const unsigned t = where, mine = t + (warp * 32 << 16);
  unsigned* const own = cells + threadIdx.x * 512;
  for (int c = 0; c < 512; ++c) write1(mine + c, own[c]);
  was_written();
  unsigned words[{count}];
  const unsigned at = mine + {0 if shape == "32x32b" else "((unsigned)upper << 20)"} + 8;
  asm volatile("tcgen05.ld.{mode}{".pack::16b" * packed}.b32 {{{names}}}, [%{count}]{after};" : {outputs} : "r"(at));
  was_read();
  for (int i = 0; i < {count}; ++i) registers[threadIdx.x * {count} + i] = words[i];
  asm volatile("tcgen05.st.{mode}{".unpack::16b" * packed}.b32 [%{count}]{after}, {{{names}}};"
               :: {inputs}, "r"(at + 256) : "memory");
  was_written();
  for (int c = 0; c < 512; ++c) fetch1(own + c, mine + c);
  __syncthreads();
  if (warp == 0) give_back<1>(t, 512);"""
    return body(statements, "unsigned* cells, unsigned* registers, int upper")


CASES = [(shape, times, False) for shape in SHAPES for times in (1, 2, 8)]
CASES += [("32x32b", 128, False), ("16x64b", 64, False), ("16x128b", 32, False), ("16x256b", 16, False)]
CASES += [(shape, 4, True) for shape in SHAPES]


@needs_compiler
@pytest.mark.share(28)
@pytest.mark.parametrize("shape, times, packed", CASES)
def test_registers_of_a_shape(shape: str, times: int, packed: bool) -> None:
    split, count = 20, SHAPES[shape] * times
    text = moving(shape, times, packed, split)
    rng = np.random.default_rng(times)
    for seed, upper in ((1, 0), (2, shape != "32x32b")):
        cells, registers = rng.integers(0, 2**32, (128, 512), dtype=np.uint32), np.zeros((128, count), np.uint32)
        before, after = cells.copy(), cells.copy()
        want = np.zeros_like(registers)
        for thread in range(128):
            for i in range(count):
                lane, column = table(shape, thread % 32, i, 0)
                lane += thread // 32 * 32 + 16 * upper
                column = 8 + column * (1 + packed) + (split if shape == "16x32bx2" and thread % 32 >= 16 else 0)
                low, high = (int(before[lane, column + half]) & 0xFFFF for half in (0, 1))
                want[thread, i] = low | high << 16 if packed else before[lane, column]
                to = column + 256
                if packed:  # the halves that say nothing stay
                    after[lane, to] = after[lane, to] & 0xFFFF0000 | low
                    after[lane, to + 1] = after[lane, to + 1] & 0xFFFF0000 | high
                else:
                    after[lane, to] = want[thread, i]
        run(text, cells, registers, int(upper), seed=seed)
        assert np.array_equal(registers, want)
        assert np.array_equal(cells, after)


def test_places_that_can_be_read_off_the_tables() -> None:
    """The fragment of a warp group's product: lane 5 holds row 1, columns 2 and 3, then row 9."""
    assert [table("16x256b", 5, i, 0) for i in range(5)] == [(1, 2), (1, 3), (9, 2), (9, 3), (1, 10)]
    assert [table("16x64b", l, 0, 0) for l in range(4)] == [(0, 0), (8, 0), (0, 1), (8, 1)]


@pytest.mark.share(7)
@pytest.mark.parametrize("shape, times, packed", [case for case in CASES if case[1] in (4, 8)])
def test_the_texts_of_shapes_compile(shape: str, times: int, packed: bool) -> None:
    compile_cuda(moving(shape, times, packed, 20), "sm_100a")


ACCESSES = {
    "foreign lanes": (
        "read1(word, t);",
        r"thread \d+ of CTA \(0, 0, 0\): tcgen05.ld of lanes 0 to 31 of tensor memory by warp \d, which reaches lanes"),
    "half of the lanes": ("read1(word, mine + (16 << 16));", "tcgen05.ld of lanes 16 to 47|by warp 3"),
    "beyond the allocation": ("read1(word, mine + 64);", r"column \d+ of tensor memory, which CTA 0 has not allocated"),
    "other addresses": ("read1(word, mine + threadIdx.x % 2);", "tcgen05.ld with other operands in lane"),
    "a store to foreign lanes": ("write1(t + (96 << 16), 1);", "tcgen05.st of lanes 96 to 127"),
    "one lane only": ("if (threadIdx.x % 32 == 0) read1(word, mine);", "wait for each other"),
}  # fmt: skip


@needs_compiler
@pytest.mark.share(7)
@pytest.mark.parametrize("name", ACCESSES)
def test_what_loads_and_stores_may_not_do(name: str) -> None:
    statement, story = ACCESSES[name]
    text = body(f"""
  if (warp == 0) columns<1>(place(&where), 64);
  __syncthreads();
  const unsigned t = where, mine = t + (warp * 32 << 16);
  unsigned word[1];
  {statement}
  __syncthreads();
  if (warp == 0) give_back<1>(t, 64);""")
    with pytest.raises(HostFailure, match=story):
        run(text)


WRONG_TEXT = {
    "a shape": ("tcgen05.ld.sync.aligned.8x32b.x1.b32 {%0}, [%1];", "tcgen05.ld of a shape 8x32b"),
    "a number": ("tcgen05.ld.sync.aligned.32x32b.x3.b32 {%0}, [%1];", "tcgen05.ld.32x32b.x3 is not one of the shapes"),
    "too many registers": ("tcgen05.ld.sync.aligned.16x256b.x64.b32 {%0}, [%1];", "16x256b.x64 is not one of the shapes"),
    "another count": ("tcgen05.ld.sync.aligned.16x256b.x1.b32 {%0}, [%1];", "16x256b.x1 with 1 registers instead of 4"),
    "a modifier": ("tcgen05.ld.sync.aligned.32x32b.x1.fast.b32 {%0}, [%1];", "no host version of the PTX 'tcgen05.ld"),
    "no .aligned": ("tcgen05.ld.sync.32x32b.x1.b32 {%0}, [%1];", "no host version of the PTX"),
    "unpack for a load": ("tcgen05.ld.sync.aligned.32x32b.x1.unpack::16b.b32 {%0}, [%1];", "no host version of the PTX"),
    "an instruction": ("tcgen05.shift.cta_group::1.down [%1];", "no host version of the PTX 'tcgen05.shift"),
    "an operand that is not there": ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%2];", "no host version of the PTX"),
}


@needs_compiler
@pytest.mark.share(7)
@pytest.mark.parametrize("name", WRONG_TEXT)
def test_text_that_is_wrong(name: str) -> None:
    ptx, story = WRONG_TEXT[name]
    text = body(f"""
  if (warp == 0) columns<1>(place(&where), 64);
  __syncthreads();
  unsigned word;
  asm volatile("{ptx}" : "=r"(word) : "r"(where + (warp * 32 << 16)));
  was_read();""")
    with pytest.raises(HostFailure, match=story):
        run(text)
    if name not in ("an instruction",):  # which the harness alone does not know
        with pytest.raises(CompileFailure):
            compile_cuda(text, "sm_100a")


# ---------------------------------------------------------------------- copies

COPIES = ["128x256b", "128x128b", "4x256b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23", "32x128b.warpx4"]


def copying(form: str) -> str:
    return body(f"""
  for (int i = threadIdx.x; i < 32768; i += 128) bytes[i] = image[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  if (threadIdx.x == 0) start(place(&bar), 1), started();
  if (warp == 0) columns<1>(place(&where), 64);
  __syncthreads();
  const unsigned t = where, mine = t + (warp * 32 << 16);
  for (int c = 0; c < 64; ++c) write1(mine + c, 0xabcd1234);
  was_written();
  before_others();
  __syncthreads();
  after_others();
  if (threadIdx.x == 0) {{
    asm volatile("tcgen05.cp.cta_group::1.{form} [%0], %1;" :: "r"(t + at), "l"(*word) : "memory");
    commit<1>(place(&bar));
    wait_for(place(&bar), 0);
  }}
  __syncthreads();
  after_others();
  for (int c = 0; c < 64; ++c) fetch1(cells + threadIdx.x * 64 + c, mine + c);
  before_others();
  __syncthreads();
  after_others();
  if (warp == 0) give_back<1>(t, 64);""", "const unsigned char* image, const u64* word, unsigned* cells, int at")


def lanes_of(form: str) -> list[list[int]]:
    """The lanes that each row goes to."""
    return {
        "128x256b": [[r] for r in range(128)],
        "128x128b": [[r] for r in range(128)],
        "4x256b": [[32 * r] for r in range(4)],
        "64x128b.warpx2::02_13": [[r, r + 64] for r in range(64)],
        "64x128b.warpx2::01_23": [[r, r + 32] for r in range(32)] + [[r + 64, r + 96] for r in range(32)],
        "32x128b.warpx4": [[r, r + 32, r + 64, r + 96] for r in range(32)],
    }[form]


@needs_compiler
@pytest.mark.share(9)
@pytest.mark.parametrize("form", COPIES)
@pytest.mark.parametrize("swizzle, width", [(0, 16), (2, 128), (4, 64), (6, 32)])
def test_copies(form: str, swizzle: int, width: int) -> None:
    rng = np.random.default_rng(0)
    image, cells = rng.integers(0, 256, 32768, dtype=np.uint8), np.zeros((128, 64), np.uint32)
    leading, stride = (128, 256) if swizzle == 0 else (16, 8 * width)
    word = np.array([4096 >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | swizzle << 61], np.uint64)
    count = 32 if "256b" in form else 16
    want = np.full((128, 64), 0xABCD1234, np.uint32)
    for row, lanes in enumerate(lanes_of(form)):
        data = np.zeros(count, np.uint8)
        for byte in range(count):
            where = row // 8 * stride + row % 8 * 16 + byte // 16 * leading + byte % 16
            if swizzle:
                where = row // 8 * stride + row % 8 * width + byte
                where ^= (where >> 7 & {2: 7, 4: 3, 6: 1}[swizzle]) << 4
            data[byte] = image[where]
        for lane in lanes:
            want[lane, 12 : 12 + count // 4] = data.view(np.uint32)
    for seed in (1, 2):
        run(copying(form), image, word, cells, 12, shared=32768, seed=seed)
        assert np.array_equal(cells, want)


@needs_compiler
@pytest.mark.share(7)
@pytest.mark.parametrize("form", COPIES)
@pytest.mark.parametrize("dtype, bits", [(ml_dtypes.float4_e2m1fn, 4), (ml_dtypes.float6_e3m2fn, 6)])
def test_copies_that_expand(form: str, dtype: type, bits: int) -> None:
    rng = np.random.default_rng(1)
    rows, units = len(lanes_of(form)), 2 if "256b" in form else 1
    codes = rng.integers(0, 2**bits, (rows, units, 16)).astype(np.uint8)
    image, cells = np.full(32768, 0x5A, np.uint8), np.zeros((128, 64), np.uint32)
    packed = np.packbits(np.unpackbits(codes[..., None], axis=3, bitorder="little")[..., :bits].reshape(rows, units, -1),
                         axis=2, bitorder="little")  # fmt: skip
    want = np.full((128, 64), 0xABCD1234, np.uint32)
    for row, lanes in enumerate(lanes_of(form)):
        for unit in range(units):
            start = row // 8 * 256 + row % 8 * 16 + unit * 128
            image[start : start + 2 * bits] = packed[row, unit]
            contained = codes[row, unit] << 2 if bits == 4 else codes[row, unit]
            for lane in lanes:
                want[lane, 4 * unit : 4 * unit + 4] = contained.view(np.uint32)
    word = np.array([4096 >> 4 | 8 << 16 | 16 << 32 | 1 << 46], np.uint64)
    text = copying(f"{form}.b8x16.{'b4x16_p64' if bits == 4 else 'b6x16_p32'}")
    run(text, image, word, cells, 0, shared=32768)
    assert np.array_equal(cells, want)
    compile_cuda(text, "sm_100a")


@needs_compiler
def test_what_copies_may_not_do() -> None:
    image, cells = np.zeros(32768, np.uint8), np.zeros((128, 64), np.uint32)
    good = np.array([4096 >> 4 | 8 << 16 | 16 << 32 | 1 << 46], np.uint64)
    for form, word, at, story in (
        ("32x128b", good, 0, "tcgen05.cp of 32x128b with warp of none"),
        ("128x128b.warpx4", good, 0, "tcgen05.cp of 128x128b with warpx4"),
        ("128x128b", good, 2, "column .*, no multiple of 4"),
        ("128x128b", good, 1 << 16, "tcgen05.cp to lane 1 "),
        ("128x256b", good, 60, "tcgen05.cp at lane 0, column .* which CTA 0 has not allocated"),
        ("128x128b", good + np.uint64(2047), 0, r"tcgen05.cp reads byte \d+ of shared memory, which has 33792"),
        ("128x128b", good ^ np.uint64(1 << 46), 0, "bits 46 to 48 of a descriptor are 001"),
    ):
        with pytest.raises(HostFailure, match=story):
            run(copying(form), image, word, cells, at, shared=32768)


# ---------------------------------------------------------------------- what comes late


def told(text: str, seeds: int = 8, **settings: int) -> set[str]:
    """What comes of a text that writes 1 for each thread where it is right."""
    stories = set()
    for seed in range(seeds):
        out = np.zeros(128, np.uint32)
        try:
            run(text, out, seed=seed, **settings)
            stories.add("right" if (out == 1).all() else "wrong")
        except HostFailure as failure:
            stories.add(str(failure))
    return stories


# Row r of A is 1 at its first element; B is all ones: every sum is 1.
FIRST = """
  for (int i = threadIdx.x; i < 8192; i += 128) ((unsigned*)bytes)[i] = 0x3f803f80;
  for (int i = threadIdx.x; i < 1024; i += 128) ((unsigned*)bytes)[i] = i % 4 == 0 && i / 4 % 16 < 8 ? 0x3f80 : 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  if (threadIdx.x == 0) start(place(&bar), 1), started();
  if (warp == 0) columns<1>(place(&where), 64);
  __syncthreads();
  const unsigned t = where, mine = t + (warp * 32 << 16);
  const u64 a = (place(bytes) & 0x3ffff) >> 4 | 8ull << 16 | 16ull << 32 | 1ull << 46, b = a + 512;
  const unsigned word = 1 << 4 | 1 << 7 | 1 << 10 | 8 / 8 << 17 | 128 / 16 << 24;
  unsigned got[1];
  if (threadIdx.x == 0) {
    PRODUCT
  }
  WAIT
  after_others();
  OVERWRITE
  read1(got, mine);
  was_read();
  out[threadIdx.x] = got[0] == 0x3f800000;
  before_others();
  __syncthreads();
  if (threadIdx.x == 0) wait_for(place(&bar), 0);
  __syncthreads();
  if (warp == 0) give_back<1>(t, 64);
"""
PRODUCT = """asm volatile("{ .reg .pred p; setp.ne.b32 p, 0, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }"
                 :: "r"(t), "l"(a), "l"(b), "r"(word) : "memory");"""


def first(
    wait: str = "wait_for(place(&bar), 0);", overwrite: str = "", commit: str = "commit<1>(place(&bar));"
) -> str:
    statements = FIRST.replace("PRODUCT", PRODUCT + commit).replace("WAIT", wait).replace("OVERWRITE", overwrite)
    return body(statements, "unsigned* out")


@needs_compiler
def test_products_come_late() -> None:
    zeros = "for (int i = threadIdx.x; i < 1024; i += 128) ((unsigned*)bytes)[i] = 0; __syncthreads();"
    assert told(first(), shared=32768) == {"right"}
    assert told(first(overwrite=zeros), shared=32768) == {"right"}
    assert "wrong" in told(first(wait=""), shared=32768)
    assert "wrong" in told(first(wait="", overwrite=zeros + "wait_for(place(&bar), 0);"), shared=32768)


@needs_compiler
def test_commits_belong_to_a_thread() -> None:
    other = "if (threadIdx.x == 32) commit<1>(place(&bar)); wait_for(place(&bar), 0);"
    stories = told(first(commit="", wait=other), shared=32768)
    assert all("1 tcgen05.mma or tcgen05.cp that no commit of this thread follows" in story for story in stories), stories


@needs_compiler
def test_a_commit_to_what_is_no_barrier() -> None:
    stories = told(first(commit="commit<1>(place(bytes)); commit<1>(place(&bar));"), shared=32768, seeds=4)
    assert all("tcgen05.commit to a barrier that is not initialised" in story for story in stories), stories


STORES = """
  if (warp == 0) columns<1>(place(&where), 64);
  __syncthreads();
  const unsigned t = where, mine = t + (warp * 32 << 16);
  unsigned got[1];
  write1(mine + 3, 7);
  WAIT
  read1(got, mine + 3);
  READ
  const bool right = got[0] == 7;
  LATER
  write1(mine + 3, 8);
  was_written();
  out[threadIdx.x] = right;
  __syncthreads();
  if (warp == 0) give_back<1>(t, 64);
"""


@needs_compiler
def test_stores_and_loads_are_waited_for() -> None:
    def text(wait: str, read: str, later: str = "") -> str:
        return body(STORES.replace("WAIT", wait).replace("READ", read).replace("LATER", later), "unsigned* out")

    assert told(text("was_written();", "was_read();")) == {"right"}
    assert told(text("", "was_read();")) == {"right", "wrong"}
    assert told(text("was_written();", "", "was_read();")) == {"right", "wrong"}  # used before the wait for it
    stories = told(text("was_written();", ""))
    assert all("and warp" in story and "has not waited for its tcgen05.ld of it" in story for story in stories), stories


@needs_compiler
@pytest.mark.skipif(bool(host_build.RUNNER), reason="counts are of this process")
def test_instructions_are_counted() -> None:
    told(first(), shared=32768, seeds=1)
    counts = {name: host_build.counted(name) for name in (
        "tcgen05.alloc", "tcgen05.dealloc", "tcgen05.mma", "tcgen05.commit", "tcgen05.ld", "tcgen05.wait::ld",
        "tcgen05.fence::after_thread_sync", "tcgen05.fence::before_thread_sync", "fence.proxy.async.shared::cta",
    )}  # fmt: skip
    assert list(counts.values()) == [1, 1, 1, 1, 4, 4, 128, 128, 128]
