"""What is known of a card, with units: a class for facts, and one for each model or rule that is fitted to measurements.

A card is an instance of `Machine`, read from a file of numbers beside this one (`h200.json` is
`phalanx.machines.h200.H200`). Every field has a unit in its annotation and a sentence below it. Models count bytes and
microseconds; what happens inside an SM is said in cycles.

Two models have a rate of L2, of the tensor cores and a launch of their own, and they differ: each number is what one
kernel reaches, with all that its model leaves out. So they are fitted, and to be fitted again, model by model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from phalanx.frozen import frozen

Count = Annotated[int, "1"]
Bytes = Annotated[int, "bytes"]
Factor = Annotated[float, "1"]
Microseconds = Annotated[float, "us"]
Cycles = Annotated[float, "cycles"]
PerCycle = Annotated[float, "1/cycle"]
BytesPerCycle = Annotated[float, "bytes/cycle"]
CyclesPerMicrosecond = Annotated[float, "cycles/us"]
BytesPerMicrosecond = Annotated[float, "bytes/us"]
OperationsPerMicrosecond = Annotated[float, "operations/us"]
MicrosecondsPerElement = Annotated[float, "us/element"]
ElementsPerMicrosecond = Annotated[float, "elements/us"]


@frozen
class TileCosts:
    """The model of `tile_model`: the time of a product in tiles, whose operands lie in L2 as far as they fit.

    A tile's steps along K each take as long as tensor cores and L2 together; then comes its epilogue.
    """

    delivered_rate: BytesPerCycle
    """Bytes of operands that arrive at an SM, counting those that another SM asked for and shares by multicast."""
    l2_rate: BytesPerCycle
    """Bytes that L2 brings to an SM while all SMs read."""
    l2_rate_alone: BytesPerCycle
    """Bytes that L2 brings to an SM while few SMs read."""
    read_together: Factor
    """Exponent: n CTAs that ask for a line at about the same time each pay for it n ** -read_together times. CTAs
    that share by multicast pay in full: L2 does not put their requests together."""
    read_together_broken: Factor
    """The exponent for rows that do not begin at a line of L2, and for an operand that lies across K."""
    unaligned_factor: Factor
    """Cost of a row that begins at a sector but not at a line of L2, so that each piece of it takes two lines."""
    odd_factor: Factor
    """Cost of a row that does not begin at a sector of L2."""
    narrow_panels: Factor
    """Cost of each column that the last panel of an operand across K lacks: a narrow panel takes L2 nearly as
    long."""
    latency: Cycles
    """Time from asking for a stage to having it out of L2, while all SMs ask."""
    latency_missed: Cycles
    """Time that a stage takes longer when it comes from HBM."""
    held_stages: Factor
    """Stages of a ring that are being multiplied or given back; the others are on their way."""
    zero_fill: BytesPerCycle
    """Bytes of zeros that the copy engine of an SM writes for rows outside the array."""
    zero_fill_shared: BytesPerCycle
    """Bytes of such zeros where several CTAs share the rows."""
    epilogue: Cycles
    """Time from the last product of a tile to its first store."""
    epilogue_rate: PerCycle
    """Elements of a tile that an SM's epilogue rounds and stores."""
    further_part: Cycles
    """Time of each part of an epilogue beyond the first: the store before it has to have read the buffer."""
    alone_factor: Factor
    """Cost of a configuration whose CTAs share nothing: above 1, since reading operands once saves power."""
    step_in_pair: Cycles
    """Time that a step takes longer where two CTAs share what they load."""
    step_in_four: Cycles
    """Time that a step takes longer where four CTAs share what they load."""
    step_shared_columns: Cycles
    """Time that a step takes longer where CTAs share columns of B, so that each waits for its own rows of A."""
    split: Cycles
    """Time to leave the sums of a part of K and to learn who is the last, besides the bytes."""
    sums_rate: BytesPerCycle
    """Bytes of sums of parts of K that an SM leaves in L2, or reads and adds to its own."""
    shortest_part: Count
    """Fewest steps along K of a part."""
    most_parts: Count
    """Most parts of K of a tile."""
    split_results: Count
    """Largest number of results of a product whose last tiles may be cut along K: of many waves the last is a small
    part."""
    split_above: Factor
    """Parts of K are looked at where whole tiles take longer than this many times what the SMs need."""
    most_sharing: Count
    """Most CTAs of a cluster whose tiles are cut along K."""
    clock: CyclesPerMicrosecond
    """Clock of the SMs while tensor cores work in a burst."""
    hbm: BytesPerMicrosecond
    """Bytes that HBM brings to all SMs."""
    hbm_in_four: Factor
    """Part of HBM's time that bytes take where four CTAs share operands, and L2 is asked less often."""
    stored_steps: Count
    """Most steps along K of a product whose time is that of its results, which then are stored row after row."""
    spilled_steps: Count
    """Most such steps of a product with more results than L2 holds."""
    hbm_unasked: Factor
    """Slowdown of HBM while few SMs ask: this many times the number of idle SMs by the number of busy ones."""
    kept_bytes: Bytes
    """Bytes of a product from which on L2 holds nothing when the next one like it comes; of smaller ones it holds a
    part."""
    launch: Microseconds
    """Time from the end of the launch before to the first product."""
    cold: Microseconds
    """Time that a launch takes longer that comes alone and finds nothing in L2."""
    cold_parts: Microseconds
    """Time that such a launch takes longer on top if tiles are cut along K: neither sums nor counters are in L2."""
    cold_waits: Factor
    """Part of HBM's extra latency that shows in a launch that finds nothing in L2."""
    cold_pushes: Factor
    """Cost there of a byte that L2 is to keep: it pushes out what was written before, which goes to HBM."""
    broken_lines: Factor
    """Part of the time, at no steps along K, that tiles take longer whose width is no multiple of 64 along the rows
    of the result: they end within lines of L2, which two CTAs write."""
    turned_tiles: Factor
    """Part of the time, at no steps along K, that tiles of the transposed product take longer."""
    uneven_steps: Count
    """Steps along K from which on `broken_lines` and `turned_tiles` cost nothing; below, they fall linearly."""
    wasted: Factor
    """Part of its time that a result outside the matrix counts on top: in a steady state it takes power from all
    others."""
    longest_row: Count
    """Most CTAs in a row or column of a cluster: four of them wait for each other longer than two."""
    lacking_steps: Count
    """Fewest steps along K of a product whose tiles may have fewer whole panels than CTAs that share them."""
    streamed_from: Bytes
    """Bytes of a product from which on L2 is told what it need not keep."""
    streamed_readers: Count
    """Most tiles that may read an operand that L2 is told not to keep: they ask for it at about the same time."""
    trimmed_waves: Count
    """Most waves of tiles of a product whose copies leave out what is all outside an array."""
    margin: Factor
    """A tile other than the first, which is the best measured one, must promise less than this part of its time."""
    split_margin: Factor
    """Tiles that are cut along K must promise less than this part of the time of whole ones."""
    pair_margin: Factor
    """A pair of CTAs that shares columns of B must promise less than this part of the time of one that shares rows of
    A."""


