"""What is known of a card, with units: one class for facts, and one for each model or rule that is fitted to measurements.

A card is an instance of `Machine` (`phalanx.machines.h200.H200`). Every field has a unit in its annotation and a sentence
below it; how the number came about stands where the card is written down. Models count bytes and microseconds; what happens
inside an SM is said in cycles.

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

    wgmma_columns: PerCycle
    """Columns of one wgmma instruction (64 rows, 32 bytes of K) that an SM multiplies."""
    shared_rate: BytesPerCycle
    """Bytes of operands that the tensor cores of an SM read from its shared memory."""
    carried_rate: BytesPerCycle
    """What shared memory carries of operands that products read, and of those that arrive meanwhile, together."""
    delivered_rate: BytesPerCycle
    """Bytes of operands that arrive at an SM, whoever asked for them: those that others share with it are among them."""
    l2_rate: BytesPerCycle
    """Bytes that L2 brings to an SM while all SMs read."""
    l2_rate_alone: BytesPerCycle
    """The same while few SMs read."""
    read_together: Factor
    """How a byte's part of that falls with the CTAs that ask for it at about the same time, as a power of their number. What
    CTAs share by multicast does not fall: such requests are not put together."""
    read_together_unaligned: Factor
    """The same of rows that do not begin at a line of L2: of the two lines that a piece of them takes, one is asked for by
    the piece before as well."""
    read_together_across: Factor
    """The same of an operand that lies across K."""
    unaligned_factor: Factor
    """What a row costs that does not begin at a line of L2, so that each piece of it takes two lines."""
    across_factor: Factor
    """What an operand costs that is not contiguous along K, and comes in panels."""
    unaligned_across_factor: Factor
    """What it costs on top where its rows do not begin at lines of L2."""
    odd_factor: Factor
    """What a row costs that does not begin at a sector of L2 either, in place of `unaligned_factor`."""
    narrow_panels: Factor
    """What a column counts that the last panel of an operand across K has not: rows of fewer take L2 nearly as long."""
    odd_across_factor: Factor
    """What it costs, in all, where an operand comes in panels."""
    latency: Cycles
    """From asking for a stage to having it, out of L2, while all SMs ask."""
    latency_missed: Cycles
    """How much longer that is out of HBM."""
    held_stages: Factor
    """Stages of a ring that are being multiplied or given back; the others are on their way."""
    zero_fill: BytesPerCycle
    """Bytes of zeros that the copy engine of an SM writes for rows that are not there."""
    zero_fill_shared: BytesPerCycle
    """The same for rows that several CTAs share."""
    zeros_in_all: Factor
    """How much longer such zeros take where every tile has some, not the last ones of many: so much more."""
    ragged_loads: Factor
    """What the rows that are there cost beside such zeros."""
    ragged_factor: Factor
    """Part of what zeros hold up a tile that shows in the end: other tiles take no longer."""
    epilogue: Cycles
    """From the last product of a tile to its first store."""
    epilogue_rate: PerCycle
    """Elements of a tile that an SM's epilogue rounds and stores."""
    fused_factor: Factor
    """How much longer that takes with a bias or an activation."""
    second_part: Cycles
    """The second part of an epilogue: the store before it has to have read the buffer."""
    extra_part: Cycles
    """Each part beyond two, likewise."""
    step: Cycles
    """Waiting for a stage and giving it back."""
    step_in_pair: Cycles
    """How much longer that takes where two CTAs share what they load."""
    alone_factor: Factor
    """What the time of CTAs counts that share nothing: more where it is to be preferred that operands are read once."""
    step_in_four: Cycles
    """The same for four CTAs."""
    step_shared_columns: Cycles
    """How much longer it takes where CTAs share columns of B, so that each waits for its own rows of A."""
    split: Cycles
    """What it takes to leave a part's sums and to learn who is the last, besides the bytes."""
    sums_stored: BytesPerCycle
    """Sums of a part that an SM leaves in L2."""
    sums_added: BytesPerCycle
    """Sums of other parts that an SM reads and adds to its own."""
    shortest_part: Count
    """Steps along K of a part, at least."""
    most_parts: Count
    """Parts of K of a tile, at most."""
    split_results: Count
    """Results of a product up to which its last tiles may be cut along K: of many waves the last one is a small part."""
    split_above: Factor
    """How much longer than its SMs need has a product to take in whole tiles, before parts of K are looked at."""
    most_sharing: Count
    """CTAs of a cluster whose tiles are cut along K, at most."""
    single_group_factor: Factor
    """One warpgroup alone leaves gaps between its products: they take that much longer."""
    clock: CyclesPerMicrosecond
    """Of the SMs while tensor cores work in a burst."""
    hbm: BytesPerMicrosecond
    """Bytes that HBM brings to all SMs."""
    hbm_streamed: BytesPerMicrosecond
    """The same of an operand that L2 is told not to keep."""
    hbm_in_four: Factor
    """What bytes from HBM take of that time where four CTAs share operands, and L2 is asked less often."""
    hbm_tall: Factor
    """The same of tiles of 256 rows, whose rings are the shortest, in a product that is no batch."""
    batch_panels_in_squares: Factor
    """What four CTAs of two rows and two columns take longer in a batch whose columns come in panels, along a short K."""
    squares_steps: Count
    """Steps along K up to which they do."""
    stored_steps: Count
    """Steps along K up to which a product takes the time of its results, which then are stored row after row."""
    spilled_steps: Count
    """The same of a product with more results than L2 holds."""
    hbm_unasked: Factor
    """How much longer such bytes take while few SMs ask for them: so many times the SMs that do not, by those that do."""
    read_again: Factor
    """Part of the larger operand that each tile beside the first brings from HBM again."""
    read_again_streamed: Factor
    """The same where L2 is told not to keep it."""
    most_again: Count
    """Tiles for which it is brought again, at most: the others find it in L2."""
    hbm_sm: BytesPerMicrosecond
    """Bytes of the larger operand that HBM brings to one SM."""
    kept_bytes: Bytes
    """Of a product, what L2 still holds when the next one like it comes: of larger ones, nothing."""
    launch: Microseconds
    """From the end of the launch before to the first product."""
    cold: Microseconds
    """What a launch costs on top that comes alone, and finds nothing in L2."""
    cold_parts: Microseconds
    """The same of tiles that are cut along K: neither sums nor counters are there."""
    cold_waits: Factor
    """Part of what HBM's latency takes longer, for all that L2 else holds, that shows where it holds nothing."""
    cold_pushes: Factor
    """What a byte counts on top there that L2 is to keep: it pushes out what was written before, which goes to HBM."""
    broken_lines: Factor
    """What tiles take longer, of the time along no K at all, whose width lies along the rows of the result and is no
    multiple of 64: they end within lines of L2, which two CTAs write."""
    uneven_width: Factor
    """The same of tiles whose width is no multiple of 32."""
    turned_tiles: Factor
    """The same of tiles of the transposed product."""
    uneven_steps: Count
    """Steps along K from which on these three are nothing; with half as many they are half as much."""
    wasted: Factor
    """What a choice counts of results that tiles have outside the matrix. They take their time already, where they do; in a
    steady state, where power is the limit, they take it from all others, too."""
    endings_after: Factor
    """Part of the last epilogues that comes on top, whatever has been the limit: nothing is left to be fetched."""
    sharpness: Count
    """4 or 8, the power of times that go on at once: the higher, the less do those show that are not the limit."""
    longest_row: Count
    """CTAs in a row or column of a cluster, at most: four of them wait for each other longer than two."""
    spare_columns: Count
    """Columns of an operand across K that a tile may lack to as many whole panels for each of its CTAs, at most."""
    spare_columns_alone: Count
    """The same of rows, and of columns that no other CTA gets."""
    lacking_steps: Count
    """Steps along K from which on a tile may lack any: with fewer, results take most of the time."""
    streamed_from: Bytes
    """Of a product, from which on L2 is told what it need not keep."""
    streamed_readers: Count
    """Tiles that may read an operand that L2 is told not to keep, at most: they ask for it at about the same time."""
    trimmed_waves: Count
    """Waves of tiles up to which the last one's zeros count: copies then leave out what is all outside an array."""
    margin: Factor
    """The tile listed first is the one best measured: another one must promise to take less than this part of its time."""
    split_margin: Factor
    """The same for tiles that are cut along K."""
    pair_margin: Factor
    """The same for CTAs that share columns of B instead of rows of A."""


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
    """Bytes of zeros that the copy engine of an SM writes for rows that are not there."""
    unaligned_factor: Factor
    """What rows cost L2 that do not begin at a line of it, so that each piece of them takes two."""
    odd_factor: Factor
    """The same of rows that do not begin at a sector of L2 either."""
    across_factor: Factor
    """What an operand costs L2 that does not lie along K."""
    peer: BytesPerMicrosecond
    """Bytes of partial sums that one SM receives from others."""
    tensor: OperationsPerMicrosecond
    """Additions and multiplications by the tensor cores of an SM."""
    single_group_factor: Factor
    """What products take longer where one warpgroup has them all."""
    reread_factor: Factor
    """Part of HBM's time that weights cost when another row tile reads them too: L2 saves some of it, multicast all."""
    fixed: Microseconds
    """The launch, the first loads and the last stores."""
    latency: Microseconds
    """From the start of a load to its end, out of L2, while all SMs are loading."""
    latency_missed: Microseconds
    """How much longer that is out of HBM."""
    signal: Microseconds
    """A signal between CTAs, with what it publishes."""
    sharing: Microseconds
    """CTAs that share loads wait for each other."""
    restart: Microseconds
    """Each wave of CTAs after the first one."""
    stored: ElementsPerMicrosecond
    """Results of a tile that an SM rounds and stores."""
    kept_from: Bytes
    """Of a product, what L2 holds altogether when the launch begins."""
    kept_bytes: Bytes
    """Of products as large as this, or larger, it holds nothing; of those in between, a part."""
    finds_kept: Factor
    """What it finds of `Machine.kept_of_stream`: 1 behind a launch like it, else 0."""
    pushes: Factor
    """What a byte of the weights that L2 is to keep counts on top, as `TileCosts.cold_pushes`."""
    sharpness: Count
    """4 or 8, as in `TileCosts`."""
    short_ring_factor: Factor
    """What a short ring of weights that lie across K costs, beside many rows."""
    alone_across_factor: Factor
    """What it costs that a CTA fetches both panels of 65 to 127 rows that lie across K, where two could share them."""
    short_rows_factor: Factor
    """What rows of K count that hold 65 to 127 rows of A, which lie across K: two of them end and begin in a line of L2,
    which is asked for by both."""
    missing_rows_factor: Factor
    """What it costs that more of a tile's rows are not there than `split_config.FEW_MISSING`, if there are many."""
    weights_in_flight: Bytes
    """Of the weights on an SM's way in: more of them push more out of L2, and what was written there takes HBM's time."""
    weights_in_flight_beside_rows: Bytes
    """The same beside more than 64 rows of A, with tiles of 64 columns."""


