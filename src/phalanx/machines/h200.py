"""The H200: what was measured on it, and what the models of the library were fitted to.

A comment beside a number says where it comes from, and which file under `benchmarks/results` still shows it; where nothing
was kept, it says that; what is not there is in git, as its README says. In `benchmarks/products`, `sweep_products.py`,
`small_m.py --sweep` and `grouped.py --sweep` measure configurations on a card, as `rows/rowwise_sweep.py` does;
`fit_h200.py` fits the constants of tiles and of split K to what such runs recorded, and shows how near these numbers and
fitted ones come.
"""

from __future__ import annotations

from dataclasses import replace

from phalanx.machines.model import (
    DeepRule,
    FitRule,
    GroupLimits,
    Machine,
    MoveLimits,
    RowLimits,
    SplitCosts,
    SplitMargin,
    SplitRule,
    TileCosts,
)

# Of products with more than `few_results`: fitted by `fit_h200.py` to `sweep_products.json`, most of whose
# products are drawn (seed 101); their tiles are so large that latency hardly shows.
TILES = TileCosts(
    # Of the hardware: an instruction of N columns takes N / 2 cycles.
    wgmma_columns=2,
    # Of the hardware 128: 32 banks of 4 bytes.
    shared_rate=116,
    # None that was fitted: what shared memory carries is in the other constants.
    carried_rate=400,
    # Likewise.
    delivered_rate=400,
    l2_rate=44.1,
    l2_rate_alone=130,
    read_together=0.0,
    read_together_unaligned=0.0,
    read_together_across=0.0,
    unaligned_factor=1.46,
    across_factor=1.21,
    unaligned_across_factor=1.25,
    odd_factor=1.6,
    odd_across_factor=1.6,
    # `sweep_across.json`, with `read_together_across` of `FEW_TILES`.
    narrow_panels=0.7,
    latency=600,
    latency_missed=500,
    held_stages=1.7,
    zero_fill=26,
    zero_fill_shared=26,
    zeros_in_all=0.0,
    ragged_loads=1.0,
    ragged_factor=0.61,
    epilogue=202,
    epilogue_rate=14.2,
    fused_factor=1.0,
    second_part=0,
    extra_part=261,
    step=51,
    step_in_pair=19,
    alone_factor=1.0,
    step_in_four=23,
    step_shared_columns=0,
    split=3000,
    sums_stored=24,
    sums_added=40,
    shortest_part=8,
    most_parts=8,
    split_results=4 * 132 * 256 * 160,
    split_above=1.15,
    most_sharing=2,
    single_group_factor=1.245,
    clock=1716,
    hbm=3.62e6,
    hbm_streamed=3.98e6,
    hbm_in_four=1.0,
    hbm_tall=1.0,
    # `sweep_drawn.json` and `sweep_batches.json`: 8% in the mean of 21 times. Four products of 4 to 10 steps that this gives
    # other tiles are 4 to 12% faster in them, those of 17 to 29 steps up to 20% slower.
    batch_panels_in_squares=1.07,
    squares_steps=16,
    # `sweep_batches.json`: twelve products, 1.7% faster in the mean, up to 8%, three of them 1 to 2% slower.
    stored_steps=2,
    # `sweep_large.json`: 26 products of 3 to 5 steps take 2.5% less time in bursts, up to 15%, two of them 1 to 2% more;
    # with 6 to 8 steps three of nine take 4 to 5% more, and where L2 holds the results it is as often the one as the other.
    spilled_steps=5,
    hbm_unasked=0.0,
    read_again=0.01,
    read_again_streamed=0.1,
    most_again=1000,
    hbm_sm=38.8e3,
    kept_bytes=43_500_000,
    launch=1.0,
    # 655 times of tiles, cold, of products with a side of at most 512: `sweep_families.json`, `sweep_few.json`,
    # `sweep_cold.json`.
    cold=4.8,
    cold_parts=1.0,
    cold_waits=0.15,
    cold_pushes=0.55,
    broken_lines=0.0,
    uneven_width=0.0,
    turned_tiles=0.0,
    uneven_steps=0,
    wasted=0.0,
    endings_after=0.001,
    sharpness=8,
    # `sweep_ragged.json`, the largest product of it: 334 us in rows of four, 305 in squares of them.
    longest_row=2,
    # The same product: 302 us with 16 that two CTAs share, 318 with 16 that are one's own. Measured with panels that were
    # fetched as a whole; large products keep to what was measured.
    spare_columns=64,
    spare_columns_alone=0,
    lacking_steps=0,
    # `sweep_ragged.json`: products of 1 to 3 readers take up to 11% less time where bytes are the limit.
    streamed_readers=4,
    streamed_from=43_500_000,
    trimmed_waves=1,
    margin=0.985,
    split_margin=0.95,
    # The model gives (2, 1) 3.8% less; measured, it takes 0.1 to 1.2% more.
    pair_margin=0.955,
)

