// attention_tiles(DIM=16, WIDE=16, GROUPS=2, KEYS=32, STAGES=2, QUERY_STAGES=2, OWN_OUT=False, PARTS=1, TURNS=False, SLACK=8.0, BIAS_KIND=None, PRODUCER_REGS=None, REGS=None) for sm_90a, from forward_tiles.py:320
// 384 threads, 12384 bytes of shared memory

typedef unsigned short px_bf16;
template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

struct alignas(128) px_tensor_map { unsigned long long opaque[16]; };

// device functions, as in helpers.cuh:
//   prefetch_tensormap
//   mbarrier_init_shared_cta
//   fence_mbarrier_init_release_cluster
//   griddepcontrol_wait
//   griddepcontrol_launch_dependents
//   wrap_add
//   wrap_mul
//   bits
//   unknown_zero
//   keep_scalar
//   floor_div
//   wrap_sub
//   minimum
//   maximum
//   floor_mod
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_4d_shared_global
//   elect_sync
//   bar_sync_of
//   mbarrier_arrive_shared_cta
//   wgmma_descriptor
//   keep_float
//   wgmma_fence_sync_aligned
//   wgmma_m64n32k16_f32_bf16_bf16
//   wgmma_commit_group_sync_aligned
//   wgmma_wait_group_0
//   max_NaN_f32
//   shuffle_xor
//   exp2_approx
//   bf16_pair_from_float
//   pack_words
//   unpack_words
//   hold_descriptors
//   wgmma_m64n16k16_f32_bf16_bf16_registers_tb
//   wgmma_wait_group_1
//   fold_scalar
//   fold_bits
//   finish
//   reciprocal_approx
//   stmatrix_x4
//   unpack
//   load_vector
//   inside
//   store_vector
//   shared_address