@frozen
class SplitCosts:
    """The model of `split_config`: the time of a launch of few rows, in a state of L2."""

    hbm: BytesPerMicrosecond
    """Bytes of weights that HBM brings to all SMs."""
    hbm_sm: BytesPerMicrosecond
    """Bytes of weights that HBM brings to one SM."""
    l2: BytesPerMicrosecond
    """Bytes of operands that L2 brings to all SMs."""
    l2_sm: BytesPerMicrosecond
    """Bytes of operands that L2 brings to one SM."""
    zero_fill: BytesPerMicrosecond
    """Bytes of zeros that the copy engine of an SM writes for rows outside the array."""
    unaligned_factor: Factor
    """Cost of rows that begin at a sector but not at a line of L2, so that each piece of them takes two lines."""
    odd_factor: Factor
    """Cost of rows that do not begin at a sector of L2."""
    across_factor: Factor
    """Cost for L2 of an operand that lies across K."""
    peer: BytesPerMicrosecond
    """Bytes of partial sums that one SM receives from others."""
    tensor: OperationsPerMicrosecond
    """Additions and multiplications by the tensor cores of an SM."""
    single_group_factor: Factor
    """Time of products where one warpgroup has them all, by that with two."""
    reread_factor: Factor
    """Part of HBM's time that weights cost when another row tile reads them too: L2 saves some of it, multicast
    all."""
    fixed: Microseconds
    """Time of the launch, the first loads and the last stores."""
    latency: Microseconds
    """Time of a load out of L2, from its start to its end, while all SMs are loading."""
    latency_missed: Microseconds
    """Time that a load takes longer out of HBM."""
    signal: Microseconds
    """Time of a signal between CTAs, with what it publishes."""
    sharing: Microseconds
    """Time that CTAs wait for each other that share loads."""
    restart: Microseconds
    """Time of each wave of CTAs after the first one, besides its work."""
    stored: ElementsPerMicrosecond
    """Results of a tile that an SM rounds and stores."""
    kept_from: Bytes
    """Products of fewer bytes than this lie in L2 when the launch begins."""
    kept_bytes: Bytes
    """Products of at least this many bytes have nothing in L2; of those between `kept_from` and this, a part is
    there."""
    finds_kept: Factor
    """Part of `Machine.kept_of_stream` that the launch finds: 1 behind a launch like it, else 0."""
    pushes: Factor
    """Cost of a byte of the weights that L2 is to keep, on top: see `TileCosts.cold_pushes`."""
    sharpness: Count
    """Power, 4 or 8, of the times that go on at once: the higher, the less the shorter ones show beside the
    longest."""
    short_ring_factor: Factor
    """Cost of a short ring of weights that lie across K, beside many rows."""
    alone_across_factor: Factor
    """Cost of a CTA that fetches both panels of 65 to 127 rows that lie across K, where two could share them."""
    short_rows_factor: Factor
    """Cost of rows of K that hold 65 to 127 rows of A, which lie across K: one ends and the next begins in the same
    line."""
    missing_rows_factor: Factor
    """Cost of a tile of which more than `split_config.FEW_MISSING` rows are outside the array, in products of many
    rows."""
    weights_in_flight: Bytes
    """Weights on an SM's way in: more would push out of L2 what was written there, which takes HBM's time."""
    weights_in_flight_beside_rows: Bytes
    """Weights on an SM's way in beside more than 64 rows of A, with tiles of 64 columns."""