@frozen
class SplitMargin:
    """How long a product may be predicted to take in the kernel that splits K, as parts of the tiles' predicted time."""

    allowed: Factor
    """In the geometric mean of two launches, of which one finds nothing in L2, and the other what one like it has left."""
    longer: Factor
    """Behind a launch like it. That holds whatever the split gains where nothing is in L2."""


@frozen
class SplitRule:
    """When a product with few rows, or few columns, goes to the kernel that splits K (`matmul_config.split_side`)."""

    few: Count
    """So many, or fewer, are always split."""
    most: Count
    """More are never split."""
    margin: SplitMargin
    """What decides in between."""
    small_margin: SplitMargin
    """What decides there if A and B have at most `Machine.small_operands` together: the models say too much of small
    products that are split, more than of small tiles."""
    stored: MicrosecondsPerElement
    """What an element of the result adds to the split's predicted time."""


@frozen
class DeepRule:
    """Products along a long K, which the kernel that splits it takes in more ways than others (`matmul_config`)."""

    least: Count
    """Rows and columns, at least."""
    most: Count
    """Rows and columns, at most."""
    results: Count
    """At most so many."""
    least_k: Count
    """Elements along K, at least."""


@frozen
class RowLimits:
    """How rows lie in registers and shared memory (`rowwise.rows`), and which pass through a ring (`rowwise.stream`)."""

    held: Count
    """Vectors of 16 bytes per thread that leave room for 64 registers a thread, 1,024 threads an SM."""
    fewer_held: Count
    """The same for kernels that need more registers besides, and for narrow elements that come one by one."""
    most_held: Count
    """The same with 128 registers a thread, 512 threads an SM."""
    bare_held: tuple[int, int]
    """`held` for kernels that keep nothing beside a row: of rows that begin at vectors, and of those that begin anywhere."""
    bare_spread: tuple[tuple[Count, Count, Count, Count, Count], ...]
    """Which CTAs hold f32 rows of kernels that keep nothing beside them: for rows of more than so many elements and at most
    so many, the CTAs of a cluster, their warps, and how many CTAs share an SM."""
    weighted_held: Mapping[int, int]
    """By the bytes of an element: `held` for a kernel that keeps nothing beside a row of one CTA and loads its weights."""
    weighted_spread: tuple[tuple[Count, Count, Count, Count, Count], ...]
    """Which CTAs hold rows of 16-bit elements for such a kernel, in the place of larger clusters with weights ahead; as
    `bare_spread` has them."""
    ahead: Count
    """Vectors per thread that leave room for as many weights."""
    more_ahead: Mapping[int, Mapping[int, int]]
    """By the bytes of an element and by vectors: how many CTAs of clusters of 8, of 8 warps each, are on an SM where their
    weights are ahead as well."""
    warp_vectors: Count
    """Vectors per thread of the longest rows of which each has a warp of its own."""
    centered_warp_vectors: Count
    """The same of rows of 16-bit elements with moments."""
    centered_warps: tuple[tuple[int, int, int, int], ...]
    """(warps, more, vectors, CTAs): longer ones of these, of more than so many vectors per thread of so many warps and up to
    so many, in so many CTAs on an SM."""
    read_vectors: Count
    """The same of rows that are only read."""
    most_read: Count
    """Vectors per thread of longer ones of those, which a few warps share."""
    centered_held: Mapping[int, int]
    """By the CTAs of a cluster: vectors that leave room for a row's moments, and for how many columns each warp has."""
    centered_parts: Count
    """Vectors of longer rows with moments; the rest lies in shared memory."""
    shared_bytes: Bytes
    """Of a CTA's columns that lie in shared memory, at most."""
    streamed_from: Count
    """CTAs of a cluster from which on its rows pass the SM's cache by."""
    run_vectors: Count
    """Vectors of a row from which on one that begins anywhere is read in aligned ones."""
    weighted_run_vectors: Count
    """The same with weights, which begin elsewhere than their row."""
    span_bytes: Mapping[tuple[int, int], int]
    """By the vectors beside them and the bytes of an element: the longest rows that begin anywhere and pass in spans."""
    span_ctas: Mapping[tuple[int, int], tuple[tuple[Count, Count], ...]]
    """By the same, where a warp has a row: (elements, CTAs), in ascending order. As long as a thread has up to so many
    elements, so many CTAs are on an SM; of other rows as many as a count of registers gives."""
    teams: Mapping[tuple[int, int, bool], tuple[tuple[Bytes, tuple[int, int, int, int, bool] | None], ...]]
    """By the vectors beside rows, the bytes of an element, and whether they begin at vectors: (bytes, (CTAs, warps, rows,
    CTAs on an SM, wide)), in ascending order. Rows of up to so many bytes, but for those before, are dealt to teams of a
    cluster of so many CTAs, of so many warps each, with so many rows in shared memory for each, the weights in f32 or not.
    None stands where others are faster, as they are for longer rows than those of the last."""
    team_warps: tuple[int, int, int]
    """Warps of teams on an SM, at most; and where those of a cluster share a row with one vector beside it, and with two."""
    stream_bytes: Mapping[str, int]
    """By what is computed: the shortest row that passes chunk by chunk."""
    stream_odd_bytes: Mapping[str, tuple[int, int]]
    """The shortest such row of those that begin anywhere: of elements of 16 bits, and of wider ones."""
    stream_mixed_bytes: Bytes
    """The shortest such row beside weights of another type."""
    stream_warps: tuple[tuple[int, int, int], ...]
    """(bytes, warps, CTAs): rows of up to so many bytes pass through CTAs of so many warps, so many of them on an SM."""
    stream_ring_bytes: Bytes
    """The rings of an SM."""
    stream_share: Factor
    """Of a ring that a row takes at most: the rest is for the rows after it."""
    stream_longest_share: Factor
    """The same in the largest cluster: more than that is read again."""
    stream_pieces: Mapping[int, int]
    """By the CTAs of a cluster: chunks of two vectors a thread that a row of 16-bit elements without weights has at most."""
    stream_odd_logs: Count
    """Of `log_softmax`: rows of 16-bit elements that begin anywhere pass through a pair of CTAs in up to so many chunks, and
    longer ones lie in registers."""
    stream_weights: Count
    """Vectors of weights and biases that a thread keeps at most."""
    stream_weights_again: Count
    """The same beside rows of which a part is read again, or that begin anywhere and have weights which are loaded."""
    stream_saved: Mapping[int, tuple[int, ...]]
    """By the vectors beside a row: clusters whose CTAs keep weights in shared memory."""
    stream_spare: Count
    """Stages that these weights leave to the rows after the one that is kept."""
    stream_loaded: Count
    """Chunks whose weights are loaded for each row, at most, where others are kept in shared memory."""
    stream_wide_bytes: Bytes
    """The longest row with one vector for clusters of fewer than 8 CTAs."""
    stream_held: Mapping[str, tuple[tuple[int, int, int, tuple[int, ...], int], ...]]
    """By what is computed, (bytes, warps, CTAs, clusters, chunks): rows of up to so many bytes are held in registers by CTAs
    of so many warps, so many of them on an SM, in the first of these clusters with at most so many chunks a thread."""
    stream_pairs: tuple[int, ...]
    """Two rows with weights and biases pass at once through clusters of so many CTAs."""
    stream_pair_bytes: Bytes
    """And those of rows up to so many bytes, which begin anywhere."""
    stream_exchange: Factor
    """What a cluster takes for its exchange, in the time of a chunk's vector."""
    loss_lanes: tuple[tuple[Count, Count], ...]
    """(threads, vectors): rows that are only read have the first of these numbers of threads that hold them in registers
    with so many vectors each."""
    loss_pieces: tuple[tuple[Count, Count], tuple[Count, Count]]
    """The same of a piece of a longer one: of 16-bit elements, and of f32."""
    loss_warps: Count
    """Warps of their CTAs where a warp has a row or several; else a CTA has one."""
    loss_occupancy: tuple[tuple[Count, Count], ...]
    """(vectors, warps): with up to so many vectors a thread, so many warps on an SM."""
    grid_bytes: Mapping[str, tuple[Bytes, Bytes]]
    """Shortest rows of `softmax` and `log_softmax` that all SMs share: of 16-bit elements, and of f32."""
    grid_room: Bytes
    """What rings of such rows take of an SM's shared memory."""
    grid_narrow_teams: tuple[tuple[Count, Count, Count], ...]
    """(teams, warps, vectors): rows of 16-bit elements try so many teams first, of so many warps; a thread of these has so
    many vectors of a chunk."""
    grid_teams: tuple[tuple[Count, Count, Count], ...]
    """(teams, warps, vectors) that all rows try, in this order."""
    shares: Mapping[str, Mapping[tuple[int, bool], tuple[tuple[Bytes, Bytes], ...]]]
    """Rows that a share of all SMs has, by what is computed of them, the bytes of an element, and whether they all begin at
    a multiple of 16 bytes: from so many bytes on, and below so many."""
    share_rows: Count
    """Fewest rows of each group of CTAs, unless all SMs are one group."""
    share_slices: tuple[Bytes, Bytes, Bytes]
    """What a CTA has of such a row: so much at least, about so much and so much at most, unless the row is all SMs'."""
    share_least: Bytes
    """The same of rows that more than half of all SMs have."""
    share_short: Bytes
    """Below which slices of rows of 16 bits with two vectors that begin anywhere count as if some were empty, 2% a KB."""
    share_room: Bytes
    """What a ring of slices takes of an SM's shared memory."""
    share_registers: tuple[tuple[Count, Count], tuple[Count, Count]]
    """Registers of a thread besides weights and biases: of 16-bit elements, and of f32, each in other slices, and in
    long ones of all SMs."""