extern "C" __global__ void __launch_bounds__(384, 1) attention_tiles_kernel(
    const __grid_constant__ px_array<px_bf16, 4> Q,
    const __grid_constant__ px_array<px_bf16, 4> K,
    const __grid_constant__ px_array<px_bf16, 4> V,
    const __grid_constant__ px_array<px_bf16, 4> O,
    const __grid_constant__ px_array<float, 3> LSE,
    const float factor,
    const int right,
    const int group,
    const int band,
    const __grid_constant__ px_tensor_map K_map,
    const __grid_constant__ px_tensor_map Q_map,
    const __grid_constant__ px_tensor_map V_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned px_never = ptx::unknown_zero();
  const unsigned queries_full = px_base + 12288;
  const unsigned queries_empty = px_base + 12304;
  const unsigned keys_full = px_base + 12320;
  const unsigned keys_empty = px_base + 12336;
  const unsigned values_full = px_base + 12352;
  const unsigned values_empty = px_base + 12368;
  const unsigned k_addr = px_base + 8192;
  const unsigned q_addr = px_base;
  const unsigned v_addr = px_base + 10240;
  px_bf16* const q = reinterpret_cast<px_bf16*>(px_smem);
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&K_map);
    ptx::prefetch_tensormap(&Q_map);
    ptx::prefetch_tensormap(&V_map);
  }
  // forward_tiles.py:338: queries = px.pipe(QUERY_STAGES)
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(queries_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(queries_empty + 8 * px_i, 2);
    // forward_tiles.py:339: keys = px.pipe(STAGES)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(keys_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(keys_empty + 8 * px_i, 2);
    // forward_tiles.py:340: values = px.pipe(STAGES)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(values_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(values_empty + 8 * px_i, 2);
    // forward_tiles.py:320: def attention_tiles(
    ptx::fence_mbarrier_init_release_cluster();
  }
  __syncthreads();  // barriers are initialised before their first use
  // forward_tiles.py:343: batches, shared = Q.shape[0] if CUQ is None else CUQ.shape[0] - 1, PARTIAL is not None
  const int Q_size0 = Q.shape[0];
  const int Q_size1 = Q.shape[1];
  const int Q_size2 = Q.shape[2];
  // forward_tiles.py:344: reach = Reach(Q.shape[2], K.shape[2], left, right)
  const int K_size2 = K.shape[2];
  // tiles.py:53: place, count = px.block_id(0), px.num_blocks(0)  (called at tiles.py:63)
  const int block_x = (int)blockIdx.x;
  const int blocks_x = (int)gridDim.x;
  // launches.py:16: px.wait_prior()  (called at forward_tiles.py:346)
  ptx::griddepcontrol_wait();
  // launches.py:17: px.launch_dependents()  (called at forward_tiles.py:346)
  ptx::griddepcontrol_launch_dependents();
  // forward_tiles.py:348: with px.warps(0, 1, regs=PRODUCER_REGS):
  if (px_warp_id == 0) {  // warp 0
    const bool px_one = ptx::elect_sync();
    // tiles.py:117: self.live = t < px.cdiv(self.queries, self.ROWS) * self.heads * self.batches  (called at tiles.py:63)
    const int t = ptx::wrap_add((Q_size2 >> 7), ((int)((Q_size2 & 127) != 0)));
    const int t_1 = ptx::wrap_mul(ptx::wrap_mul(t, Q_size1), Q_size0);
    // tiles.py:105: rows, heads = px.cdiv(px.keep(self.queries), self.ROWS), px.keep(self.heads)  (called at tiles.py:118)
    const int t_2 = ptx::keep_scalar(Q_size2);
    const int rows = ptx::wrap_add((t_2 >> 7), ((int)((t_2 & 127) != 0)));
    const int heads = ptx::keep_scalar(Q_size1);
    // tiles.py:109: first = t // (rows * self.band) * self.band  (called at tiles.py:118)
    const int t_3 = ptx::floor_div<int>(block_x, ptx::wrap_mul(rows, band));
    const int first = ptx::wrap_mul(t_3, band);
    // tiles.py:110: wide = px.maximum(px.minimum(self.band, heads * self.batches - first), 1)  (called at tiles.py:118)
    const int t_4 = ptx::wrap_sub(ptx::wrap_mul(heads, Q_size0), first);
    const int wide = ptx::maximum<int>((ptx::minimum<int>(band, t_4)), 1);
    // tiles.py:111: place = t - first * rows  (called at tiles.py:118)
    const int place = ptx::wrap_sub(block_x, ptx::wrap_mul(first, rows));
    // tiles.py:112: m, which = rows - 1 - place // wide, first + place % wide  (called at tiles.py:118)
    const int m = ptx::wrap_sub(ptx::wrap_sub(rows, 1), (ptx::floor_div<int>(place, wide)));
    const int which = ptx::wrap_add(first, (ptx::floor_mod<int>(place, wide)));
    // tiles.py:113: return px.maximum(which // heads, 0), which % heads, self.first_row(m, rows, self.queries)  (called at tiles.py:118)
    const int batch = ptx::maximum<int>((ptx::floor_div<int>(which, heads)), 0);
    // tiles.py:95: row = m * self.ROWS  (called at tiles.py:113)
    const int row = ptx::wrap_mul(m, 128);
    // tiles.py:97: row = row + queries - rows * self.ROWS  (called at tiles.py:113)
    const int row_1 = ptx::wrap_sub(ptx::wrap_add(row, Q_size2), ptx::wrap_mul(rows, 128));
    // forward_tiles.py:82: while tile.live:  (called at forward_tiles.py:349)
    int filling = 0;
    int filling_parity = 0;
    int filling_1 = 0;
    int filling_parity_1 = 0;
    int filling_2 = 0;
    int filling_parity_2 = 0;
    bool live = block_x < t_1;
    int batch_1 = batch;
    int head = ptx::floor_mod<int>(which, heads);
    int row_2 = row_1;
    int turn = 0;
    while (live) {
      // scores.py:58: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py:59)
      // scores.py:38: return row + (self.keys - self.queries)  (called at scores.py:45)
      const int t_5 = ptx::wrap_add(ptx::wrap_add(row_2, 127), ptx::wrap_sub(K_size2, Q_size2));
      // scores.py:45: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py:58)
      const int end = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_5, right), 1)));
      // scores.py:58: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py:59)
      const int t_6 = ptx::maximum<int>(end, 0);
      const int high = ptx::wrap_add((t_6 >> 5), ((int)((t_6 & 31) != 0)));
      // scores.py:59: low = px.minimum(self.begin(first) // KEYS, high)  (called at forward_tiles.py:59)
      const int low = ptx::minimum<int>(0, high);
      // forward_tiles.py:60: low = px.maximum(px.minimum(low, high - 1), 0)  (called at forward_tiles.py:83)
      const int low_1 = ptx::maximum<int>((ptx::minimum<int>(low, ptx::wrap_sub(high, 1))), 0);
      // forward_tiles.py:61: found = low, px.maximum(high, low + 1)  (called at forward_tiles.py:83)
      const int high_1 = ptx::maximum<int>(high, ptx::wrap_add(low_1, 1));
      // forward_tiles.py:84: batch, head = tile.batch, tile.head // group  (called at forward_tiles.py:349)
      const int head_1 = ptx::floor_div<int>(head, group);
      // forward_tiles.py:85: key = tile.first_key + (high - 1) * b.KEYS  (called at forward_tiles.py:349)
      const int key = ptx::wrap_mul(ptx::wrap_sub(high_1, 1), 32);
      // forward_tiles.py:86: with b.keys.produce() as stage:  (called at forward_tiles.py:349)
      ptx::mbarrier_wait_parity(keys_empty + 8 * filling_1, filling_parity_1 ^ 1);
      __syncwarp();  // all threads have passed the wait at line 86 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(keys_full + 8 * filling_1, 1024);
        // forward_tiles.py:87: px.tma.load(K[batch, head, key : key + b.KEYS, 0 : b.DIM], b.k[stage], b.keys.full[stage])  (called at forward_tiles.py:349)
        // tensor copy: a box of 1 x 1 x 32 x 16, 32-byte swizzle
        ptx::cp_async_bulk_tensor_4d_shared_global(k_addr + filling_1 * 1024, &K_map, 0, key, head_1, batch_1, keys_full + 8 * filling_1);
      }
      // forward_tiles.py:86: with b.keys.produce() as stage:  (called at forward_tiles.py:349)
      const int t_7 = ptx::wrap_add(filling_1, 1);
      const bool t_8 = t_7 == 2;
      // forward_tiles.py:88: with b.queries.produce() as stage:  (called at forward_tiles.py:349)
      ptx::mbarrier_wait_parity(queries_empty + 8 * filling, filling_parity ^ 1);
      __syncwarp();  // all threads have passed the wait at line 88 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(queries_full + 8 * filling, 4096);
        // forward_tiles.py:91: px.tma.load(Q[batch, tile.head, row : row + b.ROWS, 0 : b.DIM], b.q[stage, c], b.queries.full[stage])  (called at forward_tiles.py:349)
        // tensor copy: a box of 1 x 1 x 64 x 16, 32-byte swizzle
        ptx::cp_async_bulk_tensor_4d_shared_global(q_addr + filling * 4096, &Q_map, 0, row_2, head, batch_1, queries_full + 8 * filling);
      }
      // forward_tiles.py:90: row = tile.first_query + tile.row + c * b.ROWS  (called at forward_tiles.py:349)
      const int row_3 = ptx::wrap_add(row_2, 64);
      // forward_tiles.py:91: px.tma.load(Q[batch, tile.head, row : row + b.ROWS, 0 : b.DIM], b.q[stage, c], b.queries.full[stage])  (called at forward_tiles.py:349)
      if (px_one) {
        // tensor copy: a box of 1 x 1 x 64 x 16, 32-byte swizzle
        ptx::cp_async_bulk_tensor_4d_shared_global(q_addr + filling * 4096 + 2048, &Q_map, 0, row_3, head, batch_1, queries_full + 8 * filling);
      }
      // forward_tiles.py:88: with b.queries.produce() as stage:  (called at forward_tiles.py:349)
      const int t_9 = ptx::wrap_add(filling, 1);
      const bool t_10 = t_9 == 2;
      // forward_tiles.py:92: for j in range(1, high - low):  # K is one block ahead of V  (called at forward_tiles.py:349)
      int filling_3 = t_8 ? 0 : t_7;
      int filling_parity_3 = filling_parity_1 ^ ((int)t_8);
      int filling_4 = filling_2;
      int filling_parity_4 = filling_parity_2;
      #pragma unroll 1
      for (int j = 1; j < ptx::wrap_sub(high_1, low_1); ++j) {
        // forward_tiles.py:93: key = tile.first_key + (high - 1 - j) * b.KEYS  (called at forward_tiles.py:349)
        const int key_1 = ptx::wrap_mul((ptx::wrap_sub(ptx::wrap_sub(high_1, 1), j)), 32);
        // forward_tiles.py:94: with b.keys.produce() as stage:  (called at forward_tiles.py:349)
        ptx::mbarrier_wait_parity(keys_empty + 8 * filling_3, filling_parity_3 ^ 1);
        __syncwarp();  // all threads have passed the wait at line 94 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(keys_full + 8 * filling_3, 1024);
          // forward_tiles.py:95: px.tma.load(K[batch, head, key : key + b.KEYS, 0 : b.DIM], b.k[stage], b.keys.full[stage])  (called at forward_tiles.py:349)
          // tensor copy: a box of 1 x 1 x 32 x 16, 32-byte swizzle
          ptx::cp_async_bulk_tensor_4d_shared_global(k_addr + filling_3 * 1024, &K_map, 0, key_1, head_1, batch_1, keys_full + 8 * filling_3);
        }
        // forward_tiles.py:94: with b.keys.produce() as stage:  (called at forward_tiles.py:349)
        const int t_11 = ptx::wrap_add(filling_3, 1);
        const bool t_12 = t_11 == 2;
        // forward_tiles.py:96: with b.values.produce() as stage:  (called at forward_tiles.py:349)
        ptx::mbarrier_wait_parity(values_empty + 8 * filling_4, filling_parity_4 ^ 1);
        __syncwarp();  // all threads have passed the wait at line 96 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(values_full + 8 * filling_4, 1024);
        }
        // forward_tiles.py:97: behind = key + b.KEYS  (called at forward_tiles.py:349)
        const int behind = ptx::wrap_add(key_1, 32);
        // forward_tiles.py:98: px.tma.load(values_of(V, batch, head, behind, b), b.v[stage], b.values.full[stage])  (called at forward_tiles.py:349)
        if (px_one) {
          // tensor copy: a box of 1 x 1 x 32 x 16, 32-byte swizzle
          ptx::cp_async_bulk_tensor_4d_shared_global(v_addr + filling_4 * 1024, &V_map, 0, behind, head_1, batch_1, values_full + 8 * filling_4);
        }
        // forward_tiles.py:96: with b.values.produce() as stage:  (called at forward_tiles.py:349)
        const int t_13 = ptx::wrap_add(filling_4, 1);
        const bool t_14 = t_13 == 2;
        filling_3 = t_12 ? 0 : t_11;
        filling_parity_3 = filling_parity_3 ^ ((int)t_12);
        filling_4 = t_14 ? 0 : t_13;
        filling_parity_4 = filling_parity_4 ^ ((int)t_14);
      }
      // forward_tiles.py:92: for j in range(1, high - low):  # K is one block ahead of V  (called at forward_tiles.py:349)
      // forward_tiles.py:99: key = tile.first_key + low * b.KEYS  (called at forward_tiles.py:349)
      const int key_1 = ptx::wrap_mul(low_1, 32);
      // forward_tiles.py:100: with b.values.produce() as stage:  (called at forward_tiles.py:349)
      ptx::mbarrier_wait_parity(values_empty + 8 * filling_4, filling_parity_4 ^ 1);
      __syncwarp();  // all threads have passed the wait at line 100 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(values_full + 8 * filling_4, 1024);
        // forward_tiles.py:101: px.tma.load(values_of(V, batch, head, key, b), b.v[stage], b.values.full[stage])  (called at forward_tiles.py:349)
        // tensor copy: a box of 1 x 1 x 32 x 16, 32-byte swizzle
        ptx::cp_async_bulk_tensor_4d_shared_global(v_addr + filling_4 * 1024, &V_map, 0, key_1, head_1, batch_1, values_full + 8 * filling_4);
      }
      // forward_tiles.py:100: with b.values.produce() as stage:  (called at forward_tiles.py:349)
      const int t_11 = ptx::wrap_add(filling_4, 1);
      const bool t_12 = t_11 == 2;
      // forward_tiles.py:102: turn += 1  (called at forward_tiles.py:349)
      const int turn_1 = ptx::wrap_add(turn, 1);
      // tiles.py:55: place = px.where(turn % 2 == 0, place, count - 1 - place)  (called at tiles.py:63)
      const int t_13 = ptx::wrap_sub(ptx::wrap_sub(blocks_x, 1), block_x);
      const int place_1 = ((turn_1 & 1) == 0) ? block_x : t_13;
      // tiles.py:56: return turn * count + place  (called at tiles.py:63)
      const int t_14 = ptx::wrap_add(ptx::wrap_mul(turn_1, blocks_x), place_1);
      // tiles.py:117: self.live = t < px.cdiv(self.queries, self.ROWS) * self.heads * self.batches  (called at tiles.py:63)
      const int t_15 = ptx::wrap_add((Q_size2 >> 7), ((int)((Q_size2 & 127) != 0)));
      const int t_16 = ptx::wrap_mul(ptx::wrap_mul(t_15, Q_size1), Q_size0);
      // tiles.py:105: rows, heads = px.cdiv(px.keep(self.queries), self.ROWS), px.keep(self.heads)  (called at tiles.py:118)
      const int t_17 = ptx::keep_scalar(Q_size2);
      const int rows_1 = ptx::wrap_add((t_17 >> 7), ((int)((t_17 & 127) != 0)));
      const int heads_1 = ptx::keep_scalar(Q_size1);
      // tiles.py:109: first = t // (rows * self.band) * self.band  (called at tiles.py:118)
      const int t_18 = ptx::floor_div<int>(t_14, ptx::wrap_mul(rows_1, band));
      const int first_1 = ptx::wrap_mul(t_18, band);
      // tiles.py:110: wide = px.maximum(px.minimum(self.band, heads * self.batches - first), 1)  (called at tiles.py:118)
      const int t_19 = ptx::wrap_sub(ptx::wrap_mul(heads_1, Q_size0), first_1);
      const int wide_1 = ptx::maximum<int>((ptx::minimum<int>(band, t_19)), 1);
      // tiles.py:111: place = t - first * rows  (called at tiles.py:118)
      const int place_2 = ptx::wrap_sub(t_14, ptx::wrap_mul(first_1, rows_1));
      // tiles.py:112: m, which = rows - 1 - place // wide, first + place % wide  (called at tiles.py:118)
      const int m_1 = ptx::wrap_sub(ptx::wrap_sub(rows_1, 1), (ptx::floor_div<int>(place_2, wide_1)));
      const int which_1 = ptx::wrap_add(first_1, (ptx::floor_mod<int>(place_2, wide_1)));
      // tiles.py:113: return px.maximum(which // heads, 0), which % heads, self.first_row(m, rows, self.queries)  (called at tiles.py:118)
      const int t_20 = ptx::maximum<int>((ptx::floor_div<int>(which_1, heads_1)), 0);
      // tiles.py:95: row = m * self.ROWS  (called at tiles.py:113)
      const int row_4 = ptx::wrap_mul(m_1, 128);
      // tiles.py:97: row = row + queries - rows * self.ROWS  (called at tiles.py:113)
      const int row_5 = ptx::wrap_sub(ptx::wrap_add(row_4, Q_size2), ptx::wrap_mul(rows_1, 128));
      // forward_tiles.py:103: tile.seek(turn)  (called at forward_tiles.py:349)
      filling = t_10 ? 0 : t_9;
      filling_parity = filling_parity ^ ((int)t_10);
      filling_1 = filling_3;
      filling_parity_1 = filling_parity_3;
      filling_2 = t_12 ? 0 : t_11;
      filling_parity_2 = filling_parity_4 ^ ((int)t_12);
      live = t_14 < t_16;
      batch_1 = t_20;
      head = ptx::floor_mod<int>(which_1, heads_1);
      row_2 = row_5;
      turn = turn_1;
    }
  } else if (px_warp_id >= 4) {  // warps 4 to 11, 2 copies
    const int px_copy = (px_warp_id - 4) / 4;
    const int px_warp = (px_warp_id - 4) % 4;
    const bool px_one = (px_warp_id - 4) % 4 == 0 && ptx::elect_sync();
    // forward_tiles.py:351: with px.warps(4, 4, regs=REGS, copies=GROUPS) as c:
    const int c = px_copy;
    // tiles.py:117: self.live = t < px.cdiv(self.queries, self.ROWS) * self.heads * self.batches  (called at tiles.py:63)
    const int t = ptx::wrap_add((Q_size2 >> 7), ((int)((Q_size2 & 127) != 0)));
    const int t_1 = ptx::wrap_mul(ptx::wrap_mul(t, Q_size1), Q_size0);
    // tiles.py:105: rows, heads = px.cdiv(px.keep(self.queries), self.ROWS), px.keep(self.heads)  (called at tiles.py:118)
    const int t_2 = ptx::keep_scalar(Q_size2);
    const int rows = ptx::wrap_add((t_2 >> 7), ((int)((t_2 & 127) != 0)));
    const int heads = ptx::keep_scalar(Q_size1);
    // tiles.py:109: first = t // (rows * self.band) * self.band  (called at tiles.py:118)
    const int t_3 = ptx::floor_div<int>(block_x, ptx::wrap_mul(rows, band));
    const int first = ptx::wrap_mul(t_3, band);
    // tiles.py:110: wide = px.maximum(px.minimum(self.band, heads * self.batches - first), 1)  (called at tiles.py:118)
    const int t_4 = ptx::wrap_sub(ptx::wrap_mul(heads, Q_size0), first);
    const int wide = ptx::maximum<int>((ptx::minimum<int>(band, t_4)), 1);
    // tiles.py:111: place = t - first * rows  (called at tiles.py:118)
    const int place = ptx::wrap_sub(block_x, ptx::wrap_mul(first, rows));
    // tiles.py:112: m, which = rows - 1 - place // wide, first + place % wide  (called at tiles.py:118)
    const int m = ptx::wrap_sub(ptx::wrap_sub(rows, 1), (ptx::floor_div<int>(place, wide)));
    // tiles.py:95: row = m * self.ROWS  (called at tiles.py:113)
    const int row = ptx::wrap_mul(m, 128);
    // tiles.py:97: row = row + queries - rows * self.ROWS  (called at tiles.py:113)
    const int row_1 = ptx::wrap_sub(ptx::wrap_add(row, Q_size2), ptx::wrap_mul(rows, 128));
    // forward_tiles.py:213: if tile.live:  (called at forward_tiles.py:360)
    if (block_x < t_1) {
      float o[8];
      unsigned p[8];
      float before_top[2];
      float before_sums[2];
      int before;
      int before_1;
      // forward_tiles.py:214: slot = b.queries.wait()  (called at forward_tiles.py:360)
      ptx::mbarrier_wait_parity(queries_full, 0);
      // scores.py:58: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py:59)
      // scores.py:38: return row + (self.keys - self.queries)  (called at scores.py:45)
      const int t_5 = ptx::wrap_add(ptx::wrap_add(row_1, 127), ptx::wrap_sub(K_size2, Q_size2));
      // scores.py:45: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py:58)
      const int end = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_5, right), 1)));
      // scores.py:58: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py:59)
      const int t_6 = ptx::maximum<int>(end, 0);
      const int high = ptx::wrap_add((t_6 >> 5), ((int)((t_6 & 31) != 0)));
      // scores.py:59: low = px.minimum(self.begin(first) // KEYS, high)  (called at forward_tiles.py:59)
      const int low = ptx::minimum<int>(0, high);
      // forward_tiles.py:60: low = px.maximum(px.minimum(low, high - 1), 0)  (called at forward_tiles.py:199)
      const int low_1 = ptx::maximum<int>((ptx::minimum<int>(low, ptx::wrap_sub(high, 1))), 0);
      // forward_tiles.py:61: found = low, px.maximum(high, low + 1)  (called at forward_tiles.py:199)
      const int high_1 = ptx::maximum<int>(high, ptx::wrap_add(low_1, 1));
      // forward_tiles.py:200: row = tile.row + self.c * b.ROWS  (called at forward_tiles.py:215)
      const int row_2 = ptx::wrap_add(row_1, ptx::wrap_mul(c, 64));
      // scores.py:58: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py:201)
      // scores.py:38: return row + (self.keys - self.queries)  (called at scores.py:45)
      const int t_7 = ptx::wrap_add(ptx::wrap_add(row_2, 63), ptx::wrap_sub(K_size2, Q_size2));
      // scores.py:45: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py:58)
      const int end_1 = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_7, right), 1)));
      // scores.py:58: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py:201)
      const int t_8 = ptx::maximum<int>(end_1, 0);
      const int high_2 = ptx::wrap_add((t_8 >> 5), ((int)((t_8 & 31) != 0)));
      // forward_tiles.py:202: mine = px.maximum(px.minimum(mine, high), low + 1) if self.SKIP else high  (called at forward_tiles.py:215)
      const int mine = ptx::maximum<int>((ptx::minimum<int>(high_2, high_1)), ptx::wrap_add(low_1, 1));
      // scores.py:38: return row + (self.keys - self.queries)  (called at scores.py:45)
      const int t_9 = ptx::wrap_add(row_2, ptx::wrap_sub(K_size2, Q_size2));
      // scores.py:45: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py:64)
      const int end_2 = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_9, right), 1)));
      // scores.py:64: high = px.maximum(self.end(first), 0) // KEYS  (called at forward_tiles.py:203)
      const int high_3 = (ptx::maximum<int>(end_2, 0)) >> 5;
      // scores.py:66: return low, px.maximum(low, high)  (called at forward_tiles.py:203)
      const int whole_high = ptx::maximum<int>(0, high_3);
      // forward_tiles.py:204: whole_high = px.maximum(px.minimum(whole_high, mine - 1), low)  (called at forward_tiles.py:215)
      const int t_10 = ptx::minimum<int>(whole_high, ptx::wrap_sub(mine, 1));
      const int whole_high_1 = ptx::maximum<int>(t_10, low_1);
      // forward_tiles.py:205: return low, mine, high - mine, px.minimum(px.maximum(whole_low, low), whole_high), whole_high  (called at forward_tiles.py:215)
      const int skipped = ptx::wrap_sub(high_1, mine);
      const int whole_low = ptx::minimum<int>((ptx::maximum<int>(0, low_1)), whole_high_1);
      // forward_tiles.py:161: for _ in range(count):  (called at forward_tiles.py:216)
      int taking = 0;
      int taking_parity = 0;
      #pragma unroll 1
      for (int t_11 = 0; t_11 < skipped; ++t_11) {
        // forward_tiles.py:162: pipe.wait()  (called at forward_tiles.py:216)
        ptx::mbarrier_wait_parity(keys_full + 8 * taking, taking_parity);
        // forward_tiles.py:163: pipe.release()  (called at forward_tiles.py:216)
        ptx::bar_sync_of<128>(1 + px_copy);  // all threads have passed the wait at line 162 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(keys_empty + 8 * taking);
        }
        const int t_12 = ptx::wrap_add(taking, 1);
        const bool t_13 = t_12 == 2;
        taking = t_13 ? 0 : t_12;
        taking_parity = taking_parity ^ ((int)t_13);
      }
      // forward_tiles.py:161: for _ in range(count):  (called at forward_tiles.py:216)
      // forward_tiles.py:137: stage = b.keys.wait()  (called at forward_tiles.py:217)
      ptx::mbarrier_wait_parity(keys_full + 8 * taking, taking_parity);
      // forward_tiles.py:138: s = px.empty((b.ROWS, b.KEYS), px.f32)  (called at forward_tiles.py:217)
      float s[16];
      // forward_tiles.py:139: px.wgmma(b.q[slot, self.c], b.k[stage].T, s, accumulate=False)  (called at forward_tiles.py:217)
      {
        const unsigned long long px_a = ptx::wgmma_descriptor(q_addr + c * 2048, 0xc000001000010000ull);
        const unsigned long long px_b = ptx::wgmma_descriptor(k_addr + taking * 1024, 0xc000001000010000ull);
        ptx::keep_float<16>(s);
        ptx::wgmma_fence_sync_aligned();
        ptx::wgmma_m64n32k16_f32_bf16_bf16(s, px_a, px_b, false);
      }
      // forward_tiles.py:140: px.wgmma_commit()  (called at forward_tiles.py:217)
      ptx::wgmma_commit_group_sync_aligned();
      // forward_tiles.py:218: px.wgmma_wait(0)  (called at forward_tiles.py:360)
      ptx::wgmma_wait_group_0();
      ptx::keep_float<16>(s);
      // forward_tiles.py:219: b.keys.release()  (called at forward_tiles.py:360)
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(keys_empty + 8 * taking);
      }
      const int t_11 = ptx::wrap_add(taking, 1);
      const bool t_12 = t_11 == 2;
      // forward_tiles.py:161: for _ in range(count):  (called at forward_tiles.py:222)
      int taking_1 = 0;
      int taking_parity_1 = 0;
      #pragma unroll 1
      for (int t_13 = 0; t_13 < skipped; ++t_13) {
        // forward_tiles.py:162: pipe.wait()  (called at forward_tiles.py:222)
        ptx::mbarrier_wait_parity(values_full + 8 * taking_1, taking_parity_1);
        // forward_tiles.py:163: pipe.release()  (called at forward_tiles.py:222)
        ptx::bar_sync_of<128>(1 + px_copy);  // all threads have passed the wait at line 162 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_1);
        }
        const int t_14 = ptx::wrap_add(taking_1, 1);
        const bool t_15 = t_14 == 2;
        taking_1 = t_15 ? 0 : t_14;
        taking_parity_1 = taking_parity_1 ^ ((int)t_15);
      }
      // forward_tiles.py:161: for _ in range(count):  (called at forward_tiles.py:222)
      // forward_tiles.py:223: s = self.finished(s, tile, (high - 1) * b.KEYS, True)  (called at forward_tiles.py:360)
      const int t_13 = ptx::wrap_mul(ptx::wrap_sub(mine, 1), 32);
      // forward_tiles.py:168: row = tile.row + self.c * b.ROWS  (called at forward_tiles.py:223)
      const int row_3 = ptx::wrap_add(row_1, ptx::wrap_mul(c, 64));
      // scores.py:75: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py:178)
      // scores.py:38: return row + (self.keys - self.queries)  (called at scores.py:75)
      const int t_14 = ptx::wrap_add(row_3, ptx::wrap_sub(K_size2, Q_size2));
      // scores.py:75: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py:178)
      const int t_15 = ptx::wrap_sub((ptx::wrap_add(ptx::wrap_add(t_14, right), 1)), t_13);
      // scores.py:71: columns = px.arange(KEYS).reshape(1, KEYS)  (called at forward_tiles.py:178)
      // scores.py:70: rows = px.arange(ROWS).reshape(ROWS, 1)  (called at forward_tiles.py:178)
      int t_16[2];
      {
        const int c0 = (px_lane >> 2) + px_warp * 16;
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          t_16[i] = c0 + i * 8;
        }
      }
      int rows_1[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) rows_1[i] = t_16[i];
      // scores.py:75: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py:178)
      int t_17[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_17[i] = ptx::wrap_add(t_15, rows_1[i]);
      int t_18[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_18[i] = ptx::minimum<int>(ptx::wrap_sub(K_size2, t_13), t_17[i]);
      bool ok[16];
      {
        const int c1 = (px_lane & 3) * 2;
        int limit[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) limit[i] = ptx::maximum<int>(t_18[i], -1) - c1;
        #pragma unroll
        for (int i = 0; i < 16; ++i) ok[i] = ((i & 1) + (i >> 2) * 8) < limit[(i >> 1) & 1];
      }
      // scores.py:78: return px.where(ok, s, NOTHING)  (called at forward_tiles.py:178)
      float s_1[16];
      #pragma unroll
      for (int i = 0; i < 16; ++i) s_1[i] = ok[i] ? s[i] : __int_as_float(0xff800000);
      // scores.py:133: highest = s[:, 0:8]  (called at scores.py:124)
      float highest[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) highest[i] = s_1[i];
      // scores.py:135: highest = px.maximum(highest, s[:, column : column + 8])  (called at scores.py:124)
      float t_19[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) t_19[i] = s_1[i + 4];
      float highest_1[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) highest_1[i] = ptx::max_NaN_f32(highest[i], t_19[i]);
      float t_20[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) t_20[i] = s_1[i + 8];
      float highest_2[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) highest_2[i] = ptx::max_NaN_f32(highest_1[i], t_20[i]);
      float t_21[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) t_21[i] = s_1[i + 12];
      float highest_3[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) highest_3[i] = ptx::max_NaN_f32(highest_2[i], t_21[i]);
      // scores.py:136: return px.max(highest, axis=1)  (called at scores.py:124)
      float highest_max[2];
      {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          highest_max[i] = __int_as_float(0xff800000);
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          highest_max[i >> 1] = ptx::max_NaN_f32(highest_max[i >> 1], highest_3[i]);
        }
        #pragma unroll
        for (int mask = 1; mask <= 2; mask *= 2) {
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            highest_max[i] = ptx::max_NaN_f32(highest_max[i], ptx::shuffle_xor(highest_max[i], mask));
          }
        }
      }
      float t_22[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_22[i] = highest_max[i];
      // scores.py:124: top = shifted(row_maxima(s, ROWS, KEYS) * factor, SHIFT)  (called at forward_tiles.py:224)
      float top[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) top[i] = t_22[i] * factor;
      // scores.py:125: base = px.where(top == NOTHING, 0.0, top) if EMPTY else top  (called at forward_tiles.py:224)
      bool t_23[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_23[i] = top[i] == __int_as_float(0xff800000);
      float base[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) base[i] = t_23[i] ? 0.0f : top[i];
      // scores.py:126: p = px.exp2(px.fma(s, factor, -base.reshape(ROWS, 1)))  (called at forward_tiles.py:224)
      float t_24[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_24[i] = base[i];
      float t_25[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_25[i] = -t_24[i];
      float t_26[16];
      #pragma unroll
      for (int i = 0; i < 16; ++i) t_26[i] = fmaf(s_1[i], factor, t_25[(i >> 1) & 1]);
      float p_1[16];
      #pragma unroll
      for (int i = 0; i < 16; ++i) p_1[i] = ptx::exp2_approx(t_26[i]);
      // scores.py:142: eights = px.sum(p.reshape(ROWS, KEYS // 8, 8), axis=1)  (called at scores.py:127)
      float t_27[16];
      #pragma unroll
      for (int i = 0; i < 16; ++i) t_27[i] = p_1[i];
      float eights_sum[4];
      {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          eights_sum[i & 3] = t_27[i];
        }
        #pragma unroll
        for (int i = 4; i < 16; ++i) {
          eights_sum[i & 3] = eights_sum[i & 3] + t_27[i];
        }
      }
      float eights[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) eights[i] = eights_sum[i];
      // scores.py:143: return px.sum(eights.reshape(ROWS, 4, 2), axis=2)  (called at scores.py:127)
      float t_28[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) t_28[i] = eights[i];
      float sums_sum[2];
      {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          sums_sum[i] = 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          sums_sum[i >> 1] = sums_sum[i >> 1] + t_28[i];
        }
      }
      float sums[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) sums[i] = sums_sum[i];
      // forward_tiles.py:156: return (in_order_of_registers(powers, b.ROWS, b.KEYS) if b.NARROW else powers).to(self.TYPE)  (called at forward_tiles.py:225)
      px_bf16 p_2[16];
      #pragma unroll
      for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_2 + i, p_1[i], p_1[i + 1]);
      // forward_tiles.py:226: while True:  (called at forward_tiles.py:360)
      int taking_2 = 0;
      int taking_parity_2 = 0;
      int taking_3 = t_12 ? 0 : t_11;
      int taking_parity_3 = taking_parity ^ ((int)t_12);
      int taking_4 = taking_1;
      int taking_parity_4 = taking_parity_1;
      int row_4 = row_1;
      int turn = 0;
      int slot = 0;
      int high_4 = mine;
      int whole_low_1 = whole_low;
      int whole_high_2 = whole_high_1;
      float s_2[16];
      #pragma unroll
      for (int px_r = 0; px_r < 16; ++px_r) s_2[px_r] = s_1[px_r];
      // forward_tiles.py:225: state = px.zeros((b.ROWS, b.WIDE), px.f32), self.operand(powers), top, sums  (called at forward_tiles.py:360)
      float o_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) o_1[i] = 0.0f;
      // forward_tiles.py:226: while True:  (called at forward_tiles.py:360)
      float state_0[8];
      #pragma unroll
      for (int px_r = 0; px_r < 8; ++px_r) state_0[px_r] = o_1[px_r];
      unsigned state_1[8];
      ptx::pack_words<16>(state_1, p_2);
      float state_2[2];
      #pragma unroll
      for (int px_r = 0; px_r < 2; ++px_r) state_2[px_r] = top[px_r];
      float state_3[2];
      #pragma unroll
      for (int px_r = 0; px_r < 2; ++px_r) state_3[px_r] = sums[px_r];
      while (true) {
        const int turn_1 = turn;
        px_bf16 state_1_1[16];
        ptx::unpack_words<16>(state_1_1, state_1);
        if (!true) break;
        // forward_tiles.py:228: for j in range(high - 2, whole_high - 1, -1):  (called at forward_tiles.py:360)
        int taking_5 = taking_3;
        int taking_parity_5 = taking_parity_3;
        int taking_6 = taking_4;
        int taking_parity_6 = taking_parity_4;
        float s_3[16];
        #pragma unroll
        for (int px_r = 0; px_r < 16; ++px_r) s_3[px_r] = s_2[px_r];
        float state_0_1[8];
        #pragma unroll
        for (int px_r = 0; px_r < 8; ++px_r) state_0_1[px_r] = state_0[px_r];
        unsigned state_1_2[8];
        ptx::pack_words<16>(state_1_2, state_1_1);
        float state_2_1[2];
        #pragma unroll
        for (int px_r = 0; px_r < 2; ++px_r) state_2_1[px_r] = state_2[px_r];
        float state_3_1[2];
        #pragma unroll
        for (int px_r = 0; px_r < 2; ++px_r) state_3_1[px_r] = state_3[px_r];
        const unsigned long long q_first = ptx::wgmma_descriptor(q_addr + slot * 4096 + c * 2048, 0xc000001000010000ull);  // the same in every turn
        unsigned long long q_steps[1] = {q_first};
        ptx::hold_descriptors<1>(q_steps);
        #pragma unroll 1
        for (int j = ptx::wrap_sub(high_4, 2); j > ptx::wrap_sub(whole_high_2, 1); --j) {
          px_bf16 state_1_3[16];
          ptx::unpack_words<16>(state_1_3, state_1_2);
          // forward_tiles.py:137: stage = b.keys.wait()  (called at forward_tiles.py:184)
          ptx::mbarrier_wait_parity(keys_full + 8 * taking_5, taking_parity_5);
          // forward_tiles.py:138: s = px.empty((b.ROWS, b.KEYS), px.f32)  (called at forward_tiles.py:184)
          float s_4[16];
          // forward_tiles.py:139: px.wgmma(b.q[slot, self.c], b.k[stage].T, s, accumulate=False)  (called at forward_tiles.py:184)
          {
            const unsigned long long px_b = ptx::wgmma_descriptor(k_addr + taking_5 * 1024, 0xc000001000010000ull);
            ptx::keep_float<16>(s_4);
            ptx::wgmma_fence_sync_aligned();
            ptx::wgmma_m64n32k16_f32_bf16_bf16(s_4, q_steps[0], px_b, false);
          }
          // forward_tiles.py:140: px.wgmma_commit()  (called at forward_tiles.py:184)
          ptx::wgmma_commit_group_sync_aligned();
          // forward_tiles.py:146: stage = b.values.wait()  (called at forward_tiles.py:185)
          ptx::mbarrier_wait_parity(values_full + 8 * taking_6, taking_parity_6);
          // forward_tiles.py:147: px.wgmma(p, b.v[stage].T if b.NARROW else b.v[stage], o)  (called at forward_tiles.py:185)
          {
            unsigned px_a[8];
            ptx::pack_words<16>(px_a, state_1_3);
            const unsigned long long px_b = ptx::wgmma_descriptor(v_addr + taking_6 * 1024, 0xc000001000400000ull);
            ptx::wgmma_fence_sync_aligned();
            ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_tb(state_0_1, px_a, px_b, true);
            ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_tb(state_0_1, px_a + 4, px_b + 32, true);
          }
          // forward_tiles.py:148: px.wgmma_commit()  (called at forward_tiles.py:185)
          ptx::wgmma_commit_group_sync_aligned();
          // forward_tiles.py:186: px.wgmma_wait(1)  (called at forward_tiles.py:229)
          ptx::wgmma_wait_group_1();
          ptx::keep_float<16>(s_4);
          // forward_tiles.py:187: b.keys.release()  (called at forward_tiles.py:229)
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(keys_empty + 8 * taking_5);
          }
          const int t_29 = ptx::wrap_add(taking_5, 1);
          const bool t_30 = t_29 == 2;
          // forward_tiles.py:188: s = self.finished(s, tile, j * b.KEYS, MASKED)  (called at forward_tiles.py:229)
          const int t_31 = ptx::wrap_mul(j, 32);
          // forward_tiles.py:168: row = tile.row + self.c * b.ROWS  (called at forward_tiles.py:188)
          const int row_5 = ptx::wrap_add(row_4, ptx::wrap_mul(c, 64));
          // scores.py:75: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py:178)
          // scores.py:38: return row + (self.keys - self.queries)  (called at scores.py:75)
          const int t_32 = ptx::wrap_add(row_5, ptx::wrap_sub(K_size2, Q_size2));
          // scores.py:75: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py:178)
          const int t_33 = ptx::wrap_sub((ptx::wrap_add(ptx::wrap_add(t_32, right), 1)), t_31);
          // scores.py:71: columns = px.arange(KEYS).reshape(1, KEYS)  (called at forward_tiles.py:178)
          // scores.py:70: rows = px.arange(ROWS).reshape(ROWS, 1)  (called at forward_tiles.py:178)
          int t_34[2];
          {
            const int c0 = (px_lane >> 2) + px_warp * 16;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              t_34[i] = c0 + i * 8;
            }
          }
          int rows_2[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) rows_2[i] = t_34[i];
          // scores.py:75: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py:178)
          int t_35[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_35[i] = ptx::wrap_add(t_33, rows_2[i]);
          int t_36[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_36[i] = ptx::minimum<int>(ptx::wrap_sub(K_size2, t_31), t_35[i]);
          bool ok_1[16];
          {
            const int c1 = (px_lane & 3) * 2;
            int limit[2];
            #pragma unroll
            for (int i = 0; i < 2; ++i) limit[i] = ptx::maximum<int>(t_36[i], -1) - c1;
            #pragma unroll
            for (int i = 0; i < 16; ++i) ok_1[i] = ((i & 1) + (i >> 2) * 8) < limit[(i >> 1) & 1];
          }
          // scores.py:78: return px.where(ok, s, NOTHING)  (called at forward_tiles.py:178)
          float s_5[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) s_5[i] = ok_1[i] ? s_4[i] : __int_as_float(0xff800000);
          // scores.py:133: highest = s[:, 0:8]  (called at scores.py:103)
          float highest_4[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) highest_4[i] = s_5[i];
          // scores.py:135: highest = px.maximum(highest, s[:, column : column + 8])  (called at scores.py:103)
          float t_37[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) t_37[i] = s_5[i + 4];
          float highest_5[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) highest_5[i] = ptx::max_NaN_f32(highest_4[i], t_37[i]);
          float t_38[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) t_38[i] = s_5[i + 8];
          float highest_6[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) highest_6[i] = ptx::max_NaN_f32(highest_5[i], t_38[i]);
          float t_39[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) t_39[i] = s_5[i + 12];
          float highest_7[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) highest_7[i] = ptx::max_NaN_f32(highest_6[i], t_39[i]);
          // scores.py:136: return px.max(highest, axis=1)  (called at scores.py:103)
          float highest_max_1[2];
          {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              highest_max_1[i] = __int_as_float(0xff800000);
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              highest_max_1[i >> 1] = ptx::max_NaN_f32(highest_max_1[i >> 1], highest_7[i]);
            }
            #pragma unroll
            for (int mask = 1; mask <= 2; mask *= 2) {
              #pragma unroll
              for (int i = 0; i < 2; ++i) {
                highest_max_1[i] = ptx::max_NaN_f32(highest_max_1[i], ptx::shuffle_xor(highest_max_1[i], mask));
              }
            }
          }
          float t_40[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_40[i] = highest_max_1[i];
          // scores.py:103: highest = shifted(row_maxima(s, ROWS, KEYS) * factor, SHIFT)  (called at forward_tiles.py:190)
          float highest_8[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) highest_8[i] = t_40[i] * factor;
          // scores.py:105: new = px.where(highest <= top + SLACK, top, highest)  (called at forward_tiles.py:190)
          float t_41[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_41[i] = state_2_1[i] + 8.0f;
          bool t_42[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_42[i] = highest_8[i] <= t_41[i];
          float v_new[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) v_new[i] = t_42[i] ? state_2_1[i] : highest_8[i];
          // scores.py:108: base = px.where(new == NOTHING, 0.0, new) if EMPTY else new  (called at forward_tiles.py:190)
          bool t_43[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_43[i] = v_new[i] == __int_as_float(0xff800000);
          float base_1[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) base_1[i] = t_43[i] ? 0.0f : v_new[i];
          // scores.py:109: alpha = px.exp2(top - base)  (called at forward_tiles.py:190)
          float t_44[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_44[i] = state_2_1[i] - base_1[i];
          float alpha[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) alpha[i] = ptx::exp2_approx(t_44[i]);
          // scores.py:110: p = px.exp2(px.fma(s, factor, -base.reshape(ROWS, 1)))  (called at forward_tiles.py:190)
          float t_45[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_45[i] = base_1[i];
          float t_46[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_46[i] = -t_45[i];
          float t_47[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_47[i] = fmaf(s_5[i], factor, t_46[(i >> 1) & 1]);
          float p_3[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) p_3[i] = ptx::exp2_approx(t_47[i]);
          // scores.py:111: sums = sums * alpha.reshape(ROWS, 1) + partial_sums(p, ROWS, KEYS)  (called at forward_tiles.py:190)
          float t_48[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_48[i] = alpha[i];
          float t_49[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_49[i] = state_3_1[i] * t_48[i];
          // scores.py:142: eights = px.sum(p.reshape(ROWS, KEYS // 8, 8), axis=1)  (called at scores.py:111)
          float t_50[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_50[i] = p_3[i];
          float eights_sum_1[4];
          {
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              eights_sum_1[i & 3] = t_50[i];
            }
            #pragma unroll
            for (int i = 4; i < 16; ++i) {
              eights_sum_1[i & 3] = eights_sum_1[i & 3] + t_50[i];
            }
          }
          float eights_1[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) eights_1[i] = eights_sum_1[i];
          // scores.py:143: return px.sum(eights.reshape(ROWS, 4, 2), axis=2)  (called at scores.py:111)
          float t_51[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) t_51[i] = eights_1[i];
          float t_sum[2];
          {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              t_sum[i] = 0.0f;
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              t_sum[i >> 1] = t_sum[i >> 1] + t_51[i];
            }
          }
          float t_52[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_52[i] = t_sum[i];
          // scores.py:111: sums = sums * alpha.reshape(ROWS, 1) + partial_sums(p, ROWS, KEYS)  (called at forward_tiles.py:190)
          float sums_1[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) sums_1[i] = t_49[i] + t_52[i];
          // forward_tiles.py:191: px.wgmma_wait(0)  (called at forward_tiles.py:229)
          ptx::finish(ptx::fold_bits<2>(sums_1), px_never, px_base);
          ptx::wgmma_wait_group_0();
          ptx::keep_float<16>(s_3);
          ptx::keep_float<8>(state_0_1);
          // forward_tiles.py:192: b.values.release()  (called at forward_tiles.py:229)
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_6);
          }
          const int t_53 = ptx::wrap_add(taking_6, 1);
          const bool t_54 = t_53 == 2;
          // forward_tiles.py:193: o = px.multiply(o, alpha.reshape(b.ROWS, 1), skip_ones=self.SLACK > 0)  (called at forward_tiles.py:229)
          float t_55[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_55[i] = alpha[i];
          float o_2[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) o_2[i] = state_0_1[i];
          {
            bool some = false;
            #pragma unroll
            for (int i = 0; i < 2; ++i) some |= t_55[i] != 1.0f;
            if (__any_sync(0xffffffffu, some)) {
              #pragma unroll
              for (int i = 0; i < 8; ++i) o_2[i] = o_2[i] * t_55[(i >> 1) & 1];
            }
          }
          // forward_tiles.py:156: return (in_order_of_registers(powers, b.ROWS, b.KEYS) if b.NARROW else powers).to(self.TYPE)  (called at forward_tiles.py:194)
          px_bf16 p_4[16];
          #pragma unroll
          for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_4 + i, p_3[i], p_3[i + 1]);
          // forward_tiles.py:229: state = self.step(state, tile, slot, j, True)  (called at forward_tiles.py:360)
          taking_5 = t_30 ? 0 : t_29;
          taking_parity_5 = taking_parity_5 ^ ((int)t_30);
          taking_6 = t_54 ? 0 : t_53;
          taking_parity_6 = taking_parity_6 ^ ((int)t_54);
          #pragma unroll
          for (int px_r = 0; px_r < 8; ++px_r) state_0_1[px_r] = o_2[px_r];
          ptx::pack_words<16>(state_1_2, p_4);
          #pragma unroll
          for (int px_r = 0; px_r < 2; ++px_r) state_2_1[px_r] = v_new[px_r];
          #pragma unroll
          for (int px_r = 0; px_r < 2; ++px_r) state_3_1[px_r] = sums_1[px_r];
        }
        // forward_tiles.py:228: for j in range(high - 2, whole_high - 1, -1):  (called at forward_tiles.py:360)
        px_bf16 state_1_3[16];
        ptx::unpack_words<16>(state_1_3, state_1_2);
        // forward_tiles.py:230: for j in range(whole_high - 1, whole_low - 1, -1):  (called at forward_tiles.py:360)
        int taking_7 = taking_5;
        int taking_parity_7 = taking_parity_5;
        int taking_8 = taking_6;
        int taking_parity_8 = taking_parity_6;
        float s_4[16];
        #pragma unroll
        for (int px_r = 0; px_r < 16; ++px_r) s_4[px_r] = s_3[px_r];
        float state_0_2[8];
        #pragma unroll
        for (int px_r = 0; px_r < 8; ++px_r) state_0_2[px_r] = state_0_1[px_r];
        unsigned state_1_4[8];
        ptx::pack_words<16>(state_1_4, state_1_3);
        float state_2_2[2];
        #pragma unroll
        for (int px_r = 0; px_r < 2; ++px_r) state_2_2[px_r] = state_2_1[px_r];
        float state_3_2[2];
        #pragma unroll
        for (int px_r = 0; px_r < 2; ++px_r) state_3_2[px_r] = state_3_1[px_r];
        const unsigned long long q_first_1 = ptx::wgmma_descriptor(q_addr + slot * 4096 + c * 2048, 0xc000001000010000ull);  // the same in every turn
        unsigned long long q_steps_1[1] = {q_first_1};
        ptx::hold_descriptors<1>(q_steps_1);
        #pragma unroll 1
        for (int j = ptx::wrap_sub(whole_high_2, 1); j > ptx::wrap_sub(whole_low_1, 1); --j) {
          px_bf16 state_1_5[16];
          ptx::unpack_words<16>(state_1_5, state_1_4);
          // forward_tiles.py:137: stage = b.keys.wait()  (called at forward_tiles.py:184)
          ptx::mbarrier_wait_parity(keys_full + 8 * taking_7, taking_parity_7);
          // forward_tiles.py:138: s = px.empty((b.ROWS, b.KEYS), px.f32)  (called at forward_tiles.py:184)
          float s_5[16];
          // forward_tiles.py:139: px.wgmma(b.q[slot, self.c], b.k[stage].T, s, accumulate=False)  (called at forward_tiles.py:184)
          {
            const unsigned long long px_b = ptx::wgmma_descriptor(k_addr + taking_7 * 1024, 0xc000001000010000ull);
            ptx::keep_float<16>(s_5);
            ptx::wgmma_fence_sync_aligned();
            ptx::wgmma_m64n32k16_f32_bf16_bf16(s_5, q_steps_1[0], px_b, false);
          }
          // forward_tiles.py:140: px.wgmma_commit()  (called at forward_tiles.py:184)
          ptx::wgmma_commit_group_sync_aligned();
          // forward_tiles.py:146: stage = b.values.wait()  (called at forward_tiles.py:185)
          ptx::mbarrier_wait_parity(values_full + 8 * taking_8, taking_parity_8);
          // forward_tiles.py:147: px.wgmma(p, b.v[stage].T if b.NARROW else b.v[stage], o)  (called at forward_tiles.py:185)
          {
            unsigned px_a[8];
            ptx::pack_words<16>(px_a, state_1_5);
            const unsigned long long px_b = ptx::wgmma_descriptor(v_addr + taking_8 * 1024, 0xc000001000400000ull);
            ptx::wgmma_fence_sync_aligned();
            ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_tb(state_0_2, px_a, px_b, true);
            ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_tb(state_0_2, px_a + 4, px_b + 32, true);
          }
          // forward_tiles.py:148: px.wgmma_commit()  (called at forward_tiles.py:185)
          ptx::wgmma_commit_group_sync_aligned();
          // forward_tiles.py:186: px.wgmma_wait(1)  (called at forward_tiles.py:231)
          ptx::wgmma_wait_group_1();
          ptx::keep_float<16>(s_5);
          // forward_tiles.py:187: b.keys.release()  (called at forward_tiles.py:231)
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(keys_empty + 8 * taking_7);
          }
          const int t_29 = ptx::wrap_add(taking_7, 1);
          const bool t_30 = t_29 == 2;
          // scores.py:133: highest = s[:, 0:8]  (called at scores.py:103)
          float highest_4[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) highest_4[i] = s_5[i];
          // scores.py:135: highest = px.maximum(highest, s[:, column : column + 8])  (called at scores.py:103)
          float t_31[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) t_31[i] = s_5[i + 4];
          float highest_5[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) highest_5[i] = ptx::max_NaN_f32(highest_4[i], t_31[i]);
          float t_32[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) t_32[i] = s_5[i + 8];
          float highest_6[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) highest_6[i] = ptx::max_NaN_f32(highest_5[i], t_32[i]);
          float t_33[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) t_33[i] = s_5[i + 12];
          float highest_7[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) highest_7[i] = ptx::max_NaN_f32(highest_6[i], t_33[i]);
          // scores.py:136: return px.max(highest, axis=1)  (called at scores.py:103)
          float highest_max_1[2];
          {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              highest_max_1[i] = __int_as_float(0xff800000);
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              highest_max_1[i >> 1] = ptx::max_NaN_f32(highest_max_1[i >> 1], highest_7[i]);
            }
            #pragma unroll
            for (int mask = 1; mask <= 2; mask *= 2) {
              #pragma unroll
              for (int i = 0; i < 2; ++i) {
                highest_max_1[i] = ptx::max_NaN_f32(highest_max_1[i], ptx::shuffle_xor(highest_max_1[i], mask));
              }
            }
          }
          float t_34[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_34[i] = highest_max_1[i];
          // scores.py:103: highest = shifted(row_maxima(s, ROWS, KEYS) * factor, SHIFT)  (called at forward_tiles.py:190)
          float highest_8[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) highest_8[i] = t_34[i] * factor;
          // scores.py:105: new = px.where(highest <= top + SLACK, top, highest)  (called at forward_tiles.py:190)
          float t_35[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_35[i] = state_2_2[i] + 8.0f;
          bool t_36[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_36[i] = highest_8[i] <= t_35[i];
          float v_new[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) v_new[i] = t_36[i] ? state_2_2[i] : highest_8[i];
          // scores.py:109: alpha = px.exp2(top - base)  (called at forward_tiles.py:190)
          float t_37[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_37[i] = state_2_2[i] - v_new[i];
          float alpha[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) alpha[i] = ptx::exp2_approx(t_37[i]);
          // scores.py:110: p = px.exp2(px.fma(s, factor, -base.reshape(ROWS, 1)))  (called at forward_tiles.py:190)
          float t_38[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_38[i] = v_new[i];
          float t_39[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_39[i] = -t_38[i];
          float t_40[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_40[i] = fmaf(s_5[i], factor, t_39[(i >> 1) & 1]);
          float p_3[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) p_3[i] = ptx::exp2_approx(t_40[i]);
          // scores.py:111: sums = sums * alpha.reshape(ROWS, 1) + partial_sums(p, ROWS, KEYS)  (called at forward_tiles.py:190)
          float t_41[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_41[i] = alpha[i];
          float t_42[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_42[i] = state_3_2[i] * t_41[i];
          // scores.py:142: eights = px.sum(p.reshape(ROWS, KEYS // 8, 8), axis=1)  (called at scores.py:111)
          float t_43[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_43[i] = p_3[i];
          float eights_sum_1[4];
          {
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              eights_sum_1[i & 3] = t_43[i];
            }
            #pragma unroll
            for (int i = 4; i < 16; ++i) {
              eights_sum_1[i & 3] = eights_sum_1[i & 3] + t_43[i];
            }
          }
          float eights_1[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) eights_1[i] = eights_sum_1[i];
          // scores.py:143: return px.sum(eights.reshape(ROWS, 4, 2), axis=2)  (called at scores.py:111)
          float t_44[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) t_44[i] = eights_1[i];
          float t_sum[2];
          {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              t_sum[i] = 0.0f;
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              t_sum[i >> 1] = t_sum[i >> 1] + t_44[i];
            }
          }
          float t_45[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_45[i] = t_sum[i];
          // scores.py:111: sums = sums * alpha.reshape(ROWS, 1) + partial_sums(p, ROWS, KEYS)  (called at forward_tiles.py:190)
          float sums_1[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) sums_1[i] = t_42[i] + t_45[i];
          // forward_tiles.py:191: px.wgmma_wait(0)  (called at forward_tiles.py:231)
          ptx::finish(ptx::fold_bits<2>(sums_1), px_never, px_base);
          ptx::wgmma_wait_group_0();
          ptx::keep_float<16>(s_4);
          ptx::keep_float<8>(state_0_2);
          // forward_tiles.py:192: b.values.release()  (called at forward_tiles.py:231)
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_8);
          }
          const int t_46 = ptx::wrap_add(taking_8, 1);
          const bool t_47 = t_46 == 2;
          // forward_tiles.py:193: o = px.multiply(o, alpha.reshape(b.ROWS, 1), skip_ones=self.SLACK > 0)  (called at forward_tiles.py:231)
          float t_48[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) t_48[i] = alpha[i];
          float o_2[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) o_2[i] = state_0_2[i];
          {
            bool some = false;
            #pragma unroll
            for (int i = 0; i < 2; ++i) some |= t_48[i] != 1.0f;
            if (__any_sync(0xffffffffu, some)) {
              #pragma unroll
              for (int i = 0; i < 8; ++i) o_2[i] = o_2[i] * t_48[(i >> 1) & 1];
            }
          }
          // forward_tiles.py:156: return (in_order_of_registers(powers, b.ROWS, b.KEYS) if b.NARROW else powers).to(self.TYPE)  (called at forward_tiles.py:194)
          px_bf16 p_4[16];
          #pragma unroll
          for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_4 + i, p_3[i], p_3[i + 1]);
          // forward_tiles.py:231: state = self.step(state, tile, slot, j, False)  (called at forward_tiles.py:360)
          taking_7 = t_30 ? 0 : t_29;
          taking_parity_7 = taking_parity_7 ^ ((int)t_30);
          taking_8 = t_47 ? 0 : t_46;
          taking_parity_8 = taking_parity_8 ^ ((int)t_47);
          #pragma unroll
          for (int px_r = 0; px_r < 8; ++px_r) state_0_2[px_r] = o_2[px_r];
          ptx::pack_words<16>(state_1_4, p_4);
          #pragma unroll
          for (int px_r = 0; px_r < 2; ++px_r) state_2_2[px_r] = v_new[px_r];
          #pragma unroll
          for (int px_r = 0; px_r < 2; ++px_r) state_3_2[px_r] = sums_1[px_r];
        }
        // forward_tiles.py:230: for j in range(whole_high - 1, whole_low - 1, -1):  (called at forward_tiles.py:360)
        px_bf16 state_1_5[16];
        ptx::unpack_words<16>(state_1_5, state_1_4);
        // forward_tiles.py:239: turn += 1  (called at forward_tiles.py:360)
        const int turn_2 = ptx::wrap_add(turn_1, 1);
        // tiles.py:55: place = px.where(turn % 2 == 0, place, count - 1 - place)  (called at tiles.py:63)
        const int t_29 = ptx::wrap_sub(ptx::wrap_sub(blocks_x, 1), block_x);
        const int place_1 = ((turn_2 & 1) == 0) ? block_x : t_29;
        // tiles.py:56: return turn * count + place  (called at tiles.py:63)
        const int t_30 = ptx::wrap_add(ptx::wrap_mul(turn_2, blocks_x), place_1);
        // tiles.py:117: self.live = t < px.cdiv(self.queries, self.ROWS) * self.heads * self.batches  (called at tiles.py:63)
        const int t_31 = ptx::wrap_add((Q_size2 >> 7), ((int)((Q_size2 & 127) != 0)));
        const int t_32 = ptx::wrap_mul(ptx::wrap_mul(t_31, Q_size1), Q_size0);
        // tiles.py:105: rows, heads = px.cdiv(px.keep(self.queries), self.ROWS), px.keep(self.heads)  (called at tiles.py:118)
        const int t_33 = ptx::keep_scalar(Q_size2);
        const int rows_2 = ptx::wrap_add((t_33 >> 7), ((int)((t_33 & 127) != 0)));
        const int heads_1 = ptx::keep_scalar(Q_size1);
        // tiles.py:109: first = t // (rows * self.band) * self.band  (called at tiles.py:118)
        const int t_34 = ptx::floor_div<int>(t_30, ptx::wrap_mul(rows_2, band));
        const int first_1 = ptx::wrap_mul(t_34, band);
        // tiles.py:110: wide = px.maximum(px.minimum(self.band, heads * self.batches - first), 1)  (called at tiles.py:118)
        const int t_35 = ptx::wrap_sub(ptx::wrap_mul(heads_1, Q_size0), first_1);
        const int wide_1 = ptx::maximum<int>((ptx::minimum<int>(band, t_35)), 1);
        // tiles.py:111: place = t - first * rows  (called at tiles.py:118)
        const int place_2 = ptx::wrap_sub(t_30, ptx::wrap_mul(first_1, rows_2));
        // tiles.py:112: m, which = rows - 1 - place // wide, first + place % wide  (called at tiles.py:118)
        const int m_1 = ptx::wrap_sub(ptx::wrap_sub(rows_2, 1), (ptx::floor_div<int>(place_2, wide_1)));
        // tiles.py:95: row = m * self.ROWS  (called at tiles.py:113)
        const int row_5 = ptx::wrap_mul(m_1, 128);
        // tiles.py:97: row = row + queries - rows * self.ROWS  (called at tiles.py:113)
        const int row_6 = ptx::wrap_sub(ptx::wrap_add(row_5, Q_size2), ptx::wrap_mul(rows_2, 128));
        // forward_tiles.py:241: if not tile.live:  (called at forward_tiles.py:360)
        if (!(t_30 < t_32)) {
          // forward_tiles.py:226: while True:  (called at forward_tiles.py:360)
          taking_3 = taking_7;
          taking_parity_3 = taking_parity_7;
          taking_4 = taking_8;
          taking_parity_4 = taking_parity_8;
          row_4 = row_6;
          turn = turn_2;
          #pragma unroll
          for (int px_r = 0; px_r < 16; ++px_r) s_2[px_r] = s_4[px_r];
          #pragma unroll
          for (int px_r = 0; px_r < 8; ++px_r) state_0[px_r] = state_0_2[px_r];
          ptx::pack_words<16>(state_1, state_1_5);
          #pragma unroll
          for (int px_r = 0; px_r < 2; ++px_r) state_2[px_r] = state_2_2[px_r];
          #pragma unroll
          for (int px_r = 0; px_r < 2; ++px_r) state_3[px_r] = state_3_2[px_r];
          #pragma unroll
          for (int px_r = 0; px_r < 8; ++px_r) o[px_r] = state_0_2[px_r];
          ptx::pack_words<16>(p, state_1_5);
          #pragma unroll
          for (int px_r = 0; px_r < 2; ++px_r) before_top[px_r] = state_2_2[px_r];
          #pragma unroll
          for (int px_r = 0; px_r < 2; ++px_r) before_sums[px_r] = state_3_2[px_r];
          before = turn_1;
          before_1 = slot;
          // forward_tiles.py:242: break  (called at forward_tiles.py:360)
          break;
        }
        // forward_tiles.py:243: slot = b.queries.wait()  (called at forward_tiles.py:360)
        const int t_36 = ptx::wrap_add(taking_2, 1);
        const bool t_37 = t_36 >= 2;
        const int slot_1 = t_37 ? ptx::wrap_sub(t_36, 2) : t_36;
        ptx::mbarrier_wait_parity(queries_full + 8 * slot_1, taking_parity_2 ^ ((int)t_37));
        // scores.py:58: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py:59)
        // scores.py:38: return row + (self.keys - self.queries)  (called at scores.py:45)
        const int t_38 = ptx::wrap_add(ptx::wrap_add(row_6, 127), ptx::wrap_sub(K_size2, Q_size2));
        // scores.py:45: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py:58)
        const int end_3 = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_38, right), 1)));
        // scores.py:58: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py:59)
        const int t_39 = ptx::maximum<int>(end_3, 0);
        const int high_5 = ptx::wrap_add((t_39 >> 5), ((int)((t_39 & 31) != 0)));
        // scores.py:59: low = px.minimum(self.begin(first) // KEYS, high)  (called at forward_tiles.py:59)
        const int low_2 = ptx::minimum<int>(0, high_5);
        // forward_tiles.py:60: low = px.maximum(px.minimum(low, high - 1), 0)  (called at forward_tiles.py:199)
        const int t_40 = ptx::minimum<int>(low_2, ptx::wrap_sub(high_5, 1));
        const int low_3 = ptx::maximum<int>(t_40, 0);
        // forward_tiles.py:61: found = low, px.maximum(high, low + 1)  (called at forward_tiles.py:199)
        const int high_6 = ptx::maximum<int>(high_5, ptx::wrap_add(low_3, 1));
        // forward_tiles.py:200: row = tile.row + self.c * b.ROWS  (called at forward_tiles.py:244)
        const int row_7 = ptx::wrap_add(row_6, ptx::wrap_mul(c, 64));
        // scores.py:58: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py:201)
        // scores.py:38: return row + (self.keys - self.queries)  (called at scores.py:45)
        const int t_41 = ptx::wrap_add(ptx::wrap_add(row_7, 63), ptx::wrap_sub(K_size2, Q_size2));
        // scores.py:45: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py:58)
        const int end_4 = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_41, right), 1)));
        // scores.py:58: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py:201)
        const int t_42 = ptx::maximum<int>(end_4, 0);
        const int high_7 = ptx::wrap_add((t_42 >> 5), ((int)((t_42 & 31) != 0)));
        // forward_tiles.py:202: mine = px.maximum(px.minimum(mine, high), low + 1) if self.SKIP else high  (called at forward_tiles.py:244)
        const int mine_1 = ptx::maximum<int>((ptx::minimum<int>(high_7, high_6)), ptx::wrap_add(low_3, 1));
        // scores.py:38: return row + (self.keys - self.queries)  (called at scores.py:45)
        const int t_43 = ptx::wrap_add(row_7, ptx::wrap_sub(K_size2, Q_size2));
        // scores.py:45: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py:64)
        const int end_5 = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_43, right), 1)));
        // scores.py:64: high = px.maximum(self.end(first), 0) // KEYS  (called at forward_tiles.py:203)
        const int high_8 = (ptx::maximum<int>(end_5, 0)) >> 5;
        // scores.py:66: return low, px.maximum(low, high)  (called at forward_tiles.py:203)
        const int whole_high_3 = ptx::maximum<int>(0, high_8);
        // forward_tiles.py:204: whole_high = px.maximum(px.minimum(whole_high, mine - 1), low)  (called at forward_tiles.py:244)
        const int t_44 = ptx::minimum<int>(whole_high_3, ptx::wrap_sub(mine_1, 1));
        const int whole_high_4 = ptx::maximum<int>(t_44, low_3);
        // forward_tiles.py:205: return low, mine, high - mine, px.minimum(px.maximum(whole_low, low), whole_high), whole_high  (called at forward_tiles.py:244)
        const int skipped_1 = ptx::wrap_sub(high_6, mine_1);
        const int whole_low_2 = ptx::minimum<int>((ptx::maximum<int>(0, low_3)), whole_high_4);
        // forward_tiles.py:161: for _ in range(count):  (called at forward_tiles.py:245)
        int taking_9 = taking_7;
        int taking_parity_9 = taking_parity_7;
        #pragma unroll 1
        for (int t_45 = 0; t_45 < skipped_1; ++t_45) {
          // forward_tiles.py:162: pipe.wait()  (called at forward_tiles.py:245)
          ptx::mbarrier_wait_parity(keys_full + 8 * taking_9, taking_parity_9);
          // forward_tiles.py:163: pipe.release()  (called at forward_tiles.py:245)
          ptx::bar_sync_of<128>(1 + px_copy);  // all threads have passed the wait at line 162 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(keys_empty + 8 * taking_9);
          }
          const int t_46 = ptx::wrap_add(taking_9, 1);
          const bool t_47 = t_46 == 2;
          taking_9 = t_47 ? 0 : t_46;
          taking_parity_9 = taking_parity_9 ^ ((int)t_47);
        }
        // forward_tiles.py:161: for _ in range(count):  (called at forward_tiles.py:245)
        // forward_tiles.py:137: stage = b.keys.wait()  (called at forward_tiles.py:246)
        ptx::mbarrier_wait_parity(keys_full + 8 * taking_9, taking_parity_9);
        // forward_tiles.py:138: s = px.empty((b.ROWS, b.KEYS), px.f32)  (called at forward_tiles.py:246)
        float s_5[16];
        // forward_tiles.py:139: px.wgmma(b.q[slot, self.c], b.k[stage].T, s, accumulate=False)  (called at forward_tiles.py:246)
        {
          const unsigned long long px_a = ptx::wgmma_descriptor(q_addr + slot_1 * 4096 + c * 2048, 0xc000001000010000ull);
          const unsigned long long px_b = ptx::wgmma_descriptor(k_addr + taking_9 * 1024, 0xc000001000010000ull);
          ptx::keep_float<16>(s_5);
          ptx::wgmma_fence_sync_aligned();
          ptx::wgmma_m64n32k16_f32_bf16_bf16(s_5, px_a, px_b, false);
        }
        // forward_tiles.py:140: px.wgmma_commit()  (called at forward_tiles.py:246)
        ptx::wgmma_commit_group_sync_aligned();
        // forward_tiles.py:146: stage = b.values.wait()  (called at forward_tiles.py:247)
        ptx::mbarrier_wait_parity(values_full + 8 * taking_8, taking_parity_8);
        // forward_tiles.py:147: px.wgmma(p, b.v[stage].T if b.NARROW else b.v[stage], o)  (called at forward_tiles.py:247)
        {
          unsigned px_a[8];
          ptx::pack_words<16>(px_a, state_1_5);
          const unsigned long long px_b = ptx::wgmma_descriptor(v_addr + taking_8 * 1024, 0xc000001000400000ull);
          ptx::wgmma_fence_sync_aligned();
          ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_tb(state_0_2, px_a, px_b, true);
          ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_tb(state_0_2, px_a + 4, px_b + 32, true);
        }
        // forward_tiles.py:148: px.wgmma_commit()  (called at forward_tiles.py:247)
        ptx::wgmma_commit_group_sync_aligned();
        // forward_tiles.py:248: px.wgmma_wait(1)  (called at forward_tiles.py:360)
        ptx::wgmma_wait_group_1();
        ptx::keep_float<16>(s_5);
        // forward_tiles.py:249: b.keys.release()  (called at forward_tiles.py:360)
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(keys_empty + 8 * taking_9);
        }
        const int t_45 = ptx::wrap_add(taking_9, 1);
        const bool t_46 = t_45 == 2;
        // forward_tiles.py:250: s = self.finished(s, tile, (high - 1) * b.KEYS, True)  (called at forward_tiles.py:360)
        const int t_47 = ptx::wrap_mul(ptx::wrap_sub(mine_1, 1), 32);
        // forward_tiles.py:168: row = tile.row + self.c * b.ROWS  (called at forward_tiles.py:250)
        const int row_8 = ptx::wrap_add(row_6, ptx::wrap_mul(c, 64));
        // scores.py:75: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py:178)
        // scores.py:38: return row + (self.keys - self.queries)  (called at scores.py:75)
        const int t_48 = ptx::wrap_add(row_8, ptx::wrap_sub(K_size2, Q_size2));
        // scores.py:75: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py:178)
        const int t_49 = ptx::wrap_sub((ptx::wrap_add(ptx::wrap_add(t_48, right), 1)), t_47);
        // scores.py:71: columns = px.arange(KEYS).reshape(1, KEYS)  (called at forward_tiles.py:178)
        // scores.py:70: rows = px.arange(ROWS).reshape(ROWS, 1)  (called at forward_tiles.py:178)
        int t_50[2];
        {
          const int c0 = (px_lane >> 2) + px_warp * 16;
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            t_50[i] = c0 + i * 8;
          }
        }
        int rows_3[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) rows_3[i] = t_50[i];
        // scores.py:75: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py:178)
        int t_51[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_51[i] = ptx::wrap_add(t_49, rows_3[i]);
        int t_52[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_52[i] = ptx::minimum<int>(ptx::wrap_sub(K_size2, t_47), t_51[i]);
        bool ok_1[16];
        {
          const int c1 = (px_lane & 3) * 2;
          int limit[2];
          #pragma unroll
          for (int i = 0; i < 2; ++i) limit[i] = ptx::maximum<int>(t_52[i], -1) - c1;
          #pragma unroll
          for (int i = 0; i < 16; ++i) ok_1[i] = ((i & 1) + (i >> 2) * 8) < limit[(i >> 1) & 1];
        }
        // scores.py:78: return px.where(ok, s, NOTHING)  (called at forward_tiles.py:178)
        float s_6[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) s_6[i] = ok_1[i] ? s_5[i] : __int_as_float(0xff800000);
        // scores.py:133: highest = s[:, 0:8]  (called at scores.py:124)
        float highest_4[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) highest_4[i] = s_6[i];
        // scores.py:135: highest = px.maximum(highest, s[:, column : column + 8])  (called at scores.py:124)
        float t_53[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_53[i] = s_6[i + 4];
        float highest_5[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) highest_5[i] = ptx::max_NaN_f32(highest_4[i], t_53[i]);
        float t_54[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_54[i] = s_6[i + 8];
        float highest_6[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) highest_6[i] = ptx::max_NaN_f32(highest_5[i], t_54[i]);
        float t_55[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_55[i] = s_6[i + 12];
        float highest_7[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) highest_7[i] = ptx::max_NaN_f32(highest_6[i], t_55[i]);
        // scores.py:136: return px.max(highest, axis=1)  (called at scores.py:124)
        float highest_max_1[2];
        {
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            highest_max_1[i] = __int_as_float(0xff800000);
          }
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            highest_max_1[i >> 1] = ptx::max_NaN_f32(highest_max_1[i >> 1], highest_7[i]);
          }
          #pragma unroll
          for (int mask = 1; mask <= 2; mask *= 2) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              highest_max_1[i] = ptx::max_NaN_f32(highest_max_1[i], ptx::shuffle_xor(highest_max_1[i], mask));
            }
          }
        }
        float t_56[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_56[i] = highest_max_1[i];
        // scores.py:124: top = shifted(row_maxima(s, ROWS, KEYS) * factor, SHIFT)  (called at forward_tiles.py:251)
        float top_1[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) top_1[i] = t_56[i] * factor;
        // scores.py:125: base = px.where(top == NOTHING, 0.0, top) if EMPTY else top  (called at forward_tiles.py:251)
        bool t_57[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_57[i] = top_1[i] == __int_as_float(0xff800000);
        float base_1[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) base_1[i] = t_57[i] ? 0.0f : top_1[i];
        // scores.py:126: p = px.exp2(px.fma(s, factor, -base.reshape(ROWS, 1)))  (called at forward_tiles.py:251)
        float t_58[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_58[i] = base_1[i];
        float t_59[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_59[i] = -t_58[i];
        float t_60[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_60[i] = fmaf(s_6[i], factor, t_59[(i >> 1) & 1]);
        float p_3[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) p_3[i] = ptx::exp2_approx(t_60[i]);
        // scores.py:142: eights = px.sum(p.reshape(ROWS, KEYS // 8, 8), axis=1)  (called at scores.py:127)
        float t_61[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_61[i] = p_3[i];
        float eights_sum_1[4];
        {
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            eights_sum_1[i & 3] = t_61[i];
          }
          #pragma unroll
          for (int i = 4; i < 16; ++i) {
            eights_sum_1[i & 3] = eights_sum_1[i & 3] + t_61[i];
          }
        }
        float eights_1[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) eights_1[i] = eights_sum_1[i];
        // scores.py:143: return px.sum(eights.reshape(ROWS, 4, 2), axis=2)  (called at scores.py:127)
        float t_62[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_62[i] = eights_1[i];
        float sums_sum_1[2];
        {
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            sums_sum_1[i] = 0.0f;
          }
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            sums_sum_1[i >> 1] = sums_sum_1[i >> 1] + t_62[i];
          }
        }
        float sums_1[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) sums_1[i] = sums_sum_1[i];
        // forward_tiles.py:252: px.wgmma_wait(0)  (called at forward_tiles.py:360)
        ptx::finish(ptx::fold_bits<2>(sums_1), px_never, px_base);
        ptx::wgmma_wait_group_0();
        ptx::keep_float<16>(s_6);
        ptx::keep_float<8>(state_0_2);
        // forward_tiles.py:253: b.values.release()  (called at forward_tiles.py:360)
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_8);
        }
        const int t_63 = ptx::wrap_add(taking_8, 1);
        const bool t_64 = t_63 == 2;
        // forward_tiles.py:161: for _ in range(count):  (called at forward_tiles.py:254)
        int taking_10 = t_64 ? 0 : t_63;
        int taking_parity_10 = taking_parity_8 ^ ((int)t_64);
        #pragma unroll 1
        for (int t_65 = 0; t_65 < skipped_1; ++t_65) {
          // forward_tiles.py:162: pipe.wait()  (called at forward_tiles.py:254)
          ptx::mbarrier_wait_parity(values_full + 8 * taking_10, taking_parity_10);
          // forward_tiles.py:163: pipe.release()  (called at forward_tiles.py:254)
          ptx::bar_sync_of<128>(1 + px_copy);  // all threads have passed the wait at line 162 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_10);
          }
          const int t_66 = ptx::wrap_add(taking_10, 1);
          const bool t_67 = t_66 == 2;
          taking_10 = t_67 ? 0 : t_66;
          taking_parity_10 = taking_parity_10 ^ ((int)t_67);
        }
        // forward_tiles.py:161: for _ in range(count):  (called at forward_tiles.py:254)
        // forward_tiles.py:156: return (in_order_of_registers(powers, b.ROWS, b.KEYS) if b.NARROW else powers).to(self.TYPE)  (called at forward_tiles.py:255)
        px_bf16 p_4[16];
        #pragma unroll
        for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_4 + i, p_3[i], p_3[i + 1]);
        // tiles.py:136: batch, head, row = self.by_head(self.dealt(px.keep(mark[0])))  (called at forward_tiles.py:256)
        const int t_65 = ptx::keep_scalar(turn_1);
        // tiles.py:55: place = px.where(turn % 2 == 0, place, count - 1 - place)  (called at tiles.py:136)
        const int t_66 = ptx::wrap_sub(ptx::wrap_sub(blocks_x, 1), block_x);
        const int place_3 = ((t_65 & 1) == 0) ? block_x : t_66;
        // tiles.py:56: return turn * count + place  (called at tiles.py:136)
        const int t_67 = ptx::wrap_add(ptx::wrap_mul(t_65, blocks_x), place_3);
        // tiles.py:105: rows, heads = px.cdiv(px.keep(self.queries), self.ROWS), px.keep(self.heads)  (called at tiles.py:136)
        const int t_68 = ptx::keep_scalar(Q_size2);
        const int rows_4 = ptx::wrap_add((t_68 >> 7), ((int)((t_68 & 127) != 0)));
        const int heads_2 = ptx::keep_scalar(Q_size1);
        // tiles.py:109: first = t // (rows * self.band) * self.band  (called at tiles.py:136)
        const int t_69 = ptx::floor_div<int>(t_67, ptx::wrap_mul(rows_4, band));
        const int first_2 = ptx::wrap_mul(t_69, band);
        // tiles.py:110: wide = px.maximum(px.minimum(self.band, heads * self.batches - first), 1)  (called at tiles.py:136)
        const int t_70 = ptx::wrap_sub(ptx::wrap_mul(heads_2, Q_size0), first_2);
        const int wide_2 = ptx::maximum<int>((ptx::minimum<int>(band, t_70)), 1);
        // tiles.py:111: place = t - first * rows  (called at tiles.py:136)
        const int place_4 = ptx::wrap_sub(t_67, ptx::wrap_mul(first_2, rows_4));
        // tiles.py:112: m, which = rows - 1 - place // wide, first + place % wide  (called at tiles.py:136)
        const int m_2 = ptx::wrap_sub(ptx::wrap_sub(rows_4, 1), (ptx::floor_div<int>(place_4, wide_2)));
        const int which = ptx::wrap_add(first_2, (ptx::floor_mod<int>(place_4, wide_2)));
        // tiles.py:113: return px.maximum(which // heads, 0), which % heads, self.first_row(m, rows, self.queries)  (called at tiles.py:136)
        const int batch = ptx::maximum<int>((ptx::floor_div<int>(which, heads_2)), 0);
        const int head = ptx::floor_mod<int>(which, heads_2);
        // tiles.py:95: row = m * self.ROWS  (called at tiles.py:113)
        const int row_9 = ptx::wrap_mul(m_2, 128);
        // tiles.py:97: row = row + queries - rows * self.ROWS  (called at tiles.py:113)
        const int row_10 = ptx::wrap_sub(ptx::wrap_add(row_9, Q_size2), ptx::wrap_mul(rows_4, 128));
        // forward_tiles.py:267: row += self.c * b.ROWS  (called at forward_tiles.py:256)
        const int row_11 = ptx::wrap_add(row_10, ptx::wrap_mul(c, 64));
        // scores.py:149: total = px.sum(sums, axis=1)  (called at forward_tiles.py:269)
        float total_sum[2];
        {
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            total_sum[i] = state_3_2[i];
          }
          #pragma unroll
          for (int mask = 1; mask <= 2; mask *= 2) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              total_sum[i] = total_sum[i] + ptx::shuffle_xor(total_sum[i], mask);
            }
          }
        }
        float total[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) total[i] = total_sum[i];
        // scores.py:150: return px.where(total == 0.0, 0.0, px.reciprocal(total)), total  (called at forward_tiles.py:269)
        bool t_71[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_71[i] = total[i] == 0.0f;
        float t_72[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_72[i] = ptx::reciprocal_approx(total[i]);
        float inverse[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) inverse[i] = t_71[i] ? 0.0f : t_72[i];
        // forward_tiles.py:270: empty = total.reshape(b.ROWS, 1) == 0.0  (called at forward_tiles.py:256)
        float t_73[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_73[i] = total[i];
        bool empty[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) empty[i] = t_73[i] == 0.0f;
        // forward_tiles.py:273: result = o * inverse.reshape(b.ROWS, 1)  (called at forward_tiles.py:256)
        float t_74[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_74[i] = inverse[i];
        float result[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) result[i] = state_0_2[i] * t_74[(i >> 1) & 1];
        // forward_tiles.py:280: self.send(px.where(empty, 0.0, result).to(O.dtype), top, total, out, batch, head, first_query, row, queries)  (called at forward_tiles.py:256)
        float t_75[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_75[i] = empty[(i >> 1) & 1] ? 0.0f : result[i];
        px_bf16 t_76[8];
        #pragma unroll
        for (int i = 0; i < 8; i += 2) ptx::bf16_pair_from_float(t_76 + i, t_75[i], t_75[i + 1]);
        // forward_tiles.py:296: px.store(out, result[:, left : left + width] if self.PARTS > 1 else result)  (called at forward_tiles.py:280)
        ptx::bar_sync_of<128>(1 + px_copy);  // q was read at line 139 before q is written
        {
          const unsigned a = q_addr + 16 * (slot * 256 + c * 128 + (((px_lane & 3) * 2) ^ (((px_lane >> 2) & 1) * 9) ^ (((px_lane >> 3) & 1) * 16) ^ ((px_lane >> 4)) ^ (px_warp * 32)));
          unsigned words[4];
          ptx::pack_words<8>(words, t_76);
          ptx::stmatrix_x4(a, words);
        }
        // forward_tiles.py:298: piece, to = px.load(out[:, column : column + step]), left + column  (called at forward_tiles.py:280)
        ptx::bar_sync_of<128>(1 + px_copy);  // q was written at line 296 before q is read
        px_bf16 piece[8];
        {
          px_bf16* const p_5 = q + slot * 2048 + c * 1024 + (((px_lane & 7) * 8) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 128) ^ (px_warp * 256));
          ptx::load_vector<8>(piece, p_5);
        }
        // forward_tiles.py:302: px.store(O[batch, head, at : at + b.ROWS, to : to + step], piece)  (called at forward_tiles.py:280)
        {
          const unsigned x2 = (unsigned)row_11 + (px_lane >> 1) + px_warp * 16;
          const int x3 = (px_lane & 1) * 8;
          px_bf16* const p_5 = O.data + (batch * O.stride[0] + head * O.stride[1] + (int)x2 * O.stride[2] + x3);
          if (ptx::inside(batch, O.shape[0]) && ptx::inside(head, O.shape[1]) && ptx::inside(x2, O.shape[2]) && ptx::inside(x3, O.shape[3])) ptx::store_vector<8>(p_5, piece);
        }
        // scores.py:156: return px.where(total == 0.0, NOTHING, (top + px.log2(total)) * LN2)  (called at forward_tiles.py:306)
        bool t_77[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_77[i] = total[i] == 0.0f;
        float t_78[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_78[i] = log2f(total[i]);
        float t_79[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_79[i] = state_2_2[i] + t_78[i];
        float t_80[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_80[i] = t_79[i] * 0.6931472f;
        float t_81[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) t_81[i] = t_77[i] ? __int_as_float(0xff800000) : t_80[i];
        // forward_tiles.py:306: px.store(LSE[batch, head, at : at + b.ROWS], log_sums(top, total))  (called at forward_tiles.py:280)
        if ((px_lane & 3) == 0) {
          const unsigned x2 = (unsigned)row_11 + (px_lane >> 2) + px_warp * 16;
          float* const p_5 = LSE.data + (batch * LSE.stride[0] + head * LSE.stride[1] + (int)x2);
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            if (ptx::inside(batch, LSE.shape[0]) && ptx::inside(head, LSE.shape[1]) && ptx::inside(x2 + i * 8, LSE.shape[2])) *(p_5 + i * 8) = t_81[i];
          }
        }
        // forward_tiles.py:282: b.queries.release()  (called at forward_tiles.py:256)
        ptx::bar_sync_of<128>(1 + px_copy);  // all threads are done with q at line 298 before the elected thread arrives
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(queries_empty + 8 * taking_2);
        }
        const int t_82 = ptx::wrap_add(taking_2, 1);
        const bool t_83 = t_82 == 2;
        // forward_tiles.py:257: state = px.zeros((b.ROWS, b.WIDE), px.f32), p, top, sums  (called at forward_tiles.py:360)
        taking_2 = t_83 ? 0 : t_82;
        taking_parity_2 = taking_parity_2 ^ ((int)t_83);
        taking_3 = t_46 ? 0 : t_45;
        taking_parity_3 = taking_parity_9 ^ ((int)t_46);
        taking_4 = taking_10;
        taking_parity_4 = taking_parity_10;
        row_4 = row_6;
        turn = turn_2;
        slot = slot_1;
        high_4 = mine_1;
        whole_low_1 = whole_low_2;
        whole_high_2 = whole_high_4;
        #pragma unroll
        for (int px_r = 0; px_r < 16; ++px_r) s_2[px_r] = s_6[px_r];
        float t_84[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_84[i] = 0.0f;
        #pragma unroll
        for (int px_r = 0; px_r < 8; ++px_r) state_0[px_r] = t_84[px_r];
        ptx::pack_words<16>(state_1, p_4);
        #pragma unroll
        for (int px_r = 0; px_r < 2; ++px_r) state_2[px_r] = top_1[px_r];
        #pragma unroll
        for (int px_r = 0; px_r < 2; ++px_r) state_3[px_r] = sums_1[px_r];
      }
      // forward_tiles.py:226: while True:  (called at forward_tiles.py:360)
      px_bf16 p_3[16];
      ptx::unpack_words<16>(p_3, p);
      // forward_tiles.py:146: stage = b.values.wait()  (called at forward_tiles.py:258)
      ptx::mbarrier_wait_parity(values_full + 8 * taking_4, taking_parity_4);
      // forward_tiles.py:147: px.wgmma(p, b.v[stage].T if b.NARROW else b.v[stage], o)  (called at forward_tiles.py:258)
      {
        unsigned px_a[8];
        ptx::pack_words<16>(px_a, p_3);
        const unsigned long long px_b = ptx::wgmma_descriptor(v_addr + taking_4 * 1024, 0xc000001000400000ull);
        ptx::wgmma_fence_sync_aligned();
        ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_tb(o, px_a, px_b, true);
        ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_tb(o, px_a + 4, px_b + 32, true);
      }
      // forward_tiles.py:148: px.wgmma_commit()  (called at forward_tiles.py:258)
      ptx::wgmma_commit_group_sync_aligned();
      // forward_tiles.py:259: px.wgmma_wait(0)  (called at forward_tiles.py:360)
      ptx::wgmma_wait_group_0();
      ptx::keep_float<8>(o);
      // forward_tiles.py:260: b.values.release()  (called at forward_tiles.py:360)
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_4);
      }
      // tiles.py:136: batch, head, row = self.by_head(self.dealt(px.keep(mark[0])))  (called at forward_tiles.py:261)
      const int t_29 = ptx::keep_scalar(before);
      // tiles.py:55: place = px.where(turn % 2 == 0, place, count - 1 - place)  (called at tiles.py:136)
      const int t_30 = ptx::wrap_sub(ptx::wrap_sub(blocks_x, 1), block_x);
      const int place_1 = ((t_29 & 1) == 0) ? block_x : t_30;
      // tiles.py:56: return turn * count + place  (called at tiles.py:136)
      const int t_31 = ptx::wrap_add(ptx::wrap_mul(t_29, blocks_x), place_1);
      // tiles.py:105: rows, heads = px.cdiv(px.keep(self.queries), self.ROWS), px.keep(self.heads)  (called at tiles.py:136)
      const int t_32 = ptx::keep_scalar(Q_size2);
      const int rows_2 = ptx::wrap_add((t_32 >> 7), ((int)((t_32 & 127) != 0)));
      const int heads_1 = ptx::keep_scalar(Q_size1);
      // tiles.py:109: first = t // (rows * self.band) * self.band  (called at tiles.py:136)
      const int t_33 = ptx::floor_div<int>(t_31, ptx::wrap_mul(rows_2, band));
      const int first_1 = ptx::wrap_mul(t_33, band);
      // tiles.py:110: wide = px.maximum(px.minimum(self.band, heads * self.batches - first), 1)  (called at tiles.py:136)
      const int t_34 = ptx::wrap_sub(ptx::wrap_mul(heads_1, Q_size0), first_1);
      const int wide_1 = ptx::maximum<int>((ptx::minimum<int>(band, t_34)), 1);
      // tiles.py:111: place = t - first * rows  (called at tiles.py:136)
      const int place_2 = ptx::wrap_sub(t_31, ptx::wrap_mul(first_1, rows_2));
      // tiles.py:112: m, which = rows - 1 - place // wide, first + place % wide  (called at tiles.py:136)
      const int m_1 = ptx::wrap_sub(ptx::wrap_sub(rows_2, 1), (ptx::floor_div<int>(place_2, wide_1)));
      const int which = ptx::wrap_add(first_1, (ptx::floor_mod<int>(place_2, wide_1)));
      // tiles.py:113: return px.maximum(which // heads, 0), which % heads, self.first_row(m, rows, self.queries)  (called at tiles.py:136)
      const int batch = ptx::maximum<int>((ptx::floor_div<int>(which, heads_1)), 0);
      const int head = ptx::floor_mod<int>(which, heads_1);
      // tiles.py:95: row = m * self.ROWS  (called at tiles.py:113)
      const int row_5 = ptx::wrap_mul(m_1, 128);
      // tiles.py:97: row = row + queries - rows * self.ROWS  (called at tiles.py:113)
      const int row_6 = ptx::wrap_sub(ptx::wrap_add(row_5, Q_size2), ptx::wrap_mul(rows_2, 128));
      // forward_tiles.py:267: row += self.c * b.ROWS  (called at forward_tiles.py:261)
      const int row_7 = ptx::wrap_add(row_6, ptx::wrap_mul(c, 64));
      // scores.py:149: total = px.sum(sums, axis=1)  (called at forward_tiles.py:269)
      float total_sum[2];
      {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          total_sum[i] = before_sums[i];
        }
        #pragma unroll
        for (int mask = 1; mask <= 2; mask *= 2) {
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            total_sum[i] = total_sum[i] + ptx::shuffle_xor(total_sum[i], mask);
          }
        }
      }
      float total[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) total[i] = total_sum[i];
      // scores.py:150: return px.where(total == 0.0, 0.0, px.reciprocal(total)), total  (called at forward_tiles.py:269)
      bool t_35[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_35[i] = total[i] == 0.0f;
      float t_36[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_36[i] = ptx::reciprocal_approx(total[i]);
      float inverse[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) inverse[i] = t_35[i] ? 0.0f : t_36[i];
      // forward_tiles.py:270: empty = total.reshape(b.ROWS, 1) == 0.0  (called at forward_tiles.py:261)
      float t_37[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_37[i] = total[i];
      bool empty[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) empty[i] = t_37[i] == 0.0f;
      // forward_tiles.py:273: result = o * inverse.reshape(b.ROWS, 1)  (called at forward_tiles.py:261)
      float t_38[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_38[i] = inverse[i];
      float result[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) result[i] = o[i] * t_38[(i >> 1) & 1];
      // forward_tiles.py:280: self.send(px.where(empty, 0.0, result).to(O.dtype), top, total, out, batch, head, first_query, row, queries)  (called at forward_tiles.py:261)
      float t_39[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_39[i] = empty[(i >> 1) & 1] ? 0.0f : result[i];
      px_bf16 t_40[8];
      #pragma unroll
      for (int i = 0; i < 8; i += 2) ptx::bf16_pair_from_float(t_40 + i, t_39[i], t_39[i + 1]);
      // forward_tiles.py:296: px.store(out, result[:, left : left + width] if self.PARTS > 1 else result)  (called at forward_tiles.py:280)
      ptx::bar_sync_of<128>(1 + px_copy);  // q was read at line 139 before q is written
      {
        const unsigned a = q_addr + 16 * (before_1 * 256 + c * 128 + (((px_lane & 3) * 2) ^ (((px_lane >> 2) & 1) * 9) ^ (((px_lane >> 3) & 1) * 16) ^ ((px_lane >> 4)) ^ (px_warp * 32)));
        unsigned words[4];
        ptx::pack_words<8>(words, t_40);
        ptx::stmatrix_x4(a, words);
      }
      // forward_tiles.py:298: piece, to = px.load(out[:, column : column + step]), left + column  (called at forward_tiles.py:280)
      ptx::bar_sync_of<128>(1 + px_copy);  // q was written at line 296 before q is read
      px_bf16 piece[8];
      {
        px_bf16* const p_5 = q + before_1 * 2048 + c * 1024 + (((px_lane & 7) * 8) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 128) ^ (px_warp * 256));
        ptx::load_vector<8>(piece, p_5);
      }
      // forward_tiles.py:302: px.store(O[batch, head, at : at + b.ROWS, to : to + step], piece)  (called at forward_tiles.py:280)
      {
        const unsigned x2 = (unsigned)row_7 + (px_lane >> 1) + px_warp * 16;
        const int x3 = (px_lane & 1) * 8;
        px_bf16* const p_5 = O.data + (batch * O.stride[0] + head * O.stride[1] + (int)x2 * O.stride[2] + x3);
        if (ptx::inside(batch, O.shape[0]) && ptx::inside(head, O.shape[1]) && ptx::inside(x2, O.shape[2]) && ptx::inside(x3, O.shape[3])) ptx::store_vector<8>(p_5, piece);
      }
      // scores.py:156: return px.where(total == 0.0, NOTHING, (top + px.log2(total)) * LN2)  (called at forward_tiles.py:306)
      bool t_41[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_41[i] = total[i] == 0.0f;
      float t_42[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_42[i] = log2f(total[i]);
      float t_43[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_43[i] = before_top[i] + t_42[i];
      float t_44[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_44[i] = t_43[i] * 0.6931472f;
      float t_45[2];
      #pragma unroll
      for (int i = 0; i < 2; ++i) t_45[i] = t_41[i] ? __int_as_float(0xff800000) : t_44[i];
      // forward_tiles.py:306: px.store(LSE[batch, head, at : at + b.ROWS], log_sums(top, total))  (called at forward_tiles.py:280)
      if ((px_lane & 3) == 0) {
        const unsigned x2 = (unsigned)row_7 + (px_lane >> 2) + px_warp * 16;
        float* const p_5 = LSE.data + (batch * LSE.stride[0] + head * LSE.stride[1] + (int)x2);
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (ptx::inside(batch, LSE.shape[0]) && ptx::inside(head, LSE.shape[1]) && ptx::inside(x2 + i * 8, LSE.shape[2])) *(p_5 + i * 8) = t_45[i];
        }
      }
      // forward_tiles.py:282: b.queries.release()  (called at forward_tiles.py:261)
      ptx::bar_sync_of<128>(1 + px_copy);  // all threads are done with q at line 298 before the elected thread arrives
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(queries_empty + 8 * taking_2);
      }
    }
  }
}