@frozen
class SplitMargin:
    """How long a product may be predicted to take in the kernel that splits K, as parts of the tiles' predicted
    time."""

    allowed: Factor
    """Limit for the geometric mean of all states of L2 in which a launch may begin."""
    longer: Factor
    """Limit for a launch behind one like it, whatever the split gains where nothing is in L2."""


@frozen
class SplitRule:
    """When a product with few rows, or few columns, goes to the kernel that splits K (`matmul_config.split_side`)."""

    few: Count
    """Products with at most this many rows are always split."""
    most: Count
    """Products with more rows than this are never split."""
    margin: SplitMargin
    """Margins for products in between."""
    small_margin: SplitMargin
    """Margins if A and B have at most `Machine.small_operands` together: the models predict too much for small
    products, more for split ones than for tiles."""
    stored: MicrosecondsPerElement
    """Time that each element of the result adds to the split's predicted time."""


@frozen
class DeepRule:
    """Products along a long K, which the kernel that splits it takes in more ways than others (`matmul_config`)."""

    least: Count
    """Fewest rows, and fewest columns."""
    most: Count
    """Most rows, and most columns."""
    results: Count
    """Largest number of results, M x N."""
    least_k: Count
    """Fewest elements along K."""


@frozen
class RowLimits:
    """How rows lie in registers and shared memory (`rowwise.rows`), and which pass through a ring
    (`rowwise.stream`)."""

    held: Count
    """Most vectors of 16 bytes a thread holds with 64 registers, 1,024 threads an SM."""
    fewer_held: Count
    """Most vectors a thread holds in kernels that need more registers besides, and of narrow elements that come one
    by one."""
    most_held: Count
    """Most vectors a thread holds with 128 registers, 512 threads an SM."""
    bare_held: tuple[int, int]
    """Limits in place of `held` for kernels that keep nothing beside a row: of rows that begin at vectors, and of
    those that begin anywhere."""
    bare_spread: tuple[tuple[Count, Count, Count, Count, Count], ...]
    """CTAs for f32 rows of kernels that keep nothing beside them: (more, most, CTAs of a cluster, warps of a CTA,
    CTAs on an SM), for rows of more than `more` and at most `most` elements."""
    weighted_held: Mapping[int, int]
    """Limits in place of `held`, by the bytes of an element, for a kernel that keeps nothing beside a row of one CTA
    and loads its weights."""
    weighted_spread: tuple[tuple[Count, Count, Count, Count, Count], ...]
    """CTAs for rows of 16-bit elements of such a kernel, in place of larger clusters with weights ahead; rows as in
    `bare_spread`."""
    ahead: Count
    """Most vectors per thread that leave room for as many weights."""
    more_ahead: Mapping[int, Mapping[int, int]]
    """CTAs on an SM of clusters of 8, of 8 warps each, whose weights are ahead as well: by the bytes of an element
    and by vectors per thread."""
    warp_vectors: Count
    """Most vectors per thread of rows that have a warp each."""
    centered_warp_vectors: Count
    """Most vectors per thread of rows of 16-bit elements with moments that have a warp each."""
    centered_warps: tuple[tuple[int, int, int, int], ...]
    """Longer rows of these: (warps, more, vectors, CTAs) gives CTAs of `warps` warps, as many on an SM as the last
    number says, to rows of more than `more` and at most `vectors` vectors per thread."""
    read_vectors: Count
    """Most vectors per thread of rows that are only read and have a warp each."""
    most_read: Count
    """Most vectors per thread of longer rows that are only read, which a few warps share."""
    centered_held: Mapping[int, int]
    """Most vectors that leave room for a row's moments and the columns of each warp, by the CTAs of a cluster."""
    centered_parts: Count
    """Vectors of longer rows with moments that lie in registers; the rest lies in shared memory."""
    shared_bytes: Bytes
    """Most bytes of a CTA's columns that lie in shared memory."""
    streamed_from: Count
    """Fewest CTAs of a cluster whose rows pass the SM's cache by."""
    run_vectors: Count
    """Fewest vectors of a row that begins anywhere and is read in aligned ones."""
    weighted_run_vectors: Count
    """Fewest vectors of such a row with weights, which begin elsewhere than their row."""
    span_bytes: Mapping[tuple[int, int], int]
    """Longest rows that begin anywhere and pass in spans, by the vectors beside them and the bytes of an element."""
    span_ctas: Mapping[tuple[int, int], tuple[tuple[Count, Count], ...]]
    """CTAs on an SM where a warp has such a row, by the same key: (elements, CTAs) in ascending order of the elements
    that a thread has at most. Other rows have as many as a count of registers gives."""
    teams: Mapping[tuple[int, int, bool], tuple[tuple[Bytes, tuple[int, int, int, int, bool] | None], ...]]
    """Teams of warps for rows, by the vectors beside them, the bytes of an element, and whether they begin at
    vectors: (bytes, (CTAs, warps, rows, CTAs on an SM, wide)) in ascending order of the longest row. Each team has
    that many warps and rows in shared memory; `wide`: weights are kept in f32. None, and rows longer than the last:
    others are faster."""
    team_warps: tuple[int, int, int]
    """Most warps of teams on an SM: of one CTA, and of clusters whose teams share a row with one vector beside it, or
    two."""
    stream_bytes: Mapping[str, int]
    """Shortest row that passes chunk by chunk, by what is computed."""
    stream_odd_bytes: Mapping[str, tuple[int, int]]
    """Shortest such row of those that begin anywhere: of elements of 16 bits, and of wider ones."""
    stream_mixed_bytes: Bytes
    """Shortest such row beside weights of another type."""
    stream_warps: tuple[tuple[int, int, int], ...]
    """Warps of a CTA by the length of a row: (bytes, warps, CTAs on an SM) for rows of at most this many bytes."""
    stream_ring_bytes: Bytes
    """Bytes of the rings of an SM."""
    stream_share: Factor
    """Largest part of a ring that a row takes: the rest is for the rows after it."""
    stream_longest_share: Factor
    """Largest part of a ring that a row takes in the largest cluster: what is more is read again."""
    stream_pieces: Mapping[int, int]
    """Most chunks of two vectors a thread of a row of 16-bit elements without weights, by the CTAs of a cluster."""
    stream_odd_logs: Count
    """Most chunks in which rows of `log_softmax` of 16-bit elements that begin anywhere pass through a pair of CTAs;
    longer ones lie in registers."""
    stream_weights: Count
    """Most vectors of weights and biases that a thread keeps."""
    stream_weights_again: Count
    """Most such vectors beside rows of which a part is read again, or that begin anywhere and have weights which are
    loaded."""
    stream_saved: Mapping[int, tuple[int, ...]]
    """Clusters whose CTAs keep weights in shared memory, by the vectors beside a row."""
    stream_spare: Count
    """Stages that these weights leave to the rows after the one that is kept."""
    stream_loaded: Count
    """Most chunks whose weights are loaded for each row, where others are kept in shared memory."""
    stream_wide_bytes: Bytes
    """Longest row with one vector for clusters of fewer than 8 CTAs."""
    stream_held: Mapping[str, tuple[tuple[int, int, int, tuple[int, ...], int], ...]]
    """Rows that are held in registers, by what is computed: (bytes, warps, CTAs, clusters, chunks) gives rows of at
    most this many bytes to CTAs of so many warps, so many on an SM, in the first of the clusters with few enough
    chunks a thread."""
    stream_pairs: tuple[int, ...]
    """Sizes of clusters through which two rows with weights and biases pass at once."""
    stream_pair_bytes: Bytes
    """Longest rows that begin anywhere and also pass in pairs."""
    stream_exchange: Factor
    """Time of a cluster's exchange, in the time of a chunk's vector."""
    loss_lanes: tuple[tuple[Count, Count], ...]
    """Threads that hold a row which is only read: (threads, vectors), the first whose vectors per thread are
    enough."""
    loss_pieces: tuple[tuple[Count, Count], tuple[Count, Count]]
    """Threads and vectors for a piece of a longer such row: of 16-bit elements, and of f32."""
    loss_warps: Count
    """Warps of a CTA where a warp has a row or several; else a CTA has one row."""
    loss_occupancy: tuple[tuple[Count, Count], ...]
    """Warps on an SM: (vectors, warps) for at most this many vectors a thread."""
    grid_bytes: Mapping[str, tuple[Bytes, Bytes]]
    """Shortest rows of `softmax` and `log_softmax` that all SMs share: of 16-bit elements, and of f32."""
    grid_room: Bytes
    """Bytes of an SM's shared memory for rings of such rows."""
    grid_narrow_teams: tuple[tuple[Count, Count, Count], ...]
    """Teams that rows of 16-bit elements try first: (teams, warps of each, vectors of a chunk that a thread has)."""
    grid_teams: tuple[tuple[Count, Count, Count], ...]
    """Teams that all rows try, in this order, as `grid_narrow_teams` has them."""
    shares: Mapping[str, Mapping[tuple[int, bool], tuple[tuple[Bytes, Bytes], ...]]]
    """Rows that a share of all SMs has: (from, below) in bytes, by what is computed, the bytes of an element, and
    whether all rows begin at a multiple of 16 bytes."""
    share_rows: Count
    """Fewest rows of each group of CTAs, unless all SMs are one group."""
    share_slices: tuple[Bytes, Bytes, Bytes]
    """Bytes of a row that a CTA has: at least, about, and at most, unless the row is all SMs'."""
    share_least: Bytes
    """Fewest bytes that a CTA has of rows that more than half of all SMs share."""
    share_short: Bytes
    """Bytes below which slices of rows of 16 bits with two vectors that begin anywhere count as if some were empty,
    2% a KB."""
    share_room: Bytes
    """Bytes of an SM's shared memory for a ring of slices."""
    share_registers: tuple[tuple[Count, Count], tuple[Count, Count]]
    """Registers of a thread besides weights and biases, of 16-bit elements and of f32: in other slices, and in long
    ones of all SMs."""


