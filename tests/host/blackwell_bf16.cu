// C = A B^T in bf16 by one CTA per tile of 128 x 128: warp 0 copies, warp 1 multiplies, warps 4 to 7 store.
enum { TILE_M = 128, TILE_N = 128, STEP = 64, STAGES = 3, A_BYTES = TILE_M * STEP * 2, B_BYTES = TILE_N * STEP * 2 };

extern "C" __global__ void __launch_bounds__(256)
product(const __grid_constant__ Map a_map, const __grid_constant__ Map b_map, float* c, int k, int n) {
  extern __shared__ __align__(1024) unsigned char tiles[];
  __shared__ alignas(8) u64 bars[2 * STAGES + 1];
  __shared__ unsigned where;
  const unsigned a = place(tiles), b = a + STAGES * A_BYTES, full = place(bars), empty = full + 8 * STAGES;
  const unsigned done = empty + 8 * STAGES;
  const int warp = threadIdx.x / 32, row = blockIdx.x * TILE_M, column = blockIdx.y * TILE_N, steps = k / STEP;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2 * STAGES + 1; ++i) start(full + 8 * i, 1);
    started();
  }
  if (warp == 2) columns<1>(place(&where), TILE_N);
  before_others();
  __syncthreads();
  after_others();
  const unsigned sums = *(volatile unsigned*)&where;
  if (warp == 0 && one_lane()) {
    for (int i = 0; i < steps; ++i) {
      const int stage = i % STAGES;
      wait_for(empty + 8 * stage, i / STAGES % 2 ^ 1);
      expect(full + 8 * stage, A_BYTES + B_BYTES);
      load(a + stage * A_BYTES, &a_map, i * STEP, row, full + 8 * stage);
      load(b + stage * B_BYTES, &b_map, i * STEP, column, full + 8 * stage);
    }
  } else if (warp == 1 && one_lane()) {
    const unsigned word = 1 << 4 | 1 << 7 | 1 << 10 | TILE_N / 8 << 17 | TILE_M / 16 << 24;  // f32 = bf16 x bf16
    for (int i = 0; i < steps; ++i) {
      const int stage = i % STAGES;
      wait_for(full + 8 * stage, i / STAGES % 2);
      after_others();
      const u64 left = rows_of_128(a + stage * A_BYTES), right = rows_of_128(b + stage * B_BYTES);
      for (int j = 0; j < STEP / 16; ++j)  // 32 bytes of K further on are 2 more in a descriptor
        asm volatile("{ .reg .pred more; setp.ne.b32 more, %4, 0;\n"
                     "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, more; }"
                     :: "r"(sums), "l"(left + 2 * j), "l"(right + 2 * j), "r"(word), "r"(i + j) : "memory");
      commit<1>(empty + 8 * stage);
    }
    commit<1>(done);
  } else if (warp >= 4) {
    wait_for(done, 0);
    after_others();
    const int mine = (warp - 4) * 32;
    for (int x = 0; x < TILE_N; x += 4) {
      unsigned words[4];
      read4(words, sums + (mine << 16) + x);
      was_read();
      for (int i = 0; i < 4; ++i) c[(u64)(row + mine + threadIdx.x % 32) * n + column + x + i] = __uint_as_float(words[i]);
    }
    before_others();
  }
  __syncthreads();
  if (warp == 2) {
    after_others();
    give_back<1>(sums, TILE_N);
  }
}