@frozen
class MoveLimits:
    """How rows travel by index (`kernels.gather`), through shared memory or through registers."""

    ring_bytes: Bytes
    """Rows on an SM's way through."""
    stage_bytes: Bytes
    """Rows that one stage holds, where one CTA has an SM."""
    shared_stage_bytes: Bytes
    """The same where four CTAs share an SM."""
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
    """Rows that a CTA has there: its threads have as much on their way."""
    moved_least_bytes: Bytes
    """The shortest rows for which `moved_row_bytes` and `moved_bytes` hold in place of `tile_row_bytes` and `tile_bytes`.
    Rows that are added, or begin at no multiple of 16 bytes, are not among them."""
    moved_row_bytes: Bytes
    """The longest part of a row that a CTA has of such rows."""
    moved_bytes: Bytes
    """What a CTA has of such rows: its threads have as much on their way."""


@frozen
class FitRule:
    """When tiles are as wide as a narrow result, or half of it (`matmul_config.choose`)."""

    whole_steps: Count
    """Steps along K up to which they are stored in as few parts as can be, whatever that leaves for stages."""
    most_steps: Count
    """Steps along K up to which those that are as wide are taken by `margin`."""
    least_bytes: Bytes
    """Bytes of the product from which they are."""
    margin: Factor
    """So, if the model gives them less than so many times what it gives the others."""