@frozen
class MoveLimits:
    """How rows travel by index (`kernels.gather`), through shared memory or through registers."""

    ring_bytes: Bytes
    """Bytes of rows on an SM's way through."""
    stage_bytes: Bytes
    """Bytes of rows that one stage holds, where one CTA has an SM."""
    shared_stage_bytes: Bytes
    """Bytes of rows that one stage holds where four CTAs share an SM."""
    widest_bytes: Bytes
    """Longest part of a row that moves in one piece."""
    short_row_bytes: Bytes
    """Shorter rows take more instructions per byte: four CTAs share an SM."""
    narrowest_bytes: Bytes
    """Shortest part of a row that a CTA moves, where rows are cut so that all SMs have some."""
    narrow_bytes: Bytes
    """Shorter rows are added from registers: a reduction of its own for each costs more than it moves."""
    tile_row_bytes: Bytes
    """Longest part of a row that a CTA has of it there."""
    tile_bytes: Bytes
    """Bytes of rows that a CTA has there: its threads have as much on their way."""
    moved_least_bytes: Bytes
    """The shortest rows for which `moved_row_bytes` and `moved_bytes` hold in place of `tile_row_bytes` and
    `tile_bytes`. Rows that are added, or begin at no multiple of 16 bytes, are not among them."""
    moved_row_bytes: Bytes
    """The longest part of a row that a CTA has of such rows."""
    moved_bytes: Bytes
    """Bytes of such rows that a CTA has: its threads have as much on their way."""


