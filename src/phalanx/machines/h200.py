"""The H200: what was measured on it, and what the models of the library were fitted to.

A comment beside a number says where it comes from, and which file under `benchmarks/results` still shows it; where nothing
was kept, it says that. `benchmarks/matmul.py --sweep`, `small_m.py --sweep`, `grouped.py --sweep` and `rowwise_sweep.py`
measure configurations on a card; `benchmarks/fit_h200.py` fits `TILES` and `SPLIT` to what such runs recorded, and shows how
near these numbers and fitted ones come.
"""

from __future__ import annotations

from phalanx.machines.model import (
    GroupLimits,
    Machine,
    MoveLimits,
    RowLimits,
    SplitCosts,
    SplitRule,
    TileCosts,
)

# How these were fitted was not kept. `benchmarks/matmul.py --sweep` shows the model beside measured times; section 12 of
# `h200_tuning.txt` is one of its runs.
TILES = TileCosts(
    # Of the hardware: an instruction of N columns takes N / 2 cycles.
    wgmma_columns=2,
    # Of the hardware: 32 banks of 4 bytes.
    shared_rate=128,
    l2_rate=40,
    l2_rate_alone=64,
    # A piece of 128 bytes of such a row touches two lines, one of which its neighbour needs too.
    unaligned_factor=1.5,
    epilogue=1200,
    epilogue_rate=16,
    extra_part=500,
    launch=4000,
    step=32,
    single_group_factor=1.15,
    margin=0.95,
)

# With a cold L2, as far as `split_ring` reaches: fitted to measured times of some 150 configurations of 45 shapes; 36
# shapes with four configurations each are section 23 of `h200_tuning.txt`.
SPLIT = SplitCosts(
    hbm=3.8e6,
    hbm_sm=37e3,
    l2=15e6,
    l2_sm=140e3,
    zero_fill=20e3,
    peer=28e3,
    tensor=6.2e6,
    single_group_factor=1.05,
    reread_factor=0.9,
    fixed=5.0,
    latency=1.5,
    signal=1.0,
    sharing=0.7,
    restart=3.0,
    # 15 shapes, cold: sections 21 and 22 of `h200_tuning.txt`.
    weights_in_flight=112 * 1024,
    weights_in_flight_beside_rows=96 * 1024,
)

ROWS = RowLimits(
    # Vectors that a thread holds are as many as compile without a spill, which `tests/kernels/test_row_configs.py` checks.
    held=8,
    fewer_held=6,
    most_held=10,
    ahead=4,
    # For clusters of CTAs of 512 threads.
    centered_held={8: 7, 16: 6},
    centered_parts=5,
    shared_bytes=192 * 1024,
    # `rowwise_sweep_softmax.json` and `rowwise_sweep_rms_norm.json`, configurations of rows and rings in turns.
    streamed_from=8,
    ring_row_bytes=256 * 1024,
    ring_slice_bytes=64 * 1024,
    ring_rows=4,
)

# Chosen by `benchmarks/gather.py`; `gather.json` has the result, the sweep was not kept.
MOVES = MoveLimits(
    ring_bytes=192 * 1024,
    stage_bytes=32 * 1024,
    shared_stage_bytes=4 * 1024,
    widest_bytes=48 * 1024,
    short_row_bytes=4096,
    narrowest_bytes=128,
)

# `benchmarks/grouped.py --sweep`; section 10 of `h200_tuning.txt`: pairs along N are the faster ones for weights of
# 4,096 x 4,096, pairs along M for 14,336 x 4,096.
GROUPS = GroupLimits(kept_bytes=48 << 20, middle_rows=384)

H200 = Machine(
    name="H200",
    sms=132,
    # Where memory is the limit; only `split_side` asks for it.
    clock=1750,
    l2_bytes=60 << 20,
    line_bytes=128,
    shared_bytes_per_sm=228 * 1024,
    reserved_shared_bytes=1024,
    # What the driver answered for CTAs of 384 threads and 200 KB of shared memory.
    clusters_at_once={1: 132, 2: 66, 4: 30, 8: 15, 16: 7},
    clustered_sms=120,
    streamed_bytes=8 << 20,
    tiles=TILES,
    split=SPLIT,
    # 1, 16, 64 and 128 rows measured 0.40, 0.70, 0.94 and 0.65 of the tiles' time; section 23 of `h200_tuning.txt` has more.
    split_rows=SplitRule(few=128, most=512, allowed=1.05, stored=0.0),
    # 1 and 16 columns measured 0.38 and 0.49 of it; 256 of 4096 x 256 x 14336 took 56.8 us, kernels alone, the tiles 49.9
    # (sections 11 and 26). `stored` was measured before columns were stored as they lie.
    split_columns=SplitRule(few=16, most=128, allowed=1.0, stored=6.5e-6),
    rows=ROWS,
    moves=MOVES,
    groups=GROUPS,
)