# Of those of them in 16 bits with more than `middle_products`.
LARGE_TILES = replace(
    TILES,
    # 4928 x 2112 x 7168 takes 238 us in tiles of 256 x 112, of which the model without it thinks 197, and 204 in 256 x 176.
    # Choices of 48 products of the sweeps and of `missed_bytes.json` take 0.8% longer than the best, 1.3% without it.
    carried_rate=144,
    # As those below were fitted: 3992 x 3440 x 5872, `a.T @ b`, takes 217 us in the tiles that this chooses, 236 in those
    # that 1.21 did (`missed_bytes.json`).
    across_factor=1,
    # 53 products of the sweeps and of `sweep_ends.json`: choices take 0.8% longer than the best, 1.3% without it.
    wasted=0.15,
)

# Of those of them with at most `middle_products`, in 16 bits: fitted to `sweep_drawn.json` (seeds 500 to 519 and 700 to 706,
# with rests between blocks). Larger ones are not: power limits them, and operands that CTAs share save some of it. 18
# products of `sweep_together.json` judge `second_part` and what was fitted with it: the choices take 2.9% less time.
MIDDLE_TILES = replace(
    TILES,
    shared_rate=128,
    l2_rate=59.9,
    unaligned_factor=1.48,
    across_factor=1,
    unaligned_across_factor=1.28,
    odd_factor=2.11,
    odd_across_factor=2.26,
    latency=1470,
    latency_missed=154,
    held_stages=1.46,
    zero_fill=45,
    zero_fill_shared=28,
    zeros_in_all=0.846,
    ragged_factor=0.79,
    epilogue=120,
    epilogue_rate=18.8,
    fused_factor=1.03,
    second_part=418,
    extra_part=221,
    step=16.8,
    step_in_pair=29.1,
    # Not fitted: choices among the times of `sweep_drawn.json` and `sweep_together.json` are as good, and pairs read less,
    # which saves power.
    alone_factor=1.02,
    step_in_four=8.08,
    step_shared_columns=1.01,
    split=2490,
    sums_stored=31.1,
    sums_added=30.5,
    single_group_factor=1,
    clock=1680,
    hbm_streamed=4.04e6,
    hbm_in_four=0.988,
    hbm_unasked=0.303,
    read_again_streamed=0.188,
    kept_bytes=42_000_000,
    launch=1.71,
    # `sweep_ends.json`: along up to four steps tiles of 72 to 120 columns take up to 35% longer than others. Choices of 298
    # products of all sweeps take 1.6% longer than the best, 8 of them more than 10%; 3.2% without these, and 33 of them;
    # 1.9% and 15 with `broken_lines` along 8 steps alone. Of 68 draws for which the others choose differently, 34 products
    # take 2% less time, and 34 batches as long.
    broken_lines=0.2,
    uneven_width=0.05,
    turned_tiles=0.03,
    uneven_steps=12,
    wasted=0.2,
    endings_after=0.02,
    sharpness=4,
    spare_columns=256,
    spare_columns_alone=256,
    # `sweep_across.json`: two batches of two steps take 5 and 38% longer in such tiles.
    lacking_steps=3,
)

# Of those of them in 8 bits along at most `short_steps`: fitted to the first twelve products of `sweep_short.json`, of which
# choices take 1.1% longer than the best; 9.1% with `TILES`, 6.8% with `MIDDLE_TILES`. Fitted to ten of them, in turn, they
# choose for the other two 1.7% off the best. 28 others take 9% less time than with `TILES`.
SHORT_TILES = replace(
    MIDDLE_TILES,
    l2_rate=75,
    latency=1000,
    held_stages=1.77,
    epilogue=100,
    epilogue_rate=28,
    second_part=610,
    extra_part=313,
    hbm_tall=1.15,
    # As `stored_steps`: no results beyond L2 were measured in 8 bits.
    spilled_steps=2,
)

