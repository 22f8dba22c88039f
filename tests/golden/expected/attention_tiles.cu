// attention_tiles(config=AttentionConfig(groups=2, keys=32, stages=2, query_stages=2, parts=1, schedule='counter', slack=8.0, producer_regs=None, regs=None), form=TilesForm(dim=16, wide=16, whole=True, own_out=False, bias_kind=None, sure=False)) for sm_90a, from forward_tiles.py
// 384 threads, 12528 bytes of shared memory

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
//   wrap_mul
//   wrap_add
//   atomic_add_i32_global
//   inside
//   bits
//   shuffle
//   wrap_sub
//   atomic_exch_i32_global
//   unknown_zero
//   keep_scalar
//   floor_div
//   minimum
//   maximum
//   floor_mod
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_4d_shared_global
//   mbarrier_arrive_shared_cta
//   elect_sync
//   bar_sync_of
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
//   wgmma_m64n16k16_f32_bf16_bf16_registers_tb_x2_fenced
//   wgmma_wait_group_1
//   fold_scalar
//   fold_bits
//   finish
//   reciprocal_approx
//   stmatrix_x4
//   unpack
//   load_vector
//   store_vector
//   fence_proxy_async_shared_cta
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
    const __grid_constant__ px_array<int, 1> tile_counters,
    const __grid_constant__ px_tensor_map K_map,
    const __grid_constant__ px_tensor_map Q_map,
    const __grid_constant__ px_tensor_map V_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned px_never = ptx::unknown_zero();
  const unsigned queries_full = px_base + 12424;
  const unsigned queries_empty = px_base + 12440;
  const unsigned keys_full = px_base + 12456;
  const unsigned keys_empty = px_base + 12472;
  const unsigned values_full = px_base + 12488;
  const unsigned values_empty = px_base + 12504;
  const unsigned k_addr = px_base + 8192;
  int* const places = reinterpret_cast<int*>(px_smem + 12288);
  const unsigned q_addr = px_base;
  const unsigned v_addr = px_base + 10240;
  px_bf16* const q = reinterpret_cast<px_bf16*>(px_smem);
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&K_map);
    ptx::prefetch_tensormap(&Q_map);
    ptx::prefetch_tensormap(&V_map);
  }
  // forward_tiles.py: queries = px.pipe(config.query_stages)
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(queries_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(queries_empty + 8 * px_i, 2);
    // forward_tiles.py: keys = px.pipe(config.stages)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(keys_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(keys_empty + 8 * px_i, 2);
    // forward_tiles.py: values = px.pipe(config.stages)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(values_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(values_empty + 8 * px_i, 2);
    // forward_tiles.py: def attention_tiles(
    ptx::fence_mbarrier_init_release_cluster();
  }
  // forward_tiles.py: batches = Q.shape[0] if packed.CUQ is None else packed.CUQ.shape[0] - 1
  const int Q_size0 = Q.shape[0];
  const int Q_size1 = Q.shape[1];
  const int Q_size2 = Q.shape[2];
  // forward_tiles.py: reach = Reach(Q.shape[2], K.shape[2], window.left, window.right)
  const int K_size2 = K.shape[2];
  // forward_tiles.py: px.assume(batch < O.shape[0])  (called at forward_tiles.py)
  const int O_size0 = O.shape[0];
  const int O_size1 = O.shape[1];
  const int O_size3 = O.shape[3];
  // forward_tiles.py: def attention_tiles(
  __syncthreads();  // barriers are initialised before their first use
  // launches.py: px.wait_prior()  (called at forward_tiles.py)
  ptx::griddepcontrol_wait();
  // launches.py: px.launch_dependents()  (called at forward_tiles.py)
  ptx::griddepcontrol_launch_dependents();
  // forward_tiles.py: with px.warps(0, 1, regs=config.producer_regs):
  if (px_warp_id == 0) {  // warp 0
    const int px_thread = (int)threadIdx.x;
    const bool px_one = ptx::elect_sync();
    // tiles.py: heads = self.heads * self.batches  (called at forward_tiles.py)
    const int heads = ptx::wrap_mul(Q_size1, Q_size0);
    // tiles.py: count = px.cdiv(self.queries, self.ROWS) * heads  (called at forward_tiles.py)
    const int t = ptx::wrap_add((Q_size2 >> 7), ((int)((Q_size2 & 127) != 0)));
    const int count = ptx::wrap_mul(t, heads);
    // forward_tiles.py: for t in px.persistent(tiles.count(), schedule=b.SCHEDULE):  (called at forward_tiles.py)
    int filling = 0;
    int filling_parity = 0;
    int filling_1 = 0;
    int filling_parity_1 = 0;
    int filling_2 = 0;
    int filling_parity_2 = 0;
    int place = 0;
    const int cluster = (int)blockIdx.x + (int)gridDim.x * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
    int next_tile = cluster;
    while (true) {
      const int t_1 = next_tile & 2147483647;
      if (!(t_1 < count)) break;
      int drawn = 0;
      if (px_thread == 0 && ptx::inside(0, tile_counters.shape[0])) drawn = ptx::atomic_add_i32_global(tile_counters.data, 1);
      drawn = ptx::shuffle(drawn, 0);
      const bool last = drawn == ptx::wrap_sub(count, 1);
      if (last) {
        __syncwarp();  // tile_counters was updated at line 133 before tile_counters is updated
        if (px_thread == 0 && ptx::inside(0, tile_counters.shape[0])) ptx::atomic_exch_i32_global(tile_counters.data, 0);
      }
      const int clusters = (int)gridDim.x * (int)gridDim.y * (int)gridDim.z;
      next_tile = ptx::wrap_add(drawn, clusters);
      // tiles.py: rows = px.cdiv(px.keep(self.queries), self.ROWS)  (called at tiles.py)
      const int t_2 = ptx::keep_scalar(Q_size2);
      const int rows = ptx::wrap_add((t_2 >> 7), ((int)((t_2 & 127) != 0)));
      // tiles.py: heads = px.keep(self.heads)  (called at tiles.py)
      const int heads_1 = ptx::keep_scalar(Q_size1);
      // tiles.py: band = px.keep(self.band)  (called at tiles.py)
      const int band_1 = ptx::keep_scalar(band);
      // tiles.py: first = t // (rows * band) * band  (called at tiles.py)
      const int t_3 = ptx::floor_div<int>(t_1, ptx::wrap_mul(rows, band_1));
      const int first = ptx::wrap_mul(t_3, band_1);
      // tiles.py: wide = px.maximum(px.minimum(band, heads * self.batches - first), 1)  (called at tiles.py)
      const int t_4 = ptx::wrap_sub(ptx::wrap_mul(heads_1, Q_size0), first);
      const int wide = ptx::maximum<int>((ptx::minimum<int>(band_1, t_4)), 1);
      // tiles.py: place = t - first * rows  (called at tiles.py)
      const int place_1 = ptx::wrap_sub(t_1, ptx::wrap_mul(first, rows));
      // tiles.py: m = rows - 1 - place // wide  (called at tiles.py)
      const int m = ptx::wrap_sub(ptx::wrap_sub(rows, 1), (ptx::floor_div<int>(place_1, wide)));
      // tiles.py: which = first + place % wide  (called at tiles.py)
      const int which = ptx::wrap_add(first, (ptx::floor_mod<int>(place_1, wide)));
      // tiles.py: return px.maximum(which // heads, 0), which % heads, self.first_row(m, rows, self.queries)  (called at tiles.py)
      const int batch = ptx::maximum<int>((ptx::floor_div<int>(which, heads_1)), 0);
      const int t_5 = ptx::floor_mod<int>(which, heads_1);
      // tiles.py: row = m * self.ROWS  (called at tiles.py)
      const int row = ptx::wrap_mul(m, 128);
      // tiles.py: row = row + queries - rows * self.ROWS  (called at tiles.py)
      const int row_1 = ptx::wrap_sub(ptx::wrap_add(row, Q_size2), ptx::wrap_mul(rows, 128));
      // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py)
      // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
      const int t_6 = ptx::wrap_add(ptx::wrap_add(row_1, 127), ptx::wrap_sub(K_size2, Q_size2));
      // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py)
      const int end = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_6, right), 1)));
      // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py)
      const int t_7 = ptx::maximum<int>(end, 0);
      const int high = ptx::wrap_add((t_7 >> 5), ((int)((t_7 & 31) != 0)));
      // scores.py: low = px.minimum(self.begin(first) // KEYS, high)  (called at forward_tiles.py)
      const int low = ptx::minimum<int>(0, high);
      // forward_tiles.py: low = px.maximum(px.minimum(low, high - 1), 0)  (called at forward_tiles.py)
      const int low_1 = ptx::maximum<int>((ptx::minimum<int>(low, ptx::wrap_sub(high, 1))), 0);
      // forward_tiles.py: return low, px.maximum(high, low + 1)  (called at forward_tiles.py)
      const int high_1 = ptx::maximum<int>(high, ptx::wrap_add(low_1, 1));
      // forward_tiles.py: head = tile.head // px.keep(group)  (called at forward_tiles.py)
      const int t_8 = ptx::keep_scalar(group);
      const int head = ptx::floor_div<int>(t_5, t_8);
      // forward_tiles.py: key = tile.first_key + (high - 1) * b.KEYS  (called at forward_tiles.py)
      const int key = ptx::wrap_mul(ptx::wrap_sub(high_1, 1), 32);
      // forward_tiles.py: with b.keys.produce() as stage:  (called at forward_tiles.py)
      ptx::mbarrier_wait_parity(keys_empty + 8 * filling_1, filling_parity_1 ^ 1);
      __syncwarp();  // all threads are done with tile_counters at line 133 before the elected thread arrives
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(keys_full + 8 * filling_1, 1024);
        // forward_tiles.py: px.tma.load(K[batch, head, key : key + b.KEYS, 0 : b.DIM], b.k[stage], b.keys.full[stage])  (called at forward_tiles.py)
        // tensor copy: a box of 1 x 1 x 32 x 16, 32-byte swizzle
        ptx::cp_async_bulk_tensor_4d_shared_global(k_addr + filling_1 * 1024, &K_map, 0, key, head, batch, keys_full + 8 * filling_1);
      }
      // forward_tiles.py: with b.keys.produce() as stage:  (called at forward_tiles.py)
      const int t_9 = ptx::wrap_add(filling_1, 1);
      const bool t_10 = t_9 == 2;
      // forward_tiles.py: stage = b.queries.acquire()  (called at forward_tiles.py)
      ptx::mbarrier_wait_parity(queries_empty + 8 * filling, filling_parity ^ 1);
      // forward_tiles.py: px.store(self.places[place, 0], self.GROUPS if tile.groups is None else tile.groups)  (called at forward_tiles.py)
      if (px_thread == 0) *(places + filling * 8) = 2;
      // forward_tiles.py: px.store(self.places[place, 1], tile.batch)  (called at forward_tiles.py)
      if (px_thread == 0) *(places + filling * 8 + 1) = batch;
      // forward_tiles.py: px.store(self.places[place, 2], tile.head)  (called at forward_tiles.py)
      if (px_thread == 0) *(places + filling * 8 + 2) = t_5;
      // forward_tiles.py: px.store(self.places[place, 3], tile.row)  (called at forward_tiles.py)
      if (px_thread == 0) *(places + filling * 8 + 3) = row_1;
      // forward_tiles.py: px.tma.load(Q[batch, tile.head, row : row + b.ROWS, 0 : b.DIM], b.q[stage, c], b.queries.full[stage])  (called at forward_tiles.py)
      __syncwarp();  // all threads have passed the wait at line 142 before the elected thread goes on
      if (px_one) {
        // tensor copy: a box of 1 x 1 x 64 x 16, 32-byte swizzle
        ptx::cp_async_bulk_tensor_4d_shared_global(q_addr + filling * 4096, &Q_map, 0, row_1, t_5, batch, queries_full + 8 * filling);
      }
      // forward_tiles.py: row = tile.first_query + tile.row + c * b.ROWS  (called at forward_tiles.py)
      const int row_2 = ptx::wrap_add(row_1, 64);
      // forward_tiles.py: px.tma.load(Q[batch, tile.head, row : row + b.ROWS, 0 : b.DIM], b.q[stage, c], b.queries.full[stage])  (called at forward_tiles.py)
      if (px_one) {
        // tensor copy: a box of 1 x 1 x 64 x 16, 32-byte swizzle
        ptx::cp_async_bulk_tensor_4d_shared_global(q_addr + filling * 4096 + 2048, &Q_map, 0, row_2, t_5, batch, queries_full + 8 * filling);
        // forward_tiles.py: b.queries.commit(b.q[0].nbytes)  (called at forward_tiles.py)
        ptx::mbarrier_arrive_expect_tx_shared_cta(queries_full + 8 * filling, 4096);
      }
      const int t_11 = ptx::wrap_add(filling, 1);
      const bool t_12 = t_11 == 2;
      // forward_tiles.py: return px.where(place == self.places.shape[0] - 1, 0, place + 1)  (called at forward_tiles.py)
      // forward_tiles.py: for j in range(1, high - low):  # K is one block ahead of V  (called at forward_tiles.py)
      int filling_3 = t_10 ? 0 : t_9;
      int filling_parity_3 = filling_parity_1 ^ ((int)t_10);
      int filling_4 = filling_2;
      int filling_parity_4 = filling_parity_2;
      #pragma unroll 1
      for (int j = 1; j < ptx::wrap_sub(high_1, low_1); ++j) {
        // forward_tiles.py: key = tile.first_key + (high - 1 - j) * b.KEYS  (called at forward_tiles.py)
        const int key_1 = ptx::wrap_mul((ptx::wrap_sub(ptx::wrap_sub(high_1, 1), j)), 32);
        // forward_tiles.py: with b.keys.produce() as stage:  (called at forward_tiles.py)
        ptx::mbarrier_wait_parity(keys_empty + 8 * filling_3, filling_parity_3 ^ 1);
        __syncwarp();  // all threads have passed the wait at line 151 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(keys_full + 8 * filling_3, 1024);
          // forward_tiles.py: px.tma.load(K[batch, head, key : key + b.KEYS, 0 : b.DIM], b.k[stage], b.keys.full[stage])  (called at forward_tiles.py)
          // tensor copy: a box of 1 x 1 x 32 x 16, 32-byte swizzle
          ptx::cp_async_bulk_tensor_4d_shared_global(k_addr + filling_3 * 1024, &K_map, 0, key_1, head, batch, keys_full + 8 * filling_3);
        }
        // forward_tiles.py: with b.keys.produce() as stage:  (called at forward_tiles.py)
        const int t_13 = ptx::wrap_add(filling_3, 1);
        const bool t_14 = t_13 == 2;
        // forward_tiles.py: with b.values.produce() as stage:  (called at forward_tiles.py)
        ptx::mbarrier_wait_parity(values_empty + 8 * filling_4, filling_parity_4 ^ 1);
        __syncwarp();  // all threads have passed the wait at line 153 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(values_full + 8 * filling_4, 1024);
        }
        // forward_tiles.py: behind = key + b.KEYS  (called at forward_tiles.py)
        const int behind = ptx::wrap_add(key_1, 32);
        // forward_tiles.py: px.tma.load(values_of(V, batch, head, behind, b), b.v[stage], b.values.full[stage])  (called at forward_tiles.py)
        if (px_one) {
          // tensor copy: a box of 1 x 1 x 32 x 16, 32-byte swizzle
          ptx::cp_async_bulk_tensor_4d_shared_global(v_addr + filling_4 * 1024, &V_map, 0, behind, head, batch, values_full + 8 * filling_4);
        }
        // forward_tiles.py: with b.values.produce() as stage:  (called at forward_tiles.py)
        const int t_15 = ptx::wrap_add(filling_4, 1);
        const bool t_16 = t_15 == 2;
        filling_3 = t_14 ? 0 : t_13;
        filling_parity_3 = filling_parity_3 ^ ((int)t_14);
        filling_4 = t_16 ? 0 : t_15;
        filling_parity_4 = filling_parity_4 ^ ((int)t_16);
      }
      // forward_tiles.py: for j in range(1, high - low):  # K is one block ahead of V  (called at forward_tiles.py)
      // forward_tiles.py: key = tile.first_key + low * b.KEYS  (called at forward_tiles.py)
      const int key_1 = ptx::wrap_mul(low_1, 32);
      // forward_tiles.py: with b.values.produce() as stage:  (called at forward_tiles.py)
      ptx::mbarrier_wait_parity(values_empty + 8 * filling_4, filling_parity_4 ^ 1);
      __syncwarp();  // all threads have passed the wait at line 157 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(values_full + 8 * filling_4, 1024);
        // forward_tiles.py: px.tma.load(values_of(V, batch, head, key, b), b.v[stage], b.values.full[stage])  (called at forward_tiles.py)
        // tensor copy: a box of 1 x 1 x 32 x 16, 32-byte swizzle
        ptx::cp_async_bulk_tensor_4d_shared_global(v_addr + filling_4 * 1024, &V_map, 0, key_1, head, batch, values_full + 8 * filling_4);
      }
      // forward_tiles.py: with b.values.produce() as stage:  (called at forward_tiles.py)
      const int t_13 = ptx::wrap_add(filling_4, 1);
      const bool t_14 = t_13 == 2;
      filling = t_12 ? 0 : t_11;
      filling_parity = filling_parity ^ ((int)t_12);
      filling_1 = filling_3;
      filling_parity_1 = filling_parity_3;
      filling_2 = t_14 ? 0 : t_13;
      filling_parity_2 = filling_parity_4 ^ ((int)t_14);
      place = (place == 1) ? 0 : ptx::wrap_add(place, 1);
    }
    // forward_tiles.py: for t in px.persistent(tiles.count(), schedule=b.SCHEDULE):  (called at forward_tiles.py)
    // forward_tiles.py: stage = b.queries.acquire()  (called at forward_tiles.py)
    ptx::mbarrier_wait_parity(queries_empty + 8 * filling, filling_parity ^ 1);
    // forward_tiles.py: px.store(b.places[stage if b.places.shape[0] == b.q.shape[0] else place], px.zeros((8,), px.i32))  (called at forward_tiles.py)
    int t_1[1];
    t_1[0] = 0;
    if ((px_lane & 24) == 0) {
      int* const p = places + filling * 8 + (px_lane & 7);
      *(p) = t_1[0];
    }
    // forward_tiles.py: b.queries.commit()  (called at forward_tiles.py)
    __syncwarp();  // all threads have passed the wait at line 159 before the elected thread goes on
    if (px_one) {
      ptx::mbarrier_arrive_shared_cta(queries_full + 8 * filling);
    }
  } else if (px_warp_id >= 4) {  // warps 4 to 11, 2 copies
    const int px_copy = (px_warp_id - 4) / 4;
    const int px_warp = (px_warp_id - 4) % 4;
    const bool px_one = (px_warp_id - 4) % 4 == 0 && ptx::elect_sync();
    int taking;
    // forward_tiles.py: with px.warps(4, 4, regs=config.regs, copies=GROUPS) as c:
    const int c = px_copy;
    // forward_tiles.py: slot = b.queries.wait()  (called at forward_tiles.py)
    ptx::mbarrier_wait_parity(queries_full, 0);
    // forward_tiles.py: self.groups, self.batch = px.load(places[place, 0]), px.load(places[place, 1])  (called at forward_tiles.py)
    const int t = *(places);
    const int t_1 = *(places + 1);
    // forward_tiles.py: self.head, self.row = px.load(places[place, 2]), px.load(places[place, 3])  (called at forward_tiles.py)
    const int t_2 = *(places + 2);
    const int t_3 = *(places + 3);
    // forward_tiles.py: px.sync()  # all have read it: what they give back from here on waits for nobody  (called at forward_tiles.py)
    ptx::bar_sync_of<128>(1 + px_copy);
    // forward_tiles.py: elif tile.groups > 0:  (called at forward_tiles.py)
    if (t > 0) {
      float o[8];
      unsigned p_1[8];
      float before_top[2];
      float before_sums[2];
      int before;
      int before_1;
      // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py)
      // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
      const int t_4 = ptx::wrap_add(ptx::wrap_add(t_3, 127), ptx::wrap_sub(K_size2, Q_size2));
      // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py)
      const int end = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_4, right), 1)));
      // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py)
      const int t_5 = ptx::maximum<int>(end, 0);
      const int high = ptx::wrap_add((t_5 >> 5), ((int)((t_5 & 31) != 0)));
      // scores.py: low = px.minimum(self.begin(first) // KEYS, high)  (called at forward_tiles.py)
      const int low = ptx::minimum<int>(0, high);
      // forward_tiles.py: low = px.maximum(px.minimum(low, high - 1), 0)  (called at forward_tiles.py)
      const int low_1 = ptx::maximum<int>((ptx::minimum<int>(low, ptx::wrap_sub(high, 1))), 0);
      // forward_tiles.py: return low, px.maximum(high, low + 1)  (called at forward_tiles.py)
      const int high_1 = ptx::maximum<int>(high, ptx::wrap_add(low_1, 1));
      // forward_tiles.py: row = tile.row + self.c * b.ROWS  (called at forward_tiles.py)
      const int row = ptx::wrap_add(t_3, ptx::wrap_mul(c, 64));
      // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py)
      // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
      const int t_6 = ptx::wrap_add(ptx::wrap_add(row, 63), ptx::wrap_sub(K_size2, Q_size2));
      // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py)
      const int end_1 = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_6, right), 1)));
      // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py)
      const int t_7 = ptx::maximum<int>(end_1, 0);
      const int high_2 = ptx::wrap_add((t_7 >> 5), ((int)((t_7 & 31) != 0)));
      // forward_tiles.py: mine = px.maximum(px.minimum(mine, high), low + 1) if self.SKIP else high  (called at forward_tiles.py)
      const int mine = ptx::maximum<int>((ptx::minimum<int>(high_2, high_1)), ptx::wrap_add(low_1, 1));
      // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
      const int t_8 = ptx::wrap_add(row, ptx::wrap_sub(K_size2, Q_size2));
      // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py)
      const int end_2 = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_8, right), 1)));
      // scores.py: high = px.maximum(self.end(first), 0) // KEYS  (called at forward_tiles.py)
      const int high_3 = (ptx::maximum<int>(end_2, 0)) >> 5;
      // scores.py: return low, px.maximum(low, high)  (called at forward_tiles.py)
      const int whole_high = ptx::maximum<int>(0, high_3);
      // forward_tiles.py: whole_high = px.maximum(px.minimum(whole_high, mine - 1), low)  (called at forward_tiles.py)
      const int t_9 = ptx::minimum<int>(whole_high, ptx::wrap_sub(mine, 1));
      const int whole_high_1 = ptx::maximum<int>(t_9, low_1);
      // forward_tiles.py: return low, mine, high - mine, px.minimum(px.maximum(whole_low, low), whole_high), whole_high  (called at forward_tiles.py)
      const int skipped = ptx::wrap_sub(high_1, mine);
      const int whole_low = ptx::minimum<int>((ptx::maximum<int>(0, low_1)), whole_high_1);
      // forward_tiles.py: for _ in range(count):  (called at forward_tiles.py)
      int taking_1 = 0;
      int taking_parity = 0;
      #pragma unroll 1
      for (int t_10 = 0; t_10 < skipped; ++t_10) {
        // forward_tiles.py: pipe.wait()  (called at forward_tiles.py)
        ptx::mbarrier_wait_parity(keys_full + 8 * taking_1, taking_parity);
        // forward_tiles.py: pipe.release()  (called at forward_tiles.py)
        ptx::bar_sync_of<128>(1 + px_copy);  // all threads have passed the wait at line 217 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(keys_empty + 8 * taking_1);
        }
        const int t_11 = ptx::wrap_add(taking_1, 1);
        const bool t_12 = t_11 == 2;
        taking_1 = t_12 ? 0 : t_11;
        taking_parity = taking_parity ^ ((int)t_12);
      }
      // forward_tiles.py: for _ in range(count):  (called at forward_tiles.py)
      // forward_tiles.py: stage = b.keys.wait()  (called at forward_tiles.py)
      ptx::mbarrier_wait_parity(keys_full + 8 * taking_1, taking_parity);
      // forward_tiles.py: s = px.empty((b.ROWS, b.KEYS), px.f32)  (called at forward_tiles.py)
      float s[16];
      // forward_tiles.py: px.wgmma(b.q[slot, self.c], b.k[stage].T, s, accumulate=False)  (called at forward_tiles.py)
      {
        const unsigned long long px_a = ptx::wgmma_descriptor(q_addr + c * 2048, 0xc000001000010000ull);
        const unsigned long long px_b = ptx::wgmma_descriptor(k_addr + taking_1 * 1024, 0xc000001000010000ull);
        ptx::keep_float<16>(s);
        ptx::wgmma_fence_sync_aligned();
        ptx::wgmma_m64n32k16_f32_bf16_bf16(s, px_a, px_b, false);
      }
      // forward_tiles.py: px.wgmma_commit()  (called at forward_tiles.py)
      ptx::wgmma_commit_group_sync_aligned();
      // forward_tiles.py: px.wgmma_wait(0)  (called at forward_tiles.py)
      ptx::wgmma_wait_group_0();
      ptx::keep_float<16>(s);
      // forward_tiles.py: b.keys.release()  (called at forward_tiles.py)
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(keys_empty + 8 * taking_1);
      }
      const int t_10 = ptx::wrap_add(taking_1, 1);
      const bool t_11 = t_10 == 2;
      // forward_tiles.py: for _ in range(count):  (called at forward_tiles.py)
      int taking_2 = 0;
      int taking_parity_1 = 0;
      #pragma unroll 1
      for (int t_12 = 0; t_12 < skipped; ++t_12) {
        // forward_tiles.py: pipe.wait()  (called at forward_tiles.py)
        ptx::mbarrier_wait_parity(values_full + 8 * taking_2, taking_parity_1);
        // forward_tiles.py: pipe.release()  (called at forward_tiles.py)
        ptx::bar_sync_of<128>(1 + px_copy);  // all threads have passed the wait at line 217 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_2);
        }
        const int t_13 = ptx::wrap_add(taking_2, 1);
        const bool t_14 = t_13 == 2;
        taking_2 = t_14 ? 0 : t_13;
        taking_parity_1 = taking_parity_1 ^ ((int)t_14);
      }
      // forward_tiles.py: for _ in range(count):  (called at forward_tiles.py)
      // forward_tiles.py: s = self.finished(s, tile, (high - 1) * b.KEYS, True)  (called at forward_tiles.py)
      const int t_12 = ptx::wrap_mul(ptx::wrap_sub(mine, 1), 32);
      // forward_tiles.py: row = tile.row + self.c * b.ROWS  (called at forward_tiles.py)
      const int row_1 = ptx::wrap_add(t_3, ptx::wrap_mul(c, 64));
      // scores.py: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py)
      // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
      const int t_13 = ptx::wrap_add(row_1, ptx::wrap_sub(K_size2, Q_size2));
      // scores.py: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py)
      const int t_14 = ptx::wrap_sub((ptx::wrap_add(ptx::wrap_add(t_13, right), 1)), t_12);
      // scores.py: columns = px.arange(KEYS).reshape(1, KEYS)  (called at forward_tiles.py)
      // scores.py: rows = px.arange(ROWS).reshape(ROWS, 1)  (called at forward_tiles.py)
      int t_15[2];
      {
        const int c0 = (px_lane >> 2) + px_warp * 16;
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          t_15[i] = c0 + i * 8;
        }
      }
      int rows[2];
      rows[0] = t_15[0];
      rows[1] = t_15[1];
      // scores.py: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py)
      int t_16[2];
      t_16[0] = ptx::wrap_add(t_14, rows[0]);
      t_16[1] = ptx::wrap_add(t_14, rows[1]);
      int t_17[2];
      t_17[0] = ptx::minimum<int>(ptx::wrap_sub(K_size2, t_12), t_16[0]);
      t_17[1] = ptx::minimum<int>(ptx::wrap_sub(K_size2, t_12), t_16[1]);
      bool ok[16];
      {
        const int c1 = (px_lane & 3) * 2;
        int limit[2];
        limit[0] = ptx::maximum<int>(t_17[0], -1) - c1;
        limit[1] = ptx::maximum<int>(t_17[1], -1) - c1;
        #pragma unroll
        for (int i = 0; i < 16; ++i) ok[i] = ((i & 1) + (i >> 2) * 8) < limit[(i >> 1) & 1];
      }
      // scores.py: return px.where(ok, s, NOTHING)  (called at forward_tiles.py)
      float s_1[16];
      #pragma unroll
      for (int i = 0; i < 16; ++i) s_1[i] = ok[i] ? s[i] : __int_as_float(0xff800000);
      // scores.py: top = shifted(px.max(s, axis=1) * factor, SHIFT)  (called at forward_tiles.py)
      float s_max[2];
      {
        float s_max_parts[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          s_max_parts[(i & 1) * 2 + ((i >> 1) & 1)] = s_1[i];
        }
        #pragma unroll
        for (int i = 4; i < 16; ++i) {
          s_max_parts[(i & 1) * 2 + ((i >> 1) & 1)] = ptx::max_NaN_f32(s_max_parts[(i & 1) * 2 + ((i >> 1) & 1)], s_1[i]);
        }
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          s_max[i] = ptx::max_NaN_f32(s_max_parts[i], s_max_parts[i + 2]);
        }
        #pragma unroll
        for (int mask = 1; mask <= 2; mask *= 2) {
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            s_max[i] = ptx::max_NaN_f32(s_max[i], ptx::shuffle_xor(s_max[i], mask));
          }
        }
      }
      float t_18[2];
      t_18[0] = s_max[0];
      t_18[1] = s_max[1];
      float top[2];
      top[0] = t_18[0] * factor;
      top[1] = t_18[1] * factor;
      // scores.py: base = px.where(top == NOTHING, 0.0, top) if EMPTY else top  (called at forward_tiles.py)
      bool t_19[2];
      t_19[0] = top[0] == __int_as_float(0xff800000);
      t_19[1] = top[1] == __int_as_float(0xff800000);
      float base[2];
      base[0] = t_19[0] ? 0.0f : top[0];
      base[1] = t_19[1] ? 0.0f : top[1];
      // scores.py: p = px.exp2(px.fma(s, factor, -base.reshape(ROWS, 1)))  (called at forward_tiles.py)
      float t_20[2];
      t_20[0] = base[0];
      t_20[1] = base[1];
      float t_21[2];
      t_21[0] = -t_20[0];
      t_21[1] = -t_20[1];
      float t_22[16];
      #pragma unroll
      for (int i = 0; i < 16; ++i) t_22[i] = fmaf(s_1[i], factor, t_21[(i >> 1) & 1]);
      float p_2[16];
      #pragma unroll
      for (int i = 0; i < 16; ++i) p_2[i] = ptx::exp2_approx(t_22[i]);
      // scores.py: eights = px.sum(p.reshape(ROWS, KEYS // 8, 8), axis=1)  (called at scores.py)
      float t_23[16];
      #pragma unroll
      for (int i = 0; i < 16; ++i) t_23[i] = p_2[i];
      float eights_sum[4];
      {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          eights_sum[i & 3] = t_23[i];
        }
        #pragma unroll
        for (int i = 4; i < 16; ++i) {
          eights_sum[i & 3] = eights_sum[i & 3] + t_23[i];
        }
      }
      float eights[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) eights[i] = eights_sum[i];
      // scores.py: return px.sum(eights.reshape(ROWS, 4, 2), axis=2)  (called at scores.py)
      float t_24[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) t_24[i] = eights[i];
      float sums_sum[2];
      {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          sums_sum[i] = 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          sums_sum[i >> 1] = sums_sum[i >> 1] + t_24[i];
        }
      }
      float sums[2];
      sums[0] = sums_sum[0];
      sums[1] = sums_sum[1];
      // forward_tiles.py: return (in_order_of_registers(powers, b.ROWS, b.KEYS) if b.NARROW else powers).to(self.TYPE)  (called at forward_tiles.py)
      px_bf16 p_3[16];
      #pragma unroll
      for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_3 + i, p_2[i], p_2[i + 1]);
      // forward_tiles.py: while True:  (called at forward_tiles.py)
      int taking_3 = 0;
      int taking_parity_2 = 0;
      int taking_4 = t_11 ? 0 : t_10;
      int taking_parity_3 = taking_parity ^ ((int)t_11);
      int taking_5 = taking_2;
      int taking_parity_4 = taking_parity_1;
      int place = 1;
      int row_2 = t_3;
      int place_1 = 0;
      int slot = 0;
      int high_4 = mine;
      int whole_low_1 = whole_low;
      int whole_high_2 = whole_high_1;
      float s_2[16];
      #pragma unroll
      for (int px_r = 0; px_r < 16; ++px_r) s_2[px_r] = s_1[px_r];
      // forward_tiles.py: state = px.zeros((b.ROWS, b.WIDE), px.f32), self.operand(powers), top, sums  (called at forward_tiles.py)
      float o_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) o_1[i] = 0.0f;
      // forward_tiles.py: while True:  (called at forward_tiles.py)
      float state_0[8];
      #pragma unroll
      for (int px_r = 0; px_r < 8; ++px_r) state_0[px_r] = o_1[px_r];
      unsigned state_1[8];
      ptx::pack_words<16>(state_1, p_3);
      float state_2[2];
      state_2[0] = top[0];
      state_2[1] = top[1];
      float state_3[2];
      state_3[0] = sums[0];
      state_3[1] = sums[1];
      while (true) {
        const int place_2 = place_1;
        const int slot_1 = slot;
        px_bf16 state_1_1[16];
        ptx::unpack_words<16>(state_1_1, state_1);
        if (!true) break;
        // forward_tiles.py: for j in range(high - 2, whole_high - 1, -1):  (called at forward_tiles.py)
        int taking_6 = taking_4;
        int taking_parity_5 = taking_parity_3;
        int taking_7 = taking_5;
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
        state_2_1[0] = state_2[0];
        state_2_1[1] = state_2[1];
        float state_3_1[2];
        state_3_1[0] = state_3[0];
        state_3_1[1] = state_3[1];
        const unsigned long long q_first = ptx::wgmma_descriptor(q_addr + slot_1 * 4096 + c * 2048, 0xc000001000010000ull);  // the same in every turn
        unsigned long long q_steps[1] = {q_first};
        ptx::hold_descriptors<1>(q_steps);
        #pragma unroll 1
        for (int j = ptx::wrap_sub(high_4, 2); j > ptx::wrap_sub(whole_high_2, 1); --j) {
          px_bf16 state_1_3[16];
          ptx::unpack_words<16>(state_1_3, state_1_2);
          // forward_tiles.py: stage = b.keys.wait()  (called at forward_tiles.py)
          ptx::mbarrier_wait_parity(keys_full + 8 * taking_6, taking_parity_5);
          // forward_tiles.py: s = px.empty((b.ROWS, b.KEYS), px.f32)  (called at forward_tiles.py)
          float s_4[16];
          // forward_tiles.py: px.wgmma(b.q[slot, self.c], b.k[stage].T, s, accumulate=False)  (called at forward_tiles.py)
          {
            const unsigned long long px_b = ptx::wgmma_descriptor(k_addr + taking_6 * 1024, 0xc000001000010000ull);
            ptx::keep_float<16>(s_4);
            ptx::wgmma_fence_sync_aligned();
            ptx::wgmma_m64n32k16_f32_bf16_bf16(s_4, q_steps[0], px_b, false);
          }
          // forward_tiles.py: px.wgmma_commit()  (called at forward_tiles.py)
          ptx::wgmma_commit_group_sync_aligned();
          // forward_tiles.py: stage = b.values.wait()  (called at forward_tiles.py)
          ptx::mbarrier_wait_parity(values_full + 8 * taking_7, taking_parity_6);
          // forward_tiles.py: px.wgmma(p, b.v[stage].T if b.NARROW else b.v[stage], o)  (called at forward_tiles.py)
          {
            unsigned px_a[8];
            ptx::pack_words<16>(px_a, state_1_3);
            const unsigned long long px_b = ptx::wgmma_descriptor(v_addr + taking_7 * 1024, 0xc000001000400000ull);
            ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_tb_x2_fenced<32>(state_0_1, px_a, px_b, true);
          }
          // forward_tiles.py: px.wgmma_commit()  (called at forward_tiles.py)
          ptx::wgmma_commit_group_sync_aligned();
          // forward_tiles.py: px.wgmma_wait(1)  (called at forward_tiles.py)
          ptx::wgmma_wait_group_1();
          ptx::keep_float<16>(s_4);
          // forward_tiles.py: b.keys.release()  (called at forward_tiles.py)
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(keys_empty + 8 * taking_6);
          }
          const int t_25 = ptx::wrap_add(taking_6, 1);
          const bool t_26 = t_25 == 2;
          // forward_tiles.py: s = self.finished(s, tile, j * b.KEYS, MASKED)  (called at forward_tiles.py)
          const int t_27 = ptx::wrap_mul(j, 32);
          // forward_tiles.py: row = tile.row + self.c * b.ROWS  (called at forward_tiles.py)
          const int row_3 = ptx::wrap_add(row_2, ptx::wrap_mul(c, 64));
          // scores.py: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py)
          // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
          const int t_28 = ptx::wrap_add(row_3, ptx::wrap_sub(K_size2, Q_size2));
          // scores.py: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py)
          const int t_29 = ptx::wrap_sub((ptx::wrap_add(ptx::wrap_add(t_28, right), 1)), t_27);
          // scores.py: columns = px.arange(KEYS).reshape(1, KEYS)  (called at forward_tiles.py)
          // scores.py: rows = px.arange(ROWS).reshape(ROWS, 1)  (called at forward_tiles.py)
          int t_30[2];
          {
            const int c0 = (px_lane >> 2) + px_warp * 16;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              t_30[i] = c0 + i * 8;
            }
          }
          int rows_1[2];
          rows_1[0] = t_30[0];
          rows_1[1] = t_30[1];
          // scores.py: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py)
          int t_31[2];
          t_31[0] = ptx::wrap_add(t_29, rows_1[0]);
          t_31[1] = ptx::wrap_add(t_29, rows_1[1]);
          int t_32[2];
          t_32[0] = ptx::minimum<int>(ptx::wrap_sub(K_size2, t_27), t_31[0]);
          t_32[1] = ptx::minimum<int>(ptx::wrap_sub(K_size2, t_27), t_31[1]);
          bool ok_1[16];
          {
            const int c1 = (px_lane & 3) * 2;
            int limit[2];
            limit[0] = ptx::maximum<int>(t_32[0], -1) - c1;
            limit[1] = ptx::maximum<int>(t_32[1], -1) - c1;
            #pragma unroll
            for (int i = 0; i < 16; ++i) ok_1[i] = ((i & 1) + (i >> 2) * 8) < limit[(i >> 1) & 1];
          }
          // scores.py: return px.where(ok, s, NOTHING)  (called at forward_tiles.py)
          float s_5[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) s_5[i] = ok_1[i] ? s_4[i] : __int_as_float(0xff800000);
          // scores.py: highest = shifted(px.max(s, axis=1) * factor, SHIFT)  (called at forward_tiles.py)
          float s_max_1[2];
          {
            float s_max_1_parts[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              s_max_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] = s_5[i];
            }
            #pragma unroll
            for (int i = 4; i < 16; ++i) {
              s_max_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] = ptx::max_NaN_f32(s_max_1_parts[(i & 1) * 2 + ((i >> 1) & 1)], s_5[i]);
            }
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              s_max_1[i] = ptx::max_NaN_f32(s_max_1_parts[i], s_max_1_parts[i + 2]);
            }
            #pragma unroll
            for (int mask = 1; mask <= 2; mask *= 2) {
              #pragma unroll
              for (int i = 0; i < 2; ++i) {
                s_max_1[i] = ptx::max_NaN_f32(s_max_1[i], ptx::shuffle_xor(s_max_1[i], mask));
              }
            }
          }
          float t_33[2];
          t_33[0] = s_max_1[0];
          t_33[1] = s_max_1[1];
          float highest[2];
          highest[0] = t_33[0] * factor;
          highest[1] = t_33[1] * factor;
          // scores.py: new = px.where(highest <= top + SLACK, top, highest)  (called at forward_tiles.py)
          float t_34[2];
          t_34[0] = state_2_1[0] + 8.0f;
          t_34[1] = state_2_1[1] + 8.0f;
          bool t_35[2];
          t_35[0] = highest[0] <= t_34[0];
          t_35[1] = highest[1] <= t_34[1];
          float v_new[2];
          v_new[0] = t_35[0] ? state_2_1[0] : highest[0];
          v_new[1] = t_35[1] ? state_2_1[1] : highest[1];
          // scores.py: base = px.where(new == NOTHING, 0.0, new) if EMPTY else new  (called at forward_tiles.py)
          bool t_36[2];
          t_36[0] = v_new[0] == __int_as_float(0xff800000);
          t_36[1] = v_new[1] == __int_as_float(0xff800000);
          float base_1[2];
          base_1[0] = t_36[0] ? 0.0f : v_new[0];
          base_1[1] = t_36[1] ? 0.0f : v_new[1];
          // scores.py: alpha = px.exp2(top - base)  (called at forward_tiles.py)
          float t_37[2];
          t_37[0] = state_2_1[0] - base_1[0];
          t_37[1] = state_2_1[1] - base_1[1];
          float alpha[2];
          alpha[0] = ptx::exp2_approx(t_37[0]);
          alpha[1] = ptx::exp2_approx(t_37[1]);
          // scores.py: p = px.exp2(px.fma(s, factor, -base.reshape(ROWS, 1)))  (called at forward_tiles.py)
          float t_38[2];
          t_38[0] = base_1[0];
          t_38[1] = base_1[1];
          float t_39[2];
          t_39[0] = -t_38[0];
          t_39[1] = -t_38[1];
          float t_40[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_40[i] = fmaf(s_5[i], factor, t_39[(i >> 1) & 1]);
          float p_4[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) p_4[i] = ptx::exp2_approx(t_40[i]);
          // scores.py: sums = sums * alpha.reshape(ROWS, 1) + partial_sums(p, ROWS, KEYS)  (called at forward_tiles.py)
          float t_41[2];
          t_41[0] = alpha[0];
          t_41[1] = alpha[1];
          float t_42[2];
          t_42[0] = state_3_1[0] * t_41[0];
          t_42[1] = state_3_1[1] * t_41[1];
          // scores.py: eights = px.sum(p.reshape(ROWS, KEYS // 8, 8), axis=1)  (called at scores.py)
          float t_43[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_43[i] = p_4[i];
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
          // scores.py: return px.sum(eights.reshape(ROWS, 4, 2), axis=2)  (called at scores.py)
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
          t_45[0] = t_sum[0];
          t_45[1] = t_sum[1];
          // scores.py: sums = sums * alpha.reshape(ROWS, 1) + partial_sums(p, ROWS, KEYS)  (called at forward_tiles.py)
          float sums_1[2];
          sums_1[0] = t_42[0] + t_45[0];
          sums_1[1] = t_42[1] + t_45[1];
          // forward_tiles.py: px.wgmma_wait(0)  (called at forward_tiles.py)
          ptx::finish(ptx::fold_bits<2>(sums_1), px_never, px_base);
          ptx::wgmma_wait_group_0();
          ptx::keep_float<16>(s_3);
          ptx::keep_float<8>(state_0_1);
          // forward_tiles.py: b.values.release()  (called at forward_tiles.py)
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_7);
          }
          const int t_46 = ptx::wrap_add(taking_7, 1);
          const bool t_47 = t_46 == 2;
          // forward_tiles.py: o = px.multiply(o, alpha.reshape(b.ROWS, 1), skip_ones=self.SLACK > 0)  (called at forward_tiles.py)
          float t_48[2];
          t_48[0] = alpha[0];
          t_48[1] = alpha[1];
          float o_2[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) o_2[i] = state_0_1[i];
          {
            bool some = false;
            some |= t_48[0] != 1.0f;
            some |= t_48[1] != 1.0f;
            if (__any_sync(0xffffffffu, some)) {
              #pragma unroll
              for (int i = 0; i < 8; ++i) o_2[i] = o_2[i] * t_48[(i >> 1) & 1];
            }
          }
          // forward_tiles.py: return (in_order_of_registers(powers, b.ROWS, b.KEYS) if b.NARROW else powers).to(self.TYPE)  (called at forward_tiles.py)
          px_bf16 p_5[16];
          #pragma unroll
          for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_5 + i, p_4[i], p_4[i + 1]);
          // forward_tiles.py: state = self.step(state, tile, slot, j, True)  (called at forward_tiles.py)
          taking_6 = t_26 ? 0 : t_25;
          taking_parity_5 = taking_parity_5 ^ ((int)t_26);
          taking_7 = t_47 ? 0 : t_46;
          taking_parity_6 = taking_parity_6 ^ ((int)t_47);
          #pragma unroll
          for (int px_r = 0; px_r < 8; ++px_r) state_0_1[px_r] = o_2[px_r];
          ptx::pack_words<16>(state_1_2, p_5);
          state_2_1[0] = v_new[0];
          state_2_1[1] = v_new[1];
          state_3_1[0] = sums_1[0];
          state_3_1[1] = sums_1[1];
        }
        // forward_tiles.py: for j in range(high - 2, whole_high - 1, -1):  (called at forward_tiles.py)
        px_bf16 state_1_3[16];
        ptx::unpack_words<16>(state_1_3, state_1_2);
        // forward_tiles.py: for j in range(whole_high - 1, whole_low - 1, -1):  (called at forward_tiles.py)
        int taking_8 = taking_6;
        int taking_parity_7 = taking_parity_5;
        int taking_9 = taking_7;
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
        state_2_2[0] = state_2_1[0];
        state_2_2[1] = state_2_1[1];
        float state_3_2[2];
        state_3_2[0] = state_3_1[0];
        state_3_2[1] = state_3_1[1];
        const unsigned long long q_first_1 = ptx::wgmma_descriptor(q_addr + slot_1 * 4096 + c * 2048, 0xc000001000010000ull);  // the same in every turn
        unsigned long long q_steps_1[1] = {q_first_1};
        ptx::hold_descriptors<1>(q_steps_1);
        #pragma unroll 1
        for (int j = ptx::wrap_sub(whole_high_2, 1); j > ptx::wrap_sub(whole_low_1, 1); --j) {
          px_bf16 state_1_5[16];
          ptx::unpack_words<16>(state_1_5, state_1_4);
          // forward_tiles.py: stage = b.keys.wait()  (called at forward_tiles.py)
          ptx::mbarrier_wait_parity(keys_full + 8 * taking_8, taking_parity_7);
          // forward_tiles.py: s = px.empty((b.ROWS, b.KEYS), px.f32)  (called at forward_tiles.py)
          float s_5[16];
          // forward_tiles.py: px.wgmma(b.q[slot, self.c], b.k[stage].T, s, accumulate=False)  (called at forward_tiles.py)
          {
            const unsigned long long px_b = ptx::wgmma_descriptor(k_addr + taking_8 * 1024, 0xc000001000010000ull);
            ptx::keep_float<16>(s_5);
            ptx::wgmma_fence_sync_aligned();
            ptx::wgmma_m64n32k16_f32_bf16_bf16(s_5, q_steps_1[0], px_b, false);
          }
          // forward_tiles.py: px.wgmma_commit()  (called at forward_tiles.py)
          ptx::wgmma_commit_group_sync_aligned();
          // forward_tiles.py: stage = b.values.wait()  (called at forward_tiles.py)
          ptx::mbarrier_wait_parity(values_full + 8 * taking_9, taking_parity_8);
          // forward_tiles.py: px.wgmma(p, b.v[stage].T if b.NARROW else b.v[stage], o)  (called at forward_tiles.py)
          {
            unsigned px_a[8];
            ptx::pack_words<16>(px_a, state_1_5);
            const unsigned long long px_b = ptx::wgmma_descriptor(v_addr + taking_9 * 1024, 0xc000001000400000ull);
            ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_tb_x2_fenced<32>(state_0_2, px_a, px_b, true);
          }
          // forward_tiles.py: px.wgmma_commit()  (called at forward_tiles.py)
          ptx::wgmma_commit_group_sync_aligned();
          // forward_tiles.py: px.wgmma_wait(1)  (called at forward_tiles.py)
          ptx::wgmma_wait_group_1();
          ptx::keep_float<16>(s_5);
          // forward_tiles.py: b.keys.release()  (called at forward_tiles.py)
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(keys_empty + 8 * taking_8);
          }
          const int t_25 = ptx::wrap_add(taking_8, 1);
          const bool t_26 = t_25 == 2;
          // scores.py: highest = shifted(px.max(s, axis=1) * factor, SHIFT)  (called at forward_tiles.py)
          float s_max_1[2];
          {
            float s_max_1_parts[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              s_max_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] = s_5[i];
            }
            #pragma unroll
            for (int i = 4; i < 16; ++i) {
              s_max_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] = ptx::max_NaN_f32(s_max_1_parts[(i & 1) * 2 + ((i >> 1) & 1)], s_5[i]);
            }
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              s_max_1[i] = ptx::max_NaN_f32(s_max_1_parts[i], s_max_1_parts[i + 2]);
            }
            #pragma unroll
            for (int mask = 1; mask <= 2; mask *= 2) {
              #pragma unroll
              for (int i = 0; i < 2; ++i) {
                s_max_1[i] = ptx::max_NaN_f32(s_max_1[i], ptx::shuffle_xor(s_max_1[i], mask));
              }
            }
          }
          float t_27[2];
          t_27[0] = s_max_1[0];
          t_27[1] = s_max_1[1];
          float highest[2];
          highest[0] = t_27[0] * factor;
          highest[1] = t_27[1] * factor;
          // scores.py: new = px.where(highest <= top + SLACK, top, highest)  (called at forward_tiles.py)
          float t_28[2];
          t_28[0] = state_2_2[0] + 8.0f;
          t_28[1] = state_2_2[1] + 8.0f;
          bool t_29[2];
          t_29[0] = highest[0] <= t_28[0];
          t_29[1] = highest[1] <= t_28[1];
          float v_new[2];
          v_new[0] = t_29[0] ? state_2_2[0] : highest[0];
          v_new[1] = t_29[1] ? state_2_2[1] : highest[1];
          // scores.py: alpha = px.exp2(top - base)  (called at forward_tiles.py)
          float t_30[2];
          t_30[0] = state_2_2[0] - v_new[0];
          t_30[1] = state_2_2[1] - v_new[1];
          float alpha[2];
          alpha[0] = ptx::exp2_approx(t_30[0]);
          alpha[1] = ptx::exp2_approx(t_30[1]);
          // scores.py: p = px.exp2(px.fma(s, factor, -base.reshape(ROWS, 1)))  (called at forward_tiles.py)
          float t_31[2];
          t_31[0] = v_new[0];
          t_31[1] = v_new[1];
          float t_32[2];
          t_32[0] = -t_31[0];
          t_32[1] = -t_31[1];
          float t_33[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_33[i] = fmaf(s_5[i], factor, t_32[(i >> 1) & 1]);
          float p_4[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) p_4[i] = ptx::exp2_approx(t_33[i]);
          // scores.py: sums = sums * alpha.reshape(ROWS, 1) + partial_sums(p, ROWS, KEYS)  (called at forward_tiles.py)
          float t_34[2];
          t_34[0] = alpha[0];
          t_34[1] = alpha[1];
          float t_35[2];
          t_35[0] = state_3_2[0] * t_34[0];
          t_35[1] = state_3_2[1] * t_34[1];
          // scores.py: eights = px.sum(p.reshape(ROWS, KEYS // 8, 8), axis=1)  (called at scores.py)
          float t_36[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_36[i] = p_4[i];
          float eights_sum_1[4];
          {
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              eights_sum_1[i & 3] = t_36[i];
            }
            #pragma unroll
            for (int i = 4; i < 16; ++i) {
              eights_sum_1[i & 3] = eights_sum_1[i & 3] + t_36[i];
            }
          }
          float eights_1[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) eights_1[i] = eights_sum_1[i];
          // scores.py: return px.sum(eights.reshape(ROWS, 4, 2), axis=2)  (called at scores.py)
          float t_37[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) t_37[i] = eights_1[i];
          float t_sum[2];
          {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              t_sum[i] = 0.0f;
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              t_sum[i >> 1] = t_sum[i >> 1] + t_37[i];
            }
          }
          float t_38[2];
          t_38[0] = t_sum[0];
          t_38[1] = t_sum[1];
          // scores.py: sums = sums * alpha.reshape(ROWS, 1) + partial_sums(p, ROWS, KEYS)  (called at forward_tiles.py)
          float sums_1[2];
          sums_1[0] = t_35[0] + t_38[0];
          sums_1[1] = t_35[1] + t_38[1];
          // forward_tiles.py: px.wgmma_wait(0)  (called at forward_tiles.py)
          ptx::finish(ptx::fold_bits<2>(sums_1), px_never, px_base);
          ptx::wgmma_wait_group_0();
          ptx::keep_float<16>(s_4);
          ptx::keep_float<8>(state_0_2);
          // forward_tiles.py: b.values.release()  (called at forward_tiles.py)
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_9);
          }
          const int t_39 = ptx::wrap_add(taking_9, 1);
          const bool t_40 = t_39 == 2;
          // forward_tiles.py: o = px.multiply(o, alpha.reshape(b.ROWS, 1), skip_ones=self.SLACK > 0)  (called at forward_tiles.py)
          float t_41[2];
          t_41[0] = alpha[0];
          t_41[1] = alpha[1];
          float o_2[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) o_2[i] = state_0_2[i];
          {
            bool some = false;
            some |= t_41[0] != 1.0f;
            some |= t_41[1] != 1.0f;
            if (__any_sync(0xffffffffu, some)) {
              #pragma unroll
              for (int i = 0; i < 8; ++i) o_2[i] = o_2[i] * t_41[(i >> 1) & 1];
            }
          }
          // forward_tiles.py: return (in_order_of_registers(powers, b.ROWS, b.KEYS) if b.NARROW else powers).to(self.TYPE)  (called at forward_tiles.py)
          px_bf16 p_5[16];
          #pragma unroll
          for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_5 + i, p_4[i], p_4[i + 1]);
          // forward_tiles.py: state = self.step(state, tile, slot, j, False)  (called at forward_tiles.py)
          taking_8 = t_26 ? 0 : t_25;
          taking_parity_7 = taking_parity_7 ^ ((int)t_26);
          taking_9 = t_40 ? 0 : t_39;
          taking_parity_8 = taking_parity_8 ^ ((int)t_40);
          #pragma unroll
          for (int px_r = 0; px_r < 8; ++px_r) state_0_2[px_r] = o_2[px_r];
          ptx::pack_words<16>(state_1_4, p_5);
          state_2_2[0] = v_new[0];
          state_2_2[1] = v_new[1];
          state_3_2[0] = sums_1[0];
          state_3_2[1] = sums_1[1];
        }
        // forward_tiles.py: for j in range(whole_high - 1, whole_low - 1, -1):  (called at forward_tiles.py)
        px_bf16 state_1_5[16];
        ptx::unpack_words<16>(state_1_5, state_1_4);
        // forward_tiles.py: slot = b.queries.wait()  (called at forward_tiles.py)
        const int t_25 = ptx::wrap_add(taking_3, 1);
        const bool t_26 = t_25 >= 2;
        const int slot_2 = t_26 ? ptx::wrap_sub(t_25, 2) : t_25;
        ptx::mbarrier_wait_parity(queries_full + 8 * slot_2, taking_parity_2 ^ ((int)t_26));
        // forward_tiles.py: return px.where(place == self.places.shape[0] - 1, 0, place + 1)  (called at forward_tiles.py)
        const int t_27 = (place == 1) ? 0 : ptx::wrap_add(place, 1);
        // forward_tiles.py: self.groups, self.batch = px.load(places[place, 0]), px.load(places[place, 1])  (called at forward_tiles.py)
        const int t_28 = *(places + slot_2 * 8);
        const int t_29 = *(places + slot_2 * 8 + 1);
        // forward_tiles.py: self.head, self.row = px.load(places[place, 2]), px.load(places[place, 3])  (called at forward_tiles.py)
        const int t_30 = *(places + slot_2 * 8 + 2);
        const int t_31 = *(places + slot_2 * 8 + 3);
        // forward_tiles.py: px.sync()  # all have read it: what they give back from here on waits for nobody  (called at forward_tiles.py)
        ptx::bar_sync_of<128>(1 + px_copy);
        // forward_tiles.py: return self.c < tile.groups if self.LEVEL else tile.groups > 0  (called at forward_tiles.py)
        // forward_tiles.py: if not self.attends(tile):  (called at forward_tiles.py)
        if (!(t_28 > 0)) {
          // forward_tiles.py: while True:  (called at forward_tiles.py)
          taking_4 = taking_8;
          taking_parity_3 = taking_parity_7;
          taking_5 = taking_9;
          taking_parity_4 = taking_parity_8;
          place = t_27;
          row_2 = t_31;
          place_1 = slot_2;
          slot = slot_2;
          #pragma unroll
          for (int px_r = 0; px_r < 16; ++px_r) s_2[px_r] = s_4[px_r];
          #pragma unroll
          for (int px_r = 0; px_r < 8; ++px_r) state_0[px_r] = state_0_2[px_r];
          ptx::pack_words<16>(state_1, state_1_5);
          state_2[0] = state_2_2[0];
          state_2[1] = state_2_2[1];
          state_3[0] = state_3_2[0];
          state_3[1] = state_3_2[1];
          #pragma unroll
          for (int px_r = 0; px_r < 8; ++px_r) o[px_r] = state_0_2[px_r];
          ptx::pack_words<16>(p_1, state_1_5);
          before_top[0] = state_2_2[0];
          before_top[1] = state_2_2[1];
          before_sums[0] = state_3_2[0];
          before_sums[1] = state_3_2[1];
          before = place_2;
          before_1 = slot_1;
          // forward_tiles.py: break  (called at forward_tiles.py)
          break;
        }
        // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py)
        // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
        const int t_32 = ptx::wrap_add(ptx::wrap_add(t_31, 127), ptx::wrap_sub(K_size2, Q_size2));
        // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py)
        const int end_3 = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_32, right), 1)));
        // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py)
        const int t_33 = ptx::maximum<int>(end_3, 0);
        const int high_5 = ptx::wrap_add((t_33 >> 5), ((int)((t_33 & 31) != 0)));
        // scores.py: low = px.minimum(self.begin(first) // KEYS, high)  (called at forward_tiles.py)
        const int low_2 = ptx::minimum<int>(0, high_5);
        // forward_tiles.py: low = px.maximum(px.minimum(low, high - 1), 0)  (called at forward_tiles.py)
        const int t_34 = ptx::minimum<int>(low_2, ptx::wrap_sub(high_5, 1));
        const int low_3 = ptx::maximum<int>(t_34, 0);
        // forward_tiles.py: return low, px.maximum(high, low + 1)  (called at forward_tiles.py)
        const int high_6 = ptx::maximum<int>(high_5, ptx::wrap_add(low_3, 1));
        // forward_tiles.py: row = tile.row + self.c * b.ROWS  (called at forward_tiles.py)
        const int row_3 = ptx::wrap_add(t_31, ptx::wrap_mul(c, 64));
        // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py)
        // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
        const int t_35 = ptx::wrap_add(ptx::wrap_add(row_3, 63), ptx::wrap_sub(K_size2, Q_size2));
        // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py)
        const int end_4 = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_35, right), 1)));
        // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_tiles.py)
        const int t_36 = ptx::maximum<int>(end_4, 0);
        const int high_7 = ptx::wrap_add((t_36 >> 5), ((int)((t_36 & 31) != 0)));
        // forward_tiles.py: mine = px.maximum(px.minimum(mine, high), low + 1) if self.SKIP else high  (called at forward_tiles.py)
        const int mine_1 = ptx::maximum<int>((ptx::minimum<int>(high_7, high_6)), ptx::wrap_add(low_3, 1));
        // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
        const int t_37 = ptx::wrap_add(row_3, ptx::wrap_sub(K_size2, Q_size2));
        // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py)
        const int end_5 = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_37, right), 1)));
        // scores.py: high = px.maximum(self.end(first), 0) // KEYS  (called at forward_tiles.py)
        const int high_8 = (ptx::maximum<int>(end_5, 0)) >> 5;
        // scores.py: return low, px.maximum(low, high)  (called at forward_tiles.py)
        const int whole_high_3 = ptx::maximum<int>(0, high_8);
        // forward_tiles.py: whole_high = px.maximum(px.minimum(whole_high, mine - 1), low)  (called at forward_tiles.py)
        const int t_38 = ptx::minimum<int>(whole_high_3, ptx::wrap_sub(mine_1, 1));
        const int whole_high_4 = ptx::maximum<int>(t_38, low_3);
        // forward_tiles.py: return low, mine, high - mine, px.minimum(px.maximum(whole_low, low), whole_high), whole_high  (called at forward_tiles.py)
        const int skipped_1 = ptx::wrap_sub(high_6, mine_1);
        const int whole_low_2 = ptx::minimum<int>((ptx::maximum<int>(0, low_3)), whole_high_4);
        // forward_tiles.py: for _ in range(count):  (called at forward_tiles.py)
        int taking_10 = taking_8;
        int taking_parity_9 = taking_parity_7;
        #pragma unroll 1
        for (int t_39 = 0; t_39 < skipped_1; ++t_39) {
          // forward_tiles.py: pipe.wait()  (called at forward_tiles.py)
          ptx::mbarrier_wait_parity(keys_full + 8 * taking_10, taking_parity_9);
          // forward_tiles.py: pipe.release()  (called at forward_tiles.py)
          ptx::bar_sync_of<128>(1 + px_copy);  // all threads have passed the wait at line 217 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(keys_empty + 8 * taking_10);
          }
          const int t_40 = ptx::wrap_add(taking_10, 1);
          const bool t_41 = t_40 == 2;
          taking_10 = t_41 ? 0 : t_40;
          taking_parity_9 = taking_parity_9 ^ ((int)t_41);
        }
        // forward_tiles.py: for _ in range(count):  (called at forward_tiles.py)
        // forward_tiles.py: stage = b.keys.wait()  (called at forward_tiles.py)
        ptx::mbarrier_wait_parity(keys_full + 8 * taking_10, taking_parity_9);
        // forward_tiles.py: s = px.empty((b.ROWS, b.KEYS), px.f32)  (called at forward_tiles.py)
        float s_5[16];
        // forward_tiles.py: px.wgmma(b.q[slot, self.c], b.k[stage].T, s, accumulate=False)  (called at forward_tiles.py)
        {
          const unsigned long long px_a = ptx::wgmma_descriptor(q_addr + slot_2 * 4096 + c * 2048, 0xc000001000010000ull);
          const unsigned long long px_b = ptx::wgmma_descriptor(k_addr + taking_10 * 1024, 0xc000001000010000ull);
          ptx::keep_float<16>(s_5);
          ptx::wgmma_fence_sync_aligned();
          ptx::wgmma_m64n32k16_f32_bf16_bf16(s_5, px_a, px_b, false);
        }
        // forward_tiles.py: px.wgmma_commit()  (called at forward_tiles.py)
        ptx::wgmma_commit_group_sync_aligned();
        // forward_tiles.py: stage = b.values.wait()  (called at forward_tiles.py)
        ptx::mbarrier_wait_parity(values_full + 8 * taking_9, taking_parity_8);
        // forward_tiles.py: px.wgmma(p, b.v[stage].T if b.NARROW else b.v[stage], o)  (called at forward_tiles.py)
        {
          unsigned px_a[8];
          ptx::pack_words<16>(px_a, state_1_5);
          const unsigned long long px_b = ptx::wgmma_descriptor(v_addr + taking_9 * 1024, 0xc000001000400000ull);
          ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_tb_x2_fenced<32>(state_0_2, px_a, px_b, true);
        }
        // forward_tiles.py: px.wgmma_commit()  (called at forward_tiles.py)
        ptx::wgmma_commit_group_sync_aligned();
        // forward_tiles.py: px.wgmma_wait(1)  (called at forward_tiles.py)
        ptx::wgmma_wait_group_1();
        ptx::keep_float<16>(s_5);
        // forward_tiles.py: b.keys.release()  (called at forward_tiles.py)
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(keys_empty + 8 * taking_10);
        }
        const int t_39 = ptx::wrap_add(taking_10, 1);
        const bool t_40 = t_39 == 2;
        // forward_tiles.py: s = self.finished(s, tile, (high - 1) * b.KEYS, True)  (called at forward_tiles.py)
        const int t_41 = ptx::wrap_mul(ptx::wrap_sub(mine_1, 1), 32);
        // forward_tiles.py: row = tile.row + self.c * b.ROWS  (called at forward_tiles.py)
        const int row_4 = ptx::wrap_add(t_31, ptx::wrap_mul(c, 64));
        // scores.py: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py)
        // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
        const int t_42 = ptx::wrap_add(row_4, ptx::wrap_sub(K_size2, Q_size2));
        // scores.py: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py)
        const int t_43 = ptx::wrap_sub((ptx::wrap_add(ptx::wrap_add(t_42, right), 1)), t_41);
        // scores.py: columns = px.arange(KEYS).reshape(1, KEYS)  (called at forward_tiles.py)
        // scores.py: rows = px.arange(ROWS).reshape(ROWS, 1)  (called at forward_tiles.py)
        int t_44[2];
        {
          const int c0 = (px_lane >> 2) + px_warp * 16;
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            t_44[i] = c0 + i * 8;
          }
        }
        int rows_1[2];
        rows_1[0] = t_44[0];
        rows_1[1] = t_44[1];
        // scores.py: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_tiles.py)
        int t_45[2];
        t_45[0] = ptx::wrap_add(t_43, rows_1[0]);
        t_45[1] = ptx::wrap_add(t_43, rows_1[1]);
        int t_46[2];
        t_46[0] = ptx::minimum<int>(ptx::wrap_sub(K_size2, t_41), t_45[0]);
        t_46[1] = ptx::minimum<int>(ptx::wrap_sub(K_size2, t_41), t_45[1]);
        bool ok_1[16];
        {
          const int c1 = (px_lane & 3) * 2;
          int limit[2];
          limit[0] = ptx::maximum<int>(t_46[0], -1) - c1;
          limit[1] = ptx::maximum<int>(t_46[1], -1) - c1;
          #pragma unroll
          for (int i = 0; i < 16; ++i) ok_1[i] = ((i & 1) + (i >> 2) * 8) < limit[(i >> 1) & 1];
        }
        // scores.py: return px.where(ok, s, NOTHING)  (called at forward_tiles.py)
        float s_6[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) s_6[i] = ok_1[i] ? s_5[i] : __int_as_float(0xff800000);
        // scores.py: top = shifted(px.max(s, axis=1) * factor, SHIFT)  (called at forward_tiles.py)
        float s_max_1[2];
        {
          float s_max_1_parts[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            s_max_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] = s_6[i];
          }
          #pragma unroll
          for (int i = 4; i < 16; ++i) {
            s_max_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] = ptx::max_NaN_f32(s_max_1_parts[(i & 1) * 2 + ((i >> 1) & 1)], s_6[i]);
          }
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            s_max_1[i] = ptx::max_NaN_f32(s_max_1_parts[i], s_max_1_parts[i + 2]);
          }
          #pragma unroll
          for (int mask = 1; mask <= 2; mask *= 2) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              s_max_1[i] = ptx::max_NaN_f32(s_max_1[i], ptx::shuffle_xor(s_max_1[i], mask));
            }
          }
        }
        float t_47[2];
        t_47[0] = s_max_1[0];
        t_47[1] = s_max_1[1];
        float top_1[2];
        top_1[0] = t_47[0] * factor;
        top_1[1] = t_47[1] * factor;
        // scores.py: base = px.where(top == NOTHING, 0.0, top) if EMPTY else top  (called at forward_tiles.py)
        bool t_48[2];
        t_48[0] = top_1[0] == __int_as_float(0xff800000);
        t_48[1] = top_1[1] == __int_as_float(0xff800000);
        float base_1[2];
        base_1[0] = t_48[0] ? 0.0f : top_1[0];
        base_1[1] = t_48[1] ? 0.0f : top_1[1];
        // scores.py: p = px.exp2(px.fma(s, factor, -base.reshape(ROWS, 1)))  (called at forward_tiles.py)
        float t_49[2];
        t_49[0] = base_1[0];
        t_49[1] = base_1[1];
        float t_50[2];
        t_50[0] = -t_49[0];
        t_50[1] = -t_49[1];
        float t_51[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_51[i] = fmaf(s_6[i], factor, t_50[(i >> 1) & 1]);
        float p_4[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) p_4[i] = ptx::exp2_approx(t_51[i]);
        // scores.py: eights = px.sum(p.reshape(ROWS, KEYS // 8, 8), axis=1)  (called at scores.py)
        float t_52[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_52[i] = p_4[i];
        float eights_sum_1[4];
        {
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            eights_sum_1[i & 3] = t_52[i];
          }
          #pragma unroll
          for (int i = 4; i < 16; ++i) {
            eights_sum_1[i & 3] = eights_sum_1[i & 3] + t_52[i];
          }
        }
        float eights_1[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) eights_1[i] = eights_sum_1[i];
        // scores.py: return px.sum(eights.reshape(ROWS, 4, 2), axis=2)  (called at scores.py)
        float t_53[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_53[i] = eights_1[i];
        float sums_sum_1[2];
        {
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            sums_sum_1[i] = 0.0f;
          }
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            sums_sum_1[i >> 1] = sums_sum_1[i >> 1] + t_53[i];
          }
        }
        float sums_1[2];
        sums_1[0] = sums_sum_1[0];
        sums_1[1] = sums_sum_1[1];
        // forward_tiles.py: px.wgmma_wait(0)  (called at forward_tiles.py)
        ptx::finish(ptx::fold_bits<2>(sums_1), px_never, px_base);
        ptx::wgmma_wait_group_0();
        ptx::keep_float<16>(s_6);
        ptx::keep_float<8>(state_0_2);
        // forward_tiles.py: b.values.release()  (called at forward_tiles.py)
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_9);
        }
        const int t_54 = ptx::wrap_add(taking_9, 1);
        const bool t_55 = t_54 == 2;
        // forward_tiles.py: for _ in range(count):  (called at forward_tiles.py)
        int taking_11 = t_55 ? 0 : t_54;
        int taking_parity_10 = taking_parity_8 ^ ((int)t_55);
        #pragma unroll 1
        for (int t_56 = 0; t_56 < skipped_1; ++t_56) {
          // forward_tiles.py: pipe.wait()  (called at forward_tiles.py)
          ptx::mbarrier_wait_parity(values_full + 8 * taking_11, taking_parity_10);
          // forward_tiles.py: pipe.release()  (called at forward_tiles.py)
          ptx::bar_sync_of<128>(1 + px_copy);  // all threads have passed the wait at line 217 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_11);
          }
          const int t_57 = ptx::wrap_add(taking_11, 1);
          const bool t_58 = t_57 == 2;
          taking_11 = t_58 ? 0 : t_57;
          taking_parity_10 = taking_parity_10 ^ ((int)t_58);
        }
        // forward_tiles.py: for _ in range(count):  (called at forward_tiles.py)
        // forward_tiles.py: return (in_order_of_registers(powers, b.ROWS, b.KEYS) if b.NARROW else powers).to(self.TYPE)  (called at forward_tiles.py)
        px_bf16 p_5[16];
        #pragma unroll
        for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_5 + i, p_4[i], p_4[i + 1]);
        // forward_tiles.py: tile.read(px.keep(place))  (called at forward_tiles.py)
        const int t_56 = ptx::keep_scalar(place_2);
        // forward_tiles.py: self.groups, self.batch = px.load(places[place, 0]), px.load(places[place, 1])  (called at forward_tiles.py)
        const int t_57 = *(places + t_56 * 8);
        const int batch = *(places + t_56 * 8 + 1);
        // forward_tiles.py: self.head, self.row = px.load(places[place, 2]), px.load(places[place, 3])  (called at forward_tiles.py)
        const int head = *(places + t_56 * 8 + 2);
        const int t_58 = *(places + t_56 * 8 + 3);
        // forward_tiles.py: row = tile.row + self.c * b.ROWS  (called at forward_tiles.py)
        const int row_5 = ptx::wrap_add(t_58, ptx::wrap_mul(c, 64));
        // scores.py: total = px.sum(sums, axis=1)  (called at forward_tiles.py)
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
        total[0] = total_sum[0];
        total[1] = total_sum[1];
        // scores.py: return px.where(total == 0.0, 0.0, px.reciprocal(total)), total  (called at forward_tiles.py)
        bool t_59[2];
        t_59[0] = total[0] == 0.0f;
        t_59[1] = total[1] == 0.0f;
        float t_60[2];
        t_60[0] = ptx::reciprocal_approx(total[0]);
        t_60[1] = ptx::reciprocal_approx(total[1]);
        float inverse[2];
        inverse[0] = t_59[0] ? 0.0f : t_60[0];
        inverse[1] = t_59[1] ? 0.0f : t_60[1];
        // forward_tiles.py: result = o * inverse.reshape(b.ROWS, 1)  (called at forward_tiles.py)
        float t_61[2];
        t_61[0] = inverse[0];
        t_61[1] = inverse[1];
        float result[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) result[i] = state_0_2[i] * t_61[(i >> 1) & 1];
        // forward_tiles.py: result = px.where(total.reshape(b.ROWS, 1) == 0.0, 0.0, result)  (called at forward_tiles.py)
        float t_62[2];
        t_62[0] = total[0];
        t_62[1] = total[1];
        bool t_63[2];
        t_63[0] = t_62[0] == 0.0f;
        t_63[1] = t_62[1] == 0.0f;
        float result_1[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) result_1[i] = t_63[(i >> 1) & 1] ? 0.0f : result[i];
        // forward_tiles.py: self.send(result.to(O.dtype), top, total, out, tile, row)  (called at forward_tiles.py)
        px_bf16 result_2[8];
        #pragma unroll
        for (int i = 0; i < 8; i += 2) ptx::bf16_pair_from_float(result_2 + i, result_1[i], result_1[i + 1]);
        // forward_tiles.py: px.assume(batch >= 0)  (called at forward_tiles.py)
        __builtin_assume(batch >= 0);
        // forward_tiles.py: px.assume(batch < O.shape[0])  (called at forward_tiles.py)
        __builtin_assume(batch < O_size0);
        // forward_tiles.py: px.assume(head >= 0)  (called at forward_tiles.py)
        __builtin_assume(head >= 0);
        // forward_tiles.py: px.assume(head < O.shape[1])  (called at forward_tiles.py)
        __builtin_assume(head < O_size1);
        // forward_tiles.py: px.assume(O.shape[3] == b.WIDE)  (called at forward_tiles.py)
        __builtin_assume(O_size3 == 16);
        // scores.py: return px.where(total == 0.0, NOTHING, (top + px.log2(total)) * LN2)  (called at forward_tiles.py)
        bool t_64[2];
        t_64[0] = total[0] == 0.0f;
        t_64[1] = total[1] == 0.0f;
        float t_65[2];
        t_65[0] = log2f(total[0]);
        t_65[1] = log2f(total[1]);
        float t_66[2];
        t_66[0] = state_2_2[0] + t_65[0];
        t_66[1] = state_2_2[1] + t_65[1];
        float t_67[2];
        t_67[0] = t_66[0] * 0.6931472f;
        t_67[1] = t_66[1] * 0.6931472f;
        float t_68[2];
        t_68[0] = t_64[0] ? __int_as_float(0xff800000) : t_67[0];
        t_68[1] = t_64[1] ? __int_as_float(0xff800000) : t_67[1];
        // forward_tiles.py: px.store(LSE[batch, head, at : at + b.ROWS], log_sums(top, total))  (called at forward_tiles.py)
        if ((px_lane & 3) == 0) {
          const unsigned x2 = (unsigned)row_5 + (px_lane >> 2) + px_warp * 16;
          float* const p = LSE.data + (batch * LSE.stride[0] + head * LSE.stride[1] + (int)x2);
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            if (ptx::inside(batch, LSE.shape[0]) && ptx::inside(head, LSE.shape[1]) && ptx::inside(x2 + i * 8, LSE.shape[2])) *(p + i * 8) = t_68[i];
          }
        }
        // forward_tiles.py: px.store(out, result[:, left : left + width] if self.PARTS > 1 else result)  (called at forward_tiles.py)
        ptx::bar_sync_of<128>(1 + px_copy);  // q was read at line 196 before q is written
        {
          const unsigned a = q_addr + 16 * (slot_1 * 256 + c * 128 + (((px_lane & 3) * 2) ^ (((px_lane >> 2) & 1) * 9) ^ (((px_lane >> 3) & 1) * 16) ^ ((px_lane >> 4)) ^ (px_warp * 32)));
          unsigned words[4];
          ptx::pack_words<8>(words, result_2);
          ptx::stmatrix_x4(a, words);
        }
        // forward_tiles.py: pieces = pieces + (px.load(out[:, column : column + step]),)  # noqa: RUF005  (called at forward_tiles.py)
        ptx::bar_sync_of<128>(1 + px_copy);  // q was written at line 411 before q is read
        px_bf16 piece[8];
        {
          px_bf16* const p = q + slot_1 * 2048 + c * 1024 + (((px_lane & 7) * 8) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 128) ^ (px_warp * 256));
          ptx::load_vector<8>(piece, p);
        }
        // forward_tiles.py: px.store(O[batch, head, at : at + b.ROWS, to : to + step], piece)  (called at forward_tiles.py)
        {
          const unsigned x2 = (unsigned)row_5 + (px_lane >> 1) + px_warp * 16;
          const int x3 = (px_lane & 1) * 8;
          px_bf16* const p = O.data + (batch * O.stride[0] + head * O.stride[1] + (int)x2 * O.stride[2] + x3);
          if (ptx::inside(batch, O.shape[0]) && ptx::inside(head, O.shape[1]) && ptx::inside(x2, O.shape[2]) && ptx::inside(x3, O.shape[3])) ptx::store_vector<8>(p, piece);
        }
        // forward_tiles.py: px.fence.async_proxy()  (called at forward_tiles.py)
        ptx::fence_proxy_async_shared_cta();
        // forward_tiles.py: b.queries.release()  (called at forward_tiles.py)
        ptx::bar_sync_of<128>(1 + px_copy);  // all threads are done with q at line 414 before the elected thread arrives
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(queries_empty + 8 * taking_3);
        }
        const int t_69 = ptx::wrap_add(taking_3, 1);
        const bool t_70 = t_69 == 2;
        // forward_tiles.py: state = px.zeros((b.ROWS, b.WIDE), px.f32), p, top, sums  (called at forward_tiles.py)
        taking_3 = t_70 ? 0 : t_69;
        taking_parity_2 = taking_parity_2 ^ ((int)t_70);
        taking_4 = t_40 ? 0 : t_39;
        taking_parity_3 = taking_parity_9 ^ ((int)t_40);
        taking_5 = taking_11;
        taking_parity_4 = taking_parity_10;
        place = t_27;
        row_2 = t_31;
        place_1 = slot_2;
        slot = slot_2;
        high_4 = mine_1;
        whole_low_1 = whole_low_2;
        whole_high_2 = whole_high_4;
        #pragma unroll
        for (int px_r = 0; px_r < 16; ++px_r) s_2[px_r] = s_6[px_r];
        float t_71[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_71[i] = 0.0f;
        #pragma unroll
        for (int px_r = 0; px_r < 8; ++px_r) state_0[px_r] = t_71[px_r];
        ptx::pack_words<16>(state_1, p_5);
        state_2[0] = top_1[0];
        state_2[1] = top_1[1];
        state_3[0] = sums_1[0];
        state_3[1] = sums_1[1];
      }
      // forward_tiles.py: while True:  (called at forward_tiles.py)
      px_bf16 p_4[16];
      ptx::unpack_words<16>(p_4, p_1);
      // forward_tiles.py: stage = b.values.wait()  (called at forward_tiles.py)
      ptx::mbarrier_wait_parity(values_full + 8 * taking_5, taking_parity_4);
      // forward_tiles.py: px.wgmma(p, b.v[stage].T if b.NARROW else b.v[stage], o)  (called at forward_tiles.py)
      {
        unsigned px_a[8];
        ptx::pack_words<16>(px_a, p_4);
        const unsigned long long px_b = ptx::wgmma_descriptor(v_addr + taking_5 * 1024, 0xc000001000400000ull);
        ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_tb_x2_fenced<32>(o, px_a, px_b, true);
      }
      // forward_tiles.py: px.wgmma_commit()  (called at forward_tiles.py)
      ptx::wgmma_commit_group_sync_aligned();
      // forward_tiles.py: px.wgmma_wait(0)  (called at forward_tiles.py)
      ptx::wgmma_wait_group_0();
      ptx::keep_float<8>(o);
      // forward_tiles.py: b.values.release()  (called at forward_tiles.py)
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_5);
      }
      // forward_tiles.py: tile.read(px.keep(place))  (called at forward_tiles.py)
      const int t_25 = ptx::keep_scalar(before);
      // forward_tiles.py: self.groups, self.batch = px.load(places[place, 0]), px.load(places[place, 1])  (called at forward_tiles.py)
      const int t_26 = *(places + t_25 * 8);
      const int batch = *(places + t_25 * 8 + 1);
      // forward_tiles.py: self.head, self.row = px.load(places[place, 2]), px.load(places[place, 3])  (called at forward_tiles.py)
      const int head = *(places + t_25 * 8 + 2);
      const int t_27 = *(places + t_25 * 8 + 3);
      // forward_tiles.py: row = tile.row + self.c * b.ROWS  (called at forward_tiles.py)
      const int row_3 = ptx::wrap_add(t_27, ptx::wrap_mul(c, 64));
      // scores.py: total = px.sum(sums, axis=1)  (called at forward_tiles.py)
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
      total[0] = total_sum[0];
      total[1] = total_sum[1];
      // scores.py: return px.where(total == 0.0, 0.0, px.reciprocal(total)), total  (called at forward_tiles.py)
      bool t_28[2];
      t_28[0] = total[0] == 0.0f;
      t_28[1] = total[1] == 0.0f;
      float t_29[2];
      t_29[0] = ptx::reciprocal_approx(total[0]);
      t_29[1] = ptx::reciprocal_approx(total[1]);
      float inverse[2];
      inverse[0] = t_28[0] ? 0.0f : t_29[0];
      inverse[1] = t_28[1] ? 0.0f : t_29[1];
      // forward_tiles.py: result = o * inverse.reshape(b.ROWS, 1)  (called at forward_tiles.py)
      float t_30[2];
      t_30[0] = inverse[0];
      t_30[1] = inverse[1];
      float result[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) result[i] = o[i] * t_30[(i >> 1) & 1];
      // forward_tiles.py: result = px.where(total.reshape(b.ROWS, 1) == 0.0, 0.0, result)  (called at forward_tiles.py)
      float t_31[2];
      t_31[0] = total[0];
      t_31[1] = total[1];
      bool t_32[2];
      t_32[0] = t_31[0] == 0.0f;
      t_32[1] = t_31[1] == 0.0f;
      float result_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) result_1[i] = t_32[(i >> 1) & 1] ? 0.0f : result[i];
      // forward_tiles.py: self.send(result.to(O.dtype), top, total, out, tile, row)  (called at forward_tiles.py)
      px_bf16 result_2[8];
      #pragma unroll
      for (int i = 0; i < 8; i += 2) ptx::bf16_pair_from_float(result_2 + i, result_1[i], result_1[i + 1]);
      // forward_tiles.py: px.assume(batch >= 0)  (called at forward_tiles.py)
      __builtin_assume(batch >= 0);
      // forward_tiles.py: px.assume(batch < O.shape[0])  (called at forward_tiles.py)
      __builtin_assume(batch < O_size0);
      // forward_tiles.py: px.assume(head >= 0)  (called at forward_tiles.py)
      __builtin_assume(head >= 0);
      // forward_tiles.py: px.assume(head < O.shape[1])  (called at forward_tiles.py)
      __builtin_assume(head < O_size1);
      // forward_tiles.py: px.assume(O.shape[3] == b.WIDE)  (called at forward_tiles.py)
      __builtin_assume(O_size3 == 16);
      // scores.py: return px.where(total == 0.0, NOTHING, (top + px.log2(total)) * LN2)  (called at forward_tiles.py)
      bool t_33[2];
      t_33[0] = total[0] == 0.0f;
      t_33[1] = total[1] == 0.0f;
      float t_34[2];
      t_34[0] = log2f(total[0]);
      t_34[1] = log2f(total[1]);
      float t_35[2];
      t_35[0] = before_top[0] + t_34[0];
      t_35[1] = before_top[1] + t_34[1];
      float t_36[2];
      t_36[0] = t_35[0] * 0.6931472f;
      t_36[1] = t_35[1] * 0.6931472f;
      float t_37[2];
      t_37[0] = t_33[0] ? __int_as_float(0xff800000) : t_36[0];
      t_37[1] = t_33[1] ? __int_as_float(0xff800000) : t_36[1];
      // forward_tiles.py: px.store(LSE[batch, head, at : at + b.ROWS], log_sums(top, total))  (called at forward_tiles.py)
      if ((px_lane & 3) == 0) {
        const unsigned x2 = (unsigned)row_3 + (px_lane >> 2) + px_warp * 16;
        float* const p = LSE.data + (batch * LSE.stride[0] + head * LSE.stride[1] + (int)x2);
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (ptx::inside(batch, LSE.shape[0]) && ptx::inside(head, LSE.shape[1]) && ptx::inside(x2 + i * 8, LSE.shape[2])) *(p + i * 8) = t_37[i];
        }
      }
      // forward_tiles.py: px.store(out, result[:, left : left + width] if self.PARTS > 1 else result)  (called at forward_tiles.py)
      ptx::bar_sync_of<128>(1 + px_copy);  // q was read at line 196 before q is written
      {
        const unsigned a = q_addr + 16 * (before_1 * 256 + c * 128 + (((px_lane & 3) * 2) ^ (((px_lane >> 2) & 1) * 9) ^ (((px_lane >> 3) & 1) * 16) ^ ((px_lane >> 4)) ^ (px_warp * 32)));
        unsigned words[4];
        ptx::pack_words<8>(words, result_2);
        ptx::stmatrix_x4(a, words);
      }
      // forward_tiles.py: pieces = pieces + (px.load(out[:, column : column + step]),)  # noqa: RUF005  (called at forward_tiles.py)
      ptx::bar_sync_of<128>(1 + px_copy);  // q was written at line 411 before q is read
      px_bf16 piece[8];
      {
        px_bf16* const p = q + before_1 * 2048 + c * 1024 + (((px_lane & 7) * 8) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 128) ^ (px_warp * 256));
        ptx::load_vector<8>(piece, p);
      }
      // forward_tiles.py: px.store(O[batch, head, at : at + b.ROWS, to : to + step], piece)  (called at forward_tiles.py)
      {
        const unsigned x2 = (unsigned)row_3 + (px_lane >> 1) + px_warp * 16;
        const int x3 = (px_lane & 1) * 8;
        px_bf16* const p = O.data + (batch * O.stride[0] + head * O.stride[1] + (int)x2 * O.stride[2] + x3);
        if (ptx::inside(batch, O.shape[0]) && ptx::inside(head, O.shape[1]) && ptx::inside(x2, O.shape[2]) && ptx::inside(x3, O.shape[3])) ptx::store_vector<8>(p, piece);
      }
      // forward_tiles.py: px.fence.async_proxy()  (called at forward_tiles.py)
      ptx::fence_proxy_async_shared_cta();
      // forward_tiles.py: b.queries.release()  (called at forward_tiles.py)
      ptx::bar_sync_of<128>(1 + px_copy);  // all threads are done with q at line 414 before the elected thread arrives
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(queries_empty + 8 * taking_3);
      }
      const int t_38 = ptx::wrap_add(taking_3, 1);
      // forward_tiles.py: elif tile.groups > 0:  (called at forward_tiles.py)
      taking = (t_38 == 2) ? 0 : t_38;
    } else {
      taking = 0;
    }
    // forward_tiles.py: b.queries.release()  (called at forward_tiles.py)
    if (px_one) {
      ptx::mbarrier_arrive_shared_cta(queries_empty + 8 * taking);
    }
  }
}