@frozen
class FitRule:
    """When tiles are as wide as a narrow result, or half of it (`matmul_config.choose`)."""

    whole_steps: Count
    """Most steps along K of tiles that are stored in as few parts as can be, whatever that leaves for stages."""
    most_steps: Count
    """Most steps along K of products whose tiles, as wide as the result, are judged by `margin`."""
    least_bytes: Bytes
    """Fewest bytes of such a product."""
    margin: Factor
    """Such tiles are taken if the model gives them less than this many times what it gives the others."""


@frozen
class GroupLimits:
    """How the CTAs of a cluster share a grouped product (`products.grouped`), and the estimates of `group_model` for
    few rows."""

    kept_bytes: Bytes
    """Weights of a group that stay in L2 from one row of tiles to the next."""
    middle_rows: Count
    """Rows of a group, on average, from which two CTAs may take rows of a tile: the unused half of its last one is
    small."""
    few_rows: Count
    """Rows of all groups up to which kernels are compared by the estimates."""
    least_bytes: Bytes
    """Weights of all groups from which they are: fewer take a few microseconds in any way."""
    most_waves: Factor
    """Waves of pairs of the usual tiles up to which they are: with more, all SMs have enough to do."""
    margin: Factor
    """Another way than the usual one is taken if it is estimated to take less than that part of its time."""
    tile_share: Factor
    """Rows of a group, on average, that suit a tile, as a part of its height."""
    overfull: Factor
    """CTAs, as a part of those that run at once, up to which K is split further: some tiles that are counted on are
    not there."""
    clock: CyclesPerMicrosecond
    """Clock of the tensor cores."""
    hbm: BytesPerMicrosecond
    """Bytes of weights from memory to all SMs."""
    l2_rate: BytesPerCycle
    """Bytes that L2 brings to an SM."""
    step: Cycles
    """Time of a step along K, on top of its products or loads."""
    few_factor: Factor
    """Time of a product of few rows, by that of the tensor cores."""
    ring_factor: Factor
    """Time of whole tiles, by that of the tensor cores."""
    split: Microseconds
    """Time of partial sums from SM to SM."""
    fixed: Microseconds
    """Time of a launch, and of the one before it that makes the table of tiles."""