# Of products with at most `few_results`: fitted as `fit_h200.py` fits to `sweep_drawn.json` and, twice, to later
# sweeps, the first 40 products of `sweep_behind.json` among them: kernels have had longer rings since, and small tiles take
# some 5% less time beside large ones. The error is 4.2% where it was 5.2, choices among the times of 853 products take 1.1%
# longer than the best where it was 1.4. 96 products of other seeds of `sweep_behind.json` that these constants cut anew
# judge: they take 1.4% less time, and four of 113 are below 0.95 of torch where eleven were.
FEW_TILES = replace(
    TILES,
    # First fitted by hand to 472 products of older sweeps: choices among their times took 1.1% longer than the best, 1.5%
    # without it, among those of `sweep_delivered.json` 2.3 and 9%.
    delivered_rate=98.8,
    read_together=0.222,
    read_together_unaligned=0.105,
    read_together_across=0.116,
    l2_rate=42.2,
    shared_rate=128,
    unaligned_factor=1.05,
    across_factor=1,
    unaligned_across_factor=1.06,
    narrow_panels=0.379,
    odd_factor=1.47,
    odd_across_factor=1.55,
    latency=707,
    latency_missed=439,
    held_stages=2,
    zero_fill=45,
    zero_fill_shared=35.3,
    zeros_in_all=0.505,
    ragged_factor=0.654,
    epilogue=161,
    epilogue_rate=10.6,
    fused_factor=1.01,
    extra_part=173,
    step=2,
    step_in_pair=22.7,
    # As above; and of nine products of `sweep_changed.json` whose tiles shared nothing with 1.02, those chosen before took
    # 2.6% less time. Choices among the times of 840 other products are as good with anything from 1 to 1.1.
    alone_factor=1.05,
    step_in_four=2.89,
    step_shared_columns=5.02,
    split=1700,
    sums_stored=26.5,
    sums_added=29.9,
    single_group_factor=1,
    clock=1720,
    hbm=4.5e6,
    hbm_streamed=4.46e6,
    hbm_in_four=0.946,
    # 258 products of all sweeps with 129 to 512 rows or columns and more than 40 MB: choices take 1.1% longer than the best,
    # 1.3% with 1; 40 of them cold 5.0 and 5.2%. Of 900 others nothing changes that counts.
    hbm_tall=1.08,
    hbm_unasked=0.309,
    read_again=0.302,
    read_again_streamed=0.189,
    most_again=4,
    hbm_sm=61.5e3,
    kept_bytes=57_600_000,
    launch=1.8,
    # 661 products of all sweeps and of `sweep_ends.json`: choices take 1.60% longer than the best, 1.73% without these.
    broken_lines=0.15,
    uneven_steps=16,
    wasted=0.1,
    endings_after=0.856,
    sharpness=4,
    longest_row=4,
    spare_columns=256,
    spare_columns_alone=256,
    trimmed_waves=3,
    # Choices among the times of 660 products take 1.4% longer than the best with 0.97 or 1, 1.55% with 0.95. Of the
    # draws in `sweep_margins.json` 0.98 changes seven, which take 3% less, and 4% less cold, two of them 11 and 15%; of ten
    # more that 0.99 changes all take as long together, and 5% longer cold.
    split_margin=0.98,
)

# With nothing in L2: fitted to measured times of some 150 configurations of 45 shapes, of which 36 with four configurations
# each are section 23 of `h200_tuning.txt`, and to the 35 shapes with few rows of `sweep_families.json`.
SPLIT = SplitCosts(
    hbm=3.75e6,
    hbm_sm=44e3,
    l2=14.8e6,
    l2_sm=230e3,
    zero_fill=58e3,
    unaligned_factor=1.5,
    odd_factor=2.2,
    across_factor=1.19,
    peer=51.6e3,
    tensor=6.57e6,
    single_group_factor=1.074,
    reread_factor=0.7,
    fixed=4.87,
    latency=1.0,
    latency_missed=0.77,
    signal=0.87,
    sharing=0.7,
    restart=1.6,
    stored=10.3e3,
    # Nothing of any product.
    kept_from=1,
    kept_bytes=2,
    finds_kept=0.0,
    # `sweep_cold.json` and `sweep_few.json`: 66 configurations that keep a part.
    pushes=0.3,
    sharpness=8,
    # One shape of `sweep_products.json`.
    short_ring_factor=1.7,
    # `sweep_turns.json`: three products of 72 to 88 rows or columns take 9 to 54% longer so, in seven configurations.
    alone_across_factor=1.3,
    # 80 times of 65 to 127 rows across K, behind a launch like it: without it the model gives 11% too little, most where
    # L2 is the limit, and with it 1% too much.
    short_rows_factor=1.5,
    # Set by hand: of 92 products with 257 to 512 rows in `sweep_drawn.json`, `sweep_few.json`, `sweep_cold.json` and
    # `sweep_delivered.json` choices take 1.9% longer than the best and 4.9% cold, 2.3 and 5.2% without it; with 1.05 or 1.25
    # as long. With 193 to 256 rows choices are better without.
    missing_rows_factor=1.1,
    # 15 shapes, cold: sections 21 and 22 of `h200_tuning.txt`.
    weights_in_flight=112 * 1024,
    weights_in_flight_beside_rows=96 * 1024,
)