@frozen
class GroupLimits:
    """Which way the CTAs of a cluster share a grouped product (`products.grouped`), and the estimates of `group_model` for
    few rows."""

    kept_bytes: Bytes
    """Weights of a group that stay in L2 from one row of tiles to the next."""
    middle_rows: Count
    """Rows of a group, on average, from which two CTAs may take rows of a tile: the unused half of its last one is small."""
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
    """CTAs, as a part of those that run at once, up to which K is split further: some tiles that are counted on are not
    there."""
    clock: CyclesPerMicrosecond
    """Of the tensor cores."""
    hbm: BytesPerMicrosecond
    """Weights from memory to all SMs."""
    l2_rate: BytesPerCycle
    """Bytes that L2 brings to an SM."""
    step: Cycles
    """Of a step along K, on top of its products or loads."""
    few_factor: Factor
    """What a product of few rows takes longer than the tensor cores would."""
    ring_factor: Factor
    """The same of whole tiles."""
    split: Microseconds
    """Partial sums from SM to SM."""
    fixed: Microseconds
    """Of a launch, and the one before it that makes the table of tiles."""


@frozen
class Machine:
    """A card: facts, and what each model or rule of the library is fitted to."""

    name: str
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
    """Of that, what the hardware keeps for each CTA."""
    clusters_at_once: Mapping[int, int]
    """By the CTAs of a cluster: how many clusters run at once with one large CTA on each SM."""
    clustered_sms: Count
    """SMs that clusters of any other size may count on."""
    kept_of_stream: Bytes
    """Of an operand that is read once, what L2 keeps all the same: the next launch may read it again."""
    written_bytes: Bytes
    """What L2 may hold of results that are not in memory yet."""
    passing_rows: Count
    """The most rows or columns of a product whose larger operand may leave L2 first although the product fits it."""
    passing_bytes: Bytes
    """The least that such a product reads: of smaller ones nothing is gained."""
    passing_kept: Count
    """Sixteenths of that operand that stay all the same: a launch like it finds them."""
    streamed_bytes: Bytes
    """Of the larger operand of a product: below that, tiles and split K both take about as long as their launch."""
    tiles: TileCosts
    large_tiles: TileCosts
    middle_tiles: TileCosts
    short_tiles: TileCosts
    few_tiles: TileCosts
    few_results: Count
    """Results of a product up to which `few_tiles` are its costs: latency and ragged tiles show in it, not the clock."""
    middle_products: Count
    """Multiplications of 16 bits up to which `middle_tiles` are the costs of those with more: power does not limit them, as
    it does those of `large_tiles`."""
    short_steps: Count
    """Steps along K up to which `short_tiles` are the costs of those in 8 bits."""
    fitting: Factor
    """How much more than the result the first tile may cover, and still be preferred by a margin."""
    split: SplitCosts
    warm_split: SplitCosts
    split_rows: SplitRule
    split_columns: SplitRule
    small_operands: Bytes
    """Up to which A and B together make a product small, for `SplitRule.small_margin`."""
    deep: DeepRule
    """Those that it always takes."""
    long: DeepRule
    """Those of which models decide that."""
    long_columns: Factor
    """What their predicted time counts on the side "columns", where results are stored transposed."""
    wide: DeepRule
    """Those of which models decide that though neither side is short."""
    wide_sides: Factor
    """How many times as many rows or columns as the other the side of those may have that it takes."""
    rows: RowLimits
    moves: MoveLimits
    groups: GroupLimits
    fitted: FitRule

    def shared_bytes(self, ctas: int = 1) -> int:
        """Shared memory of each of so many CTAs that share an SM. Example: ``H200.shared_bytes() == 232448``."""
        return self.shared_bytes_per_sm // ctas - self.reserved_shared_bytes
