// C = A B^T in e4m3 with a scale for each 32 of K, by pairs of CTAs that take over tiles of 256 x 128 from each other.
//
// CTA r of a pair has rows 128 r of A and 64 r of B, its own scales of A, and all scales of B. Leader's barriers: full (bytes
// of both), sums_empty (both epilogues), response_empty (every warp that reads a response). In each CTA: empty, sums_full,
// response.
enum { TILE_M = 256, TILE_N = 128, STEP = 128, STAGES = 2, SUMS = 2, A_BYTES = 128 * STEP, B_BYTES = 64 * STEP, SCALES = 512,
       A_SCALES = A_BYTES + B_BYTES, B_SCALES = A_SCALES + SCALES, BYTES = B_SCALES + SCALES, SCALE_COLUMN = 256, WARPS = 8 };

static __device__ __forceinline__ void multiply(unsigned sums, u64 a, u64 b, unsigned word, unsigned a_scales,
                                                unsigned b_scales, bool more) {
  asm volatile("{ .reg .pred more; setp.ne.b32 more, %6, 0;\n"
               "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.block32 [%0], %1, %2, %3, [%4], [%5], more; }"
               :: "r"(sums), "l"(a), "l"(b), "r"(word), "r"(a_scales), "r"(b_scales), "r"((unsigned)more) : "memory");
}
static __device__ __forceinline__ void bring_scales(unsigned to, unsigned from) {
  asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" :: "r"(to), "l"(rows_of_16(from)) : "memory");
}
static __device__ __forceinline__ void ask(unsigned response, unsigned bar) {
  asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 "
               "[%0], [%1];" :: "r"(response), "r"(bar) : "memory");
}
static __device__ __forceinline__ bool answer(unsigned response, unsigned* first) {
  unsigned granted;
  asm volatile("{ .reg .b128 said; .reg .pred p; ld.shared::cta.b128 said, [%2]; mov.u32 %1, 0;\n"
               "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, said; selp.u32 %0, 1, 0, p;\n"
               "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %1, said; }"
               : "=r"(granted), "=r"(*first) : "r"(response) : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  return granted;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256)
product(const __grid_constant__ Map a_map, const __grid_constant__ Map b_map, const __grid_constant__ Map a_scales,
        const __grid_constant__ Map b_scales, float* c, int k, int n) {
  extern __shared__ __align__(1024) unsigned char stages[];
  __shared__ alignas(8) u64 bars[2 * STAGES + 2 * SUMS + 2];
  __shared__ alignas(16) u64 said[2];
  __shared__ unsigned where;
  const unsigned base = place(stages), full = place(bars), empty = full + 8 * STAGES, sums_full = empty + 8 * STAGES;
  const unsigned sums_empty = sums_full + 8 * SUMS, response = sums_empty + 8 * SUMS, response_empty = response + 8;
  const unsigned rank = rank_in_cluster();
  const int warp = threadIdx.x / 32, steps = k / STEP, across = n / TILE_N;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2 * STAGES + SUMS; ++i) start(full + 8 * i, 1);
    for (int i = 0; i < SUMS; ++i) start(sums_empty + 8 * i, 2);
    start(response, 1);
    start(response_empty, 2 * WARPS);
    started();
  }
  if (warp == 3) columns<2>(place(&where), 512);
  before_others();
  everyone_in_cluster();
  after_others();
  const unsigned t = *(volatile unsigned*)&where;
  unsigned tile = blockIdx.x / 2;
  bool more = true;
  for (unsigned turn = 0; more; ++turn) {
    const int row = tile / across * TILE_M, column = tile % across * TILE_N, sum = turn % SUMS;
    if (warp == 0 && one_lane()) {
      for (int i = 0; i < steps; ++i) {
        const int count = turn * steps + i, stage = count % STAGES;
        const unsigned at = base + stage * BYTES, lead = in_cta(full + 8 * stage, rank) & 0xfeffffffu;
        wait_for(empty + 8 * stage, count / STAGES % 2 ^ 1);
        if (rank == 0) expect(full + 8 * stage, 2 * BYTES);
        load_pair(at, &a_map, i * STEP, row + rank * 128, lead);
        load_pair(at + A_BYTES, &b_map, i * STEP, column + rank * 64, lead);
        load_pair(at + A_SCALES, &a_scales, i * 128, row / 128 + rank, lead);  // words of four scales
        load_pair_multicast(at + B_SCALES + rank * 256, &b_scales, i * 128 + rank * 64, column / 128, lead, 3);
      }
    } else if (warp == 1 && rank == 0 && one_lane()) {
      wait_for(sums_empty + 8 * sum, turn / SUMS % 2 ^ 1);
      after_others();
      for (int i = 0; i < steps; ++i) {
        const int count = turn * steps + i, stage = count % STAGES;
        const unsigned at = base + stage * BYTES, word = TILE_N / 8 << 17 | 1 << 23 | TILE_M / 128 << 27;
        wait_for(full + 8 * stage, count / STAGES % 2);
        after_others();
        bring_scales(t + SCALE_COLUMN, at + A_SCALES);
        bring_scales(t + SCALE_COLUMN + 4, at + B_SCALES);
        for (unsigned j = 0; j < STEP / 32; ++j)
          multiply(t + sum * TILE_N, rows_of_128(at) + 2 * j, rows_of_128(at + A_BYTES) + 2 * j, word | j << 4 | j << 29,
                   t + SCALE_COLUMN, t + SCALE_COLUMN + 4, i + j);
        commit_pair(empty + 8 * stage, 3);
      }
      commit_pair(sums_full + 8 * sum, 3);
    } else if (warp == 2 && one_lane()) {
      expect(response, 16);
      if (rank == 0) {
        wait_for(response_empty, turn % 2 ^ 1);
        ask(place(said), response);
      }
    } else if (warp >= 4) {
      wait_for(sums_full + 8 * sum, turn / SUMS % 2);
      after_others();
      const int mine = (warp - 4) * 32;
      for (int x = 0; x < TILE_N; x += 4) {
        unsigned words[4];
        read4(words, t + sum * TILE_N + (mine << 16) + x);
        was_read();
        for (int i = 0; i < 4; ++i)
          c[(u64)(row + rank * 128 + mine + threadIdx.x % 32) * n + column + x + i] = __uint_as_float(words[i]);
      }
      before_others();
      asm volatile("bar.sync 1, 128;" ::: "memory");
      if (threadIdx.x == 128) arrive_in(sums_empty + 8 * sum, 0);
    }
    __syncwarp();
    wait_for(response, turn % 2);
    unsigned first;
    more = answer(place(said), &first);
    tile = first / 2;
    __syncwarp();
    if (one_lane()) arrive_in(response_empty, 0);
  }
  before_others();
  everyone_in_cluster();
  after_others();
  if (warp == 3) give_back<2>(t, 512);
}