# Behind a launch like it: fitted to the 163 products of `sweep_drawn.json` that were split, and to the first 27 of
# `sweep_few.json`; what L2 costs again to those of all sweeps, with `short_rows_factor`.
WARM_SPLIT = replace(
    SPLIT,
    hbm=4.9e6,
    hbm_sm=46.1e3,
    l2=15.1e6,
    l2_sm=262e3,
    zero_fill=90e3,
    unaligned_factor=1.5,
    odd_factor=2.26,
    across_factor=1.07,
    peer=61.9e3,
    tensor=7.2e6,
    single_group_factor=0.926,
    reread_factor=0.36,
    fixed=1.97,
    latency=0.922,
    latency_missed=0.157,
    signal=0.519,
    sharing=0.128,
    restart=1.37,
    stored=15e3,
    kept_from=11_200_000,
    kept_bytes=47_000_000,
    finds_kept=1.0,
    pushes=0.0,
    sharpness=4,
)

SPLIT_MARGIN, SMALL_SPLIT_MARGIN = SplitMargin(allowed=1.02, longer=1.03), SplitMargin(allowed=1.05, longer=1.08)

WIDEST_SPREAD = 176 * 1024
"""The longest f32 row of `bare_spread`; three elements less where rows begin anywhere. Longer ones pass in streams."""