@frozen
class Machine:
    """A card: facts, and what each model or rule of the library is fitted to."""

    name: str
    """The card's name."""
    sources: Mapping[str, str]
    """Where the numbers of each group come from: a script under `benchmarks`, and the files of results that it
    read."""
    wgmma_columns: PerCycle
    """Columns of one wgmma instruction (64 rows, 32 bytes of K) that an SM multiplies."""
    shared_rate: BytesPerCycle
    """Bytes of operands that the tensor cores of an SM read from its shared memory."""
    sms: Count
    """Streaming multiprocessors."""
    l2_bytes: Bytes
    """Size of L2."""
    sector_bytes: Bytes
    """A sector: the least that L2 and memory move."""
    line_bytes: Bytes
    """A line of L2."""
    shared_bytes_per_sm: Bytes
    """Shared memory of an SM, for all its CTAs."""
    reserved_shared_bytes: Bytes
    """Shared memory that the hardware keeps for each CTA."""
    clusters_at_once: Mapping[int, int]
    """By the CTAs of a cluster: how many clusters run at once with one large CTA on each SM."""
    clustered_sms: Count
    """SMs that clusters of any other size may count on."""
    kept_of_stream: Bytes
    """Bytes that L2 keeps of an operand that is read once: the next launch may read it again."""
    written_bytes: Bytes
    """What L2 may hold of results that are not in memory yet."""
    passing_rows: Count
    """The most rows or columns of a product whose larger operand may leave L2 first although the product fits it."""
    passing_bytes: Bytes
    """The least that such a product reads: of smaller ones nothing is gained."""
    passing_kept: Count
    """Sixteenths of that operand that stay all the same: a launch like it finds them."""
    streamed_bytes: Bytes
    """Bytes of the larger operand below which tiles and split K both take about as long as their launch."""
    few_tiles: TileCosts
    """Costs of products with at most `few_results` results: latency and ragged tiles show in them, not the clock."""
    middle_tiles: TileCosts
    """Costs of products of 16 bits with more results, and at most `middle_products` multiplications."""
    large_tiles: TileCosts
    """Costs of larger ones, and of products of 8 or 32 bits with more than `short_steps` steps: power limits them, the
    clock falls, and with it the rate of L2."""
    short_tiles: TileCosts
    """Costs of products of 8 or 32 bits with more than `few_results` results and at most `short_steps` steps along K."""
    few_results: Count
    """Largest number of results of a product whose costs are `few_tiles`."""
    middle_products: Count
    """Largest number of multiplications of a product of 16 bits whose costs are `middle_tiles`."""
    short_steps: Count
    """Most steps along K of a product whose costs are `short_tiles`."""
    fitting: Factor
    """Results that the first tile may cover, by those that there are, and still be preferred by a margin."""
    split: SplitCosts
    """Costs of a launch that splits K and finds nothing in L2."""
    warm_split: SplitCosts
    """Costs of such a launch behind another like it."""
    split_rows: SplitRule
    """Rule for products of few rows."""
    split_columns: SplitRule
    """Rule for products of few columns."""
    small_operands: Bytes
    """Most bytes of A and B together of a small product, for `SplitRule.small_margin`."""
    deep: DeepRule
    """Products along a long K that are always split."""
    long: DeepRule
    """Products along a long K that are split if the models predict a gain."""
    long_columns: Factor
    """Cost of the predicted time of `long` products on the side "columns", where results are stored transposed."""
    wide: DeepRule
    """Products along a long K of which neither side is short, split if the models predict a gain."""
    wide_sides: Factor
    """Most rows by columns, or columns by rows, that the side of a `wide` product has which is split."""
    rows: RowLimits
    """Limits of the row kernels."""
    moves: MoveLimits
    """Limits of rows that travel by index."""
    groups: GroupLimits
    """Limits and estimates of grouped products."""
    fitted: FitRule
    """Rule for tiles that are as wide as the result."""

    def shared_bytes(self, ctas: int = 1) -> int:
        """Shared memory of each of so many CTAs that share an SM. Example: ``H200.shared_bytes() == 232448``."""
        return self.shared_bytes_per_sm // ctas - self.reserved_shared_bytes