ROWS = RowLimits(
    # Vectors that a thread holds are as many as compile without a spill, which `tests/kernels/test_row_configs.py` checks.
    held=8,
    fewer_held=6,
    most_held=10,
    # `rows_full_registers.txt`, as `stream_pieces` below.
    bare_held=(10, 9),
    # `rows_wide.txt`.
    bare_spread=(
        (64 * 1024, 88 * 1024, 16, 4, 6), (88 * 1024, 104 * 1024, 16, 4, 5), (104 * 1024, 128 * 1024, 16, 8, 4),
        (128 * 1024, WIDEST_SPREAD, 16, 8, 3),
    ),
    # `rows_aligned.txt`, and so are `weighted_spread`, `more_ahead` and those of `centered_warps` with more than two warps.
    weighted_held={2: 10, 4: 9},
    weighted_spread=((40 * 1024, 48 * 1024, 2, 16, 2), (64 * 1024, 72 * 1024, 4, 8, 4)),
    ahead=4,
    more_ahead={2: {7: 3, 8: 3}, 4: {5: 4, 7: 3, 8: 3}},
    warp_vectors=10,
    # "Norms of rows by other warps" in `rows_and_indices.txt`, and so are the limits below that concern weights.
    centered_warp_vectors=14,
    centered_warps=((2, 0, 8, 12), (2, 0, 10, 10), (4, 8, 10, 7), (8, 8, 10, 3)),
    read_vectors=7,
    most_read=12,
    # For clusters of CTAs of 512 threads.
    centered_held={8: 7, 16: 6},
    centered_parts=5,
    shared_bytes=192 * 1024,
    # `rowwise_sweep_softmax.json` and `rowwise_sweep_rms_norm.json`, configurations of rows and rings in turns.
    streamed_from=8,
    # `rows.places` and `stream.choose_stream` say what was measured; `rows_and_indices.txt` has it all.
    run_vectors=96,
    weighted_run_vectors=4096,
    span_bytes={(0, 2): 1400, (0, 4): 800, (1, 2): 1400, (1, 4): 1000, (2, 2): 1250, (2, 4): 3072},
    # `rows_short.txt`: layer_norm of 302 columns 0.88 of the copy with seven CTAs on an SM and 0.76 with five, of 538 0.83
    # with five and 0.74 with four, of 474 0.91 with five and 0.85 with six.
    span_ctas={(2, 2): ((11, 7), (14, 6), (20, 5))},
    # `rows_odd.txt`, of shorter rows than 21 KB `rows_by_teams.txt`, of f32 below 8 KB `rows_wide.txt`, below 1,400 bytes
    # `rows_short.txt`; where rows begin anywhere but for the last two, of `rows_aligned.txt`.
    teams={
        (1, 2, False): (
            (2560, None), (10 * 1024, (1, 1, 1, 2, True)), (14 * 1024, (1, 2, 1, 2, True)), (18 * 1024, (1, 2, 1, 2, False)),
            (24 * 1024, (1, 4, 1, 2, False)), (70 * 1024, (2, 4, 1, 1, False)), (125 * 1024, (4, 4, 1, 1, False)),
            (260_000, (8, 4, 1, 1, False)),
        ),
        (1, 4, False): (
            (48 * 1024, None), (70 * 1024, (2, 4, 1, 1, False)), (110 * 1024, (4, 4, 1, 1, False)),
            (340_000, (8, 4, 1, 1, False)),
        ),
        (2, 2, False): (
            (1250, None), (1400, (1, 1, 1, 1, True)), (10 * 1024, (1, 1, 1, 2, True)), (15 * 1024, (1, 2, 1, 2, True)),
            (21 * 1024, (1, 4, 1, 2, False)), (64 * 1024, (2, 4, 1, 1, False)), (76 * 1024, (2, 8, 1, 1, False)),
            (108 * 1024, (4, 4, 1, 1, False)), (240_000, (8, 4, 1, 1, False)), (420 * 1024, (16, 4, 1, 1, False)),
        ),
        (2, 4, False): (
            (3072, None), (3840, (1, 2, 1, 2, False)), (8 * 1024, None), (30 * 1024, (1, 4, 1, 1, False)),
            (64 * 1024, (2, 4, 1, 1, False)), (124 * 1024, (4, 4, 1, 1, False)), (240 * 1024, (8, 4, 1, 1, False)),
            (420 * 1024, (16, 4, 1, 1, False)),
        ),
        (2, 2, True): ((110 * 1024, None), (228 * 1024, (8, 4, 1, 1, False))),
        (2, 4, True): ((64 * 1024, None), (216 * 1024, (8, 4, 1, 1, False))),
    },
    # As many as compile without a spill, which `tests/kernels/test_teams.py` checks.
    team_warps=(24, 24, 28),
    stream_bytes={
        "wide softmax": 4 * WIDEST_SPREAD + 1, "rms_norm": 256 * 1024 + 1, "layer_norm": 64 * 1024 + 1,
    },
    stream_odd_bytes={
        "wide softmax": (4 * WIDEST_SPREAD + 1, 4 * (WIDEST_SPREAD - 3) + 1), "rms_norm": (64 * 1024, 64 * 1024),
        "layer_norm": (4 * 1024, 8 * 1024),
    },
    stream_mixed_bytes=1280 * 1024,
    stream_warps=((16 * 1024, 4, 4), (32 * 1024, 8, 2)),
    stream_ring_bytes=208 * 1024,
    stream_share=0.8,
    stream_longest_share=0.93,
    stream_pieces={2: 7, 4: 6, 8: 10, 16: 12},
    stream_odd_logs=6,  # `rows_odd_logs.txt`
    # As many as compile without a spill, which `tests/kernels/test_stream.py` checks.
    stream_weights=16,
    stream_weights_again=12,
    stream_saved={1: (16,), 2: (8, 16)},
    stream_spare=2,
    stream_loaded=2,
    stream_wide_bytes=256 * 1024,
    stream_held={
        "softmax": ((2048 * 1024, 16, 1, (8,), 23),), "log_softmax": ((2048 * 1024, 16, 1, (8,), 23),),
        "layer_norm": ((256 * 1024, 8, 2, (1, 2, 4, 8), 7),),
    },
    stream_pairs=(8,),
    stream_pair_bytes=14 * 1024,
    stream_exchange=1.2,
    # `losses.txt`.
    loss_lanes=((1, 4), (2, 6), (4, 8), (8, 8), (16, 9), (32, 13), (64, 13), (128, 13), (256, 13)),
    loss_pieces=((128, 10), (256, 8)),
    loss_warps=4,
    # As many as compile without a spill, which `tests/kernels/test_losses.py` checks.
    loss_occupancy=((5, 48), (8, 40), (13, 32)),
    # `rows_of_all_sms.txt`.
    grid_bytes={"softmax": (3_000_000, 4_000_000), "log_softmax": (3_000_000, 4_000_000)},
    grid_room=220 * 1024,
    grid_narrow_teams=((7, 4, 2), (6, 4, 2)),  # `rows_of_seven_teams.txt`
    grid_teams=((8, 2, 4), (6, 2, 4), (4, 4, 2), (3, 4, 2), (2, 8, 1)),
    # `rows_of_shares.txt`, `rows_of_teams_and_shares.txt` and `rows_odd.txt`.
    shares={
        "rms_norm": {
            (2, True): ((2_200_000, 1 << 40),), (4, True): ((2_300_000, 1 << 40),),
            (2, False): ((260_001, 1 << 40),), (4, False): ((340_001, 1 << 40),),
        },
        "layer_norm": {
            (2, True): ((228 * 1024 + 1, 345_000), (760_000, 1 << 40)), (4, True): ((1_400_000, 1 << 40),),
            (2, False): ((280_000, 1 << 40),), (4, False): ((225_000, 1 << 40),),
        },
    },
    share_rows=4,
    share_slices=(19_800, 36_000, 45_000),
    share_least=22_000,
    # `rows_odd_slices.txt`: layer_norm of 229,339 bf16 is at 0.81 of the device copy in slices of 20.9 KB, at 0.90 in 28.7.
    share_short=23_000,
    share_room=225 * 1024,
    # As many as compile without a spill, which `tests/kernels/test_shares.py` checks.
    share_registers=((64, 48), (56, 48)),
)

# Chosen by `benchmarks/rows/gather.py`, whose sweep was not kept. `moved_*`: `rows_by_index.txt`.
MOVES = MoveLimits(
    ring_bytes=192 * 1024,
    stage_bytes=32 * 1024,
    shared_stage_bytes=4 * 1024,
    widest_bytes=48 * 1024,
    short_row_bytes=4096,
    narrowest_bytes=128,
    narrow_bytes=512,
    tile_row_bytes=512,
    tile_bytes=8192,
    moved_least_bytes=128,
    moved_row_bytes=2048,
    moved_bytes=4096,
)

# `benchmarks/products/grouped.py --sweep`; section 10 of `h200_tuning.txt`: pairs along N are the faster ones for weights of
# 4,096 x 4,096, pairs along M for 14,336 x 4,096.
GROUPS = GroupLimits(
    kept_bytes=48 << 20,
    middle_rows=384,
    # Set by hand, beside `sweep_groups.json`.
    few_rows=1024,
    least_bytes=8 << 20,
    most_waves=2.0,
    margin=0.95,
    tile_share=0.375,
    overfull=1.15,
    # Fitted to `sweep_groups.json`: 43 configurations of six products with 3 to 200 rows a group, to 13%; `ring_factor` by
    # hand to the tiles of the same products.
    clock=1700,
    hbm=3.9e6,
    l2_rate=65,
    step=9,
    few_factor=1.44,
    ring_factor=1.1,
    split=2.4,
    fixed=5.0,
)

H200 = Machine(
    name="H200",
    sms=132,
    l2_bytes=60 << 20,
    sector_bytes=32,
    line_bytes=128,
    shared_bytes_per_sm=228 * 1024,
    reserved_shared_bytes=1024,
    # What the driver answered for CTAs of 384 threads and 200 KB of shared memory.
    clusters_at_once={1: 132, 2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15, 16: 7},
    clustered_sms=120,
    # `sweep_few.json`: with 10 or 14 MB launches behind one like them take 3 to 12% longer, with 27 to 34 as long.
    kept_of_stream=20_000_000,
    # Fitted with `cold_pushes`.
    written_bytes=40_000_000,
    # `sweep_passing.json`.
    passing_rows=512,
    passing_bytes=12_000_000,
    # `sweep_kept.json`: 13 products of 13 to 38 MB, each way with weights of its own. With none kept they take 9% less than
    # with all where L2 has nothing of them, and 19% longer behind thousands of launches like them; with 8 of 16 parts 6%
    # less, and 5 or 10% longer; with 10 5% less, and 6% longer; with 12 3% less, and 2% longer. The least of torch's speed,
    # cold and behind: with 8 0.957 and 0.812, with 10 0.952 and 0.874, with 12 0.922 and 0.901.
    passing_kept=10,
    # `sweep_margins.json`: 2 x 1536 x 512 and 8 x 1024 x 768 take 6.5 and 6.4 us cold split, 7.8 and 7.0 in the tiles that
    # would be chosen, and 1.9 and 2.1 behind a launch like them, 2.8 and 2.7 in tiles.
    streamed_bytes=1 << 19,
    tiles=TILES,
    large_tiles=LARGE_TILES,
    middle_tiles=MIDDLE_TILES,
    short_tiles=SHORT_TILES,
    few_tiles=FEW_TILES,
    # A wave and a quarter of tiles of 128 x 256.
    few_results=165 * 128 * 256,
    # Some 0.2 ms.
    middle_products=70_000_000_000,
    short_steps=12,
    # 70 rows under 151,936 columns with a bias: 330 us in tiles of 128 rows, of which half are not there.
    fitting=1.25,
    split=SPLIT,
    warm_split=WARM_SPLIT,
    # `margin`: 160 products that have both times, behind a launch like them and cold, split and in tiles (all
    # sweeps, `sweep_left.json` and `sweep_passing.json`). Choices are at 1.109 and 1.055 of torch's in geometric mean, 11
    # and 12 of them below 0.95 and 0.93; with 0.98 and 1.05 at 1.110 and 1.051, 11 and 13; with 1.04 and 1.1 at 1.093 and
    # 1.064, 18 and 12. What `longer` is about: 7168 columns along a K of 2048 are 0.82 to 0.93 of torch's behind a launch
    # like them with 120 to 170 rows split, and 0.99 to 1.04 in tiles; cold 1.04 to 1.07, and 0.96 to 0.98.
    # `small_margin`: 36 products of up to 13.5 MB that have both times (all sweeps and `sweep_small.json`). Split ones take
    # 0.94 of what the model says behind a launch like them, tiles 0.99. Choices take 1.2% longer than the quicker of both,
    # and 0.7% longer cold; with `margin` 2.6% and 1.3%.
    # Up to 64 rows weights that come from HBM are what counts: sections 11 and 23 of `h200_tuning.txt`.
    split_rows=SplitRule(few=48, most=512, margin=SPLIT_MARGIN, small_margin=SMALL_SPLIT_MARGIN, stored=0.0),
    # Sections 11 and 26; `stored` is from `sweep_products.json`, one product of 552 columns.
    split_columns=SplitRule(few=16, most=512, margin=SPLIT_MARGIN, small_margin=SMALL_SPLIT_MARGIN, stored=0.5e-6),
    small_operands=13_500_000,
    # `sweep_deep.json`: of ten products each is 4 to 20% faster split than in any tiles that were tried.
    deep=DeepRule(least=96, most=1536, results=330_000, least_k=4096),
    # `sweep_cold.json`: of ten such products that are no `deep` ones five are 3 to 19% faster so than as others are split
    # or in tiles, and the models tell which.
    long=DeepRule(least=56, most=3072, results=700_000, least_k=4096),
    # Both files: 67 products with times of both sides. Choices among them take 1.7% longer than the best behind a launch
    # like them and 1.3% longer cold; without it 3.1% and 4.0%.
    long_columns=1.06,
    # `sweep_wide.json`: of 86 such products 30 are split, in the configuration that was measured; they take 12% less time
    # than in tiles, 7% less cold, the worst 1.5% more. Nine of 54 that are not would take at least 5% less.
    wide=DeepRule(least=424, most=2560, results=1_300_000, least_k=4096),
    # `sweep_tails.json`: twelve more, split from both sides; choices of a configuration and a side take 2.2% longer than the
    # best, 5.1% with 1. Those that gain have sides of up to 1.4 times each other.
    wide_sides=1.5,
    rows=ROWS,
    moves=MOVES,
    groups=GROUPS,
    # `sweep_narrow.json`: others that the model gives 12% less take as long or longer in nine of twelve products, but not in
    # one of 58 MB; up to 8 steps more than one part costs 8 to 11%, from 11 steps on more stages bring 5 to 8%.
    fitted=FitRule(whole_steps=8, most_steps=24, least_bytes=75_000_000, margin=1.12),
)
