// decode_ring(config=DecodeConfig(cluster=2, stages=3, box=64, ctas=2, rows=64, splits=1, room=0, runs=0, heads=1), form=CacheForm(dim=128, wide=128, tokens=1, group=8, page=64, narrow=False, block=64)) for sm_90a, from decode_ring.py
// 160 threads, 115296 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

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
//   barrier_cluster_arrive_relaxed_aligned
//   cluster_ctarank
//   barrier_cluster_wait_acquire_aligned
//   griddepcontrol_wait
//   griddepcontrol_launch_dependents
//   wrap_mul
//   inside
//   maximum
//   minimum
//   wrap_sub
//   wrap_add
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_4d_shared_global_cache_hint
//   elect_sync
//   load_words
//   bits
//   fill_words
//   unpack_words
//   unpack
//   store_vector
//   fence_proxy_async_shared_cta
//   bar_sync
//   wgmma_descriptor
//   keep_float
//   wgmma_fence_sync_aligned
//   wgmma_m64n64k16_f32_bf16_bf16_x8
//   wgmma_commit_group_sync_aligned
//   wgmma_wait_group_0
//   mbarrier_arrive_shared_cta
//   lane_here
//   load_vector
//   max_NaN_f32
//   shuffle_xor
//   exp2_approx
//   bf16_pair_from_float
//   pack_words
//   wgmma_m64n128k16_f32_bf16_bf16_registers_tb_x4_fenced
//   wgmma_wait_group_1
//   barrier_cluster_arrive_release_aligned
//   mapa_shared_cluster
//   load_remote
//   swizzle
//   reciprocal_approx
//   store_vector_if
//   shuffle
//   shared_address

extern "C" __global__ void __launch_bounds__(160, 2) decode_ring_kernel(
    const __grid_constant__ px_array<px_bf16, 2> Q,
    const __grid_constant__ px_array<px_bf16, 4> K,
    const __grid_constant__ px_array<px_bf16, 4> V,
    const __grid_constant__ px_array<int, 1> LENGTHS,
    const __grid_constant__ px_array<int, 2> TABLE,
    const __grid_constant__ px_array<px_bf16, 2> O,
    const __grid_constant__ px_array<float, 1> LSE,
    const float factor,
    const float v_factor,
    const int right,
    const int capacity,
    const int heads,
    const __grid_constant__ px_tensor_map K_map,
    const __grid_constant__ px_tensor_map V_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned keys_full = px_base + 115200;
  const unsigned keys_empty = px_base + 115224;
  const unsigned values_full = px_base + 115248;
  const unsigned values_empty = px_base + 115272;
  const unsigned k_addr = px_base + 16384;
  const unsigned v_addr = px_base + 65536;
  px_bf16* const q = reinterpret_cast<px_bf16*>(px_smem);
  const unsigned q_addr = px_base;
  px_bf16* const v = reinterpret_cast<px_bf16*>(px_smem + 65536);
  float* const part = reinterpret_cast<float*>(px_smem + 16384);
  float* const tops = reinterpret_cast<float*>(px_smem + 114688);
  float* const masses = reinterpret_cast<float*>(px_smem + 114944);
  const unsigned tops_addr = px_base + 114688;
  const unsigned masses_addr = px_base + 114944;
  const unsigned part_addr = px_base + 16384;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&K_map);
    ptx::prefetch_tensormap(&V_map);
  }
  // decode_ring.py: keys = px.pipe(config.stages)
  if (px_one) {
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(keys_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(keys_empty + 8 * px_i, 1);
    // decode_ring.py: values = px.pipe(config.stages)
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(values_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(values_empty + 8 * px_i, 1);
    // decode_ring.py: def decode_ring(
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // decode_terms.py: split = px.block_id(0) // config.cluster  (called at decode_ring.py)
  const int block_x = (int)blockIdx.x;
  // decode_terms.py: b = px.block_id(2)  (called at decode_ring.py)
  const int block_z = (int)blockIdx.z;
  // decode_terms.py: rows = queries_of(b, place.heads, split * px.num_blocks(2) * form.tokens * place.heads, form, config.rows)  (called at decode_ring.py)
  const int blocks_z = (int)gridDim.z;
  // decode_terms.py: b, px.block_id(1) // tiles, px.block_id(1) % tiles * BM, heads, shift, form.tokens, form.group, BM  (called at decode_terms.py)
  const int block_y = (int)blockIdx.y;
  // decode_terms.py: first = px.cluster.rank() * each  (called at decode_ring.py)
  const int rank = ptx::cluster_ctarank();
  // decode_ring.py: def decode_ring(
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // launches.py: px.wait_prior()  (called at decode_ring.py)
  ptx::griddepcontrol_wait();
  // launches.py: px.launch_dependents()  (called at decode_ring.py)
  ptx::griddepcontrol_launch_dependents();
  // decode_terms.py: split = px.block_id(0) // config.cluster  (called at decode_ring.py)
  const int split = block_x >> 1;
  // decode_terms.py: rows = queries_of(b, place.heads, split * px.num_blocks(2) * form.tokens * place.heads, form, config.rows)  (called at decode_ring.py)
  const int t = ptx::wrap_mul(ptx::wrap_mul(split, blocks_z), heads);
  // decode_terms.py: b, px.block_id(1) // tiles, px.block_id(1) % tiles * BM, heads, shift, form.tokens, form.group, BM  (called at decode_terms.py)
  const int t_1 = ptx::wrap_mul((block_y & 0), 64);
  // decode_terms.py: length = px.minimum(px.maximum(LENGTHS[rows.b].to(px.i32), 0), place.capacity)  (called at decode_ring.py)
  const int t_2 = ptx::inside(block_z, LENGTHS.shape[0]) ? *(LENGTHS.data + block_z) : 0;
  const int length = ptx::minimum<int>((ptx::maximum<int>(t_2, 0)), capacity);
  // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
  // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py)
  const int t_3 = ptx::wrap_add((ptx::wrap_add(ptx::wrap_sub(length, 1), right)), 1);
  const int end = ptx::minimum<int>(length, t_3);
  // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at decode_terms.py)
  const int t_4 = ptx::maximum<int>(end, 0);
  const int high = ptx::wrap_add((t_4 >> 6), ((int)((t_4 & 63) != 0)));
  // scores.py: low = px.minimum(self.begin(first) // KEYS, high)  (called at decode_terms.py)
  const int low = ptx::minimum<int>(0, high);
  // decode_terms.py: first = low + px.block_id(0) * (high - low) // parts  (called at decode_ring.py)
  const int t_5 = (ptx::wrap_mul(block_x, ptx::wrap_sub(high, low))) >> 1;
  const int first = ptx::wrap_add(low, t_5);
  // decode_terms.py: end = low + (px.block_id(0) + 1) * (high - low) // parts  (called at decode_ring.py)
  const int t_6 = ptx::wrap_mul(ptx::wrap_add(block_x, 1), ptx::wrap_sub(high, low));
  const int end_1 = ptx::wrap_add(low, (t_6 >> 1));
  // decode_terms.py: return Softmax(factor * scale, slope, cap)  (called at decode_ring.py)
  const float t_7 = factor * 1.0f;
  // decode_ring.py: results = Results(O, LSE, rows, v_factor * scale_of(V_SCALE, rows.h))
  const float t_8 = v_factor * 1.0f;
  // decode_ring.py: with px.warps(BM // 16, 1):
  if (px_warp_id == 4) {  // warp 4
    const bool px_one = ptx::elect_sync();
    // decode_terms.py: found = found + (px.load(TABLE[b, block * BN // PAGE + part], fill=-1).to(px.i32),)  # noqa: RUF005  (called at decode_terms.py)
    const int page = ptx::inside(block_z, TABLE.shape[0]) && ptx::inside((ptx::wrap_mul(first, 64) >> 6), TABLE.shape[1]) ? *(TABLE.data + block_z * TABLE.stride[0] + (ptx::wrap_mul(first, 64) >> 6)) : (-1);
    // decode_terms.py: following = following + (pages_of(TABLE, rows.b, mine.first + block, BN, PAGE),)  # noqa: RUF005  (called at decode_ring.py)
    // decode_terms.py: found = found + (px.load(TABLE[b, block * BN // PAGE + part], fill=-1).to(px.i32),)  # noqa: RUF005  (called at decode_terms.py)
    const int t_9 = (ptx::wrap_mul(ptx::wrap_add(first, 1), 64)) >> 6;
    const int t_10 = ptx::inside(block_z, TABLE.shape[0]) && ptx::inside(t_9, TABLE.shape[1]) ? *(TABLE.data + block_z * TABLE.stride[0] + t_9) : (-1);
    // decode_terms.py: following = following + (pages_of(TABLE, rows.b, mine.first + block, BN, PAGE),)  # noqa: RUF005  (called at decode_ring.py)
    // decode_terms.py: found = found + (px.load(TABLE[b, block * BN // PAGE + part], fill=-1).to(px.i32),)  # noqa: RUF005  (called at decode_terms.py)
    const int t_11 = (ptx::wrap_mul(ptx::wrap_add(first, 2), 64)) >> 6;
    const int t_12 = ptx::inside(block_z, TABLE.shape[0]) && ptx::inside(t_11, TABLE.shape[1]) ? *(TABLE.data + block_z * TABLE.stride[0] + t_11) : (-1);
    // decode_terms.py: following = following + (pages_of(TABLE, rows.b, mine.first + block, BN, PAGE),)  # noqa: RUF005  (called at decode_ring.py)
    // decode_terms.py: found = found + (px.load(TABLE[b, block * BN // PAGE + part], fill=-1).to(px.i32),)  # noqa: RUF005  (called at decode_terms.py)
    const int t_13 = (ptx::wrap_mul(ptx::wrap_add(first, 3), 64)) >> 6;
    const int t_14 = ptx::inside(block_z, TABLE.shape[0]) && ptx::inside(t_13, TABLE.shape[1]) ? *(TABLE.data + block_z * TABLE.stride[0] + t_13) : (-1);
    // decode_terms.py: for block in range(mine.first, mine.end):  (called at decode_ring.py)
    int filling = 0;
    int filling_parity = 0;
    int filling_1 = 0;
    int filling_parity_1 = 0;
    int following_0__0 = page;
    int following_1__0 = t_10;
    int following_2__0 = t_12;
    int following_3__0 = t_14;
    #pragma unroll 1
    for (int block = first; block < end_1; ++block) {
      // decode_terms.py: following = following[1:] + (pages_of(TABLE, rows.b, block + AHEAD, BN, PAGE),)  # noqa: RUF005  (called at decode_ring.py)
      // decode_terms.py: found = found + (px.load(TABLE[b, block * BN // PAGE + part], fill=-1).to(px.i32),)  # noqa: RUF005  (called at decode_terms.py)
      const int t_15 = (ptx::wrap_mul(ptx::wrap_add(block, 4), 64)) >> 6;
      const int t_16 = ptx::inside(block_z, TABLE.shape[0]) && ptx::inside(t_15, TABLE.shape[1]) ? *(TABLE.data + block_z * TABLE.stride[0] + t_15) : (-1);
      // decode_terms.py: with pipe.produce() as stage:  (called at decode_terms.py)
      ptx::mbarrier_wait_parity(keys_empty + 8 * filling, filling_parity ^ 1);
      __syncwarp();  // all threads have passed the wait at line 165 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(keys_full + 8 * filling, 16384);
      }
      // decode_terms.py: start = block * BN % PAGE + token  (called at decode_terms.py)
      const int start = ptx::wrap_mul(block, 64) & 63;
      // decode_terms.py: px.tma.load(source, there, pipe.full[stage], cache=HINT)  (called at decode_terms.py)
      if (px_one) {
        // tensor copy: 2 boxes of 1 x 64 x 1 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_4d_shared_global_cache_hint(k_addr + filling * 16384, &K_map, 0, block_y, start, following_0__0, keys_full + 8 * filling, 0x12f0000000000000ull);
        ptx::cp_async_bulk_tensor_4d_shared_global_cache_hint(k_addr + filling * 16384 + 8192, &K_map, 64, block_y, start, following_0__0, keys_full + 8 * filling, 0x12f0000000000000ull);
      }
      // decode_terms.py: with pipe.produce() as stage:  (called at decode_terms.py)
      const int t_17 = ptx::wrap_add(filling, 1);
      const bool t_18 = t_17 == 3;
      ptx::mbarrier_wait_parity(values_empty + 8 * filling_1, filling_parity_1 ^ 1);
      __syncwarp();  // all threads have passed the wait at line 165 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(values_full + 8 * filling_1, 16384);
      }
      // decode_terms.py: start = block * BN % PAGE + token  (called at decode_terms.py)
      const int start_1 = ptx::wrap_mul(block, 64) & 63;
      // decode_terms.py: px.tma.load(source, there, pipe.full[stage], cache=HINT)  (called at decode_terms.py)
      if (px_one) {
        // tensor copy: 2 boxes of 1 x 64 x 1 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_4d_shared_global_cache_hint(v_addr + filling_1 * 16384, &V_map, 0, block_y, start_1, following_0__0, values_full + 8 * filling_1, 0x12f0000000000000ull);
        ptx::cp_async_bulk_tensor_4d_shared_global_cache_hint(v_addr + filling_1 * 16384 + 8192, &V_map, 64, block_y, start_1, following_0__0, values_full + 8 * filling_1, 0x12f0000000000000ull);
      }
      // decode_terms.py: with pipe.produce() as stage:  (called at decode_terms.py)
      const int t_19 = ptx::wrap_add(filling_1, 1);
      const bool t_20 = t_19 == 3;
      // decode_terms.py: for part in px.static_range(len(parts)):  (called at decode_ring.py)
      filling = t_18 ? 0 : t_17;
      filling_parity = filling_parity ^ ((int)t_18);
      filling_1 = t_20 ? 0 : t_19;
      filling_parity_1 = filling_parity_1 ^ ((int)t_20);
      following_0__0 = following_1__0;
      following_1__0 = following_2__0;
      following_2__0 = following_3__0;
      following_3__0 = t_16;
    }
  } else if (px_warp_id < 4) {  // warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    int taking;
    float x[32];
    // decode_terms.py: r = self.row + first + px.arange(count)  (called at decode_terms.py)
    int t_9[4];
    {
      const int c0 = (px_lane >> 3) + px_warp_id * 4;
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        t_9[i] = c0 + i * 16;
      }
    }
    int r[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) r[i] = ptx::wrap_add(t_1, t_9[i]);
    // decode_terms.py: return px.where(r < self.T * self.G, (self.b * self.T + r // self.G) * self.heads + self.h * self.G + r % self.G, -1)  (called at decode_terms.py)
    int t_10[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) t_10[i] = r[i] >> 3;
    int t_11[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) t_11[i] = ptx::wrap_add(block_z, t_10[i]);
    int t_12[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) t_12[i] = ptx::wrap_mul(t_11[i], heads);
    int t_13[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) t_13[i] = ptx::wrap_add(t_12[i], ptx::wrap_mul(block_y, 8));
    int t_14[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) t_14[i] = r[i] & 7;
    int t_15[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) t_15[i] = ptx::wrap_add(t_13[i], t_14[i]);
    bool t_16[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) t_16[i] = r[i] < 8;
    int numbers[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) numbers[i] = t_16[i] ? t_15[i] : (-1);
    // decode_terms.py: px.store(q[:, column : column + wide], px.load(Q[numbers, column : column + wide]))  (called at decode_ring.py)
    px_bf16 t_17[32];
    {
      const int x1 = (px_lane & 7) * 8;
      px_bf16* const p = Q.data + (x1);
      unsigned words[16];
      #pragma unroll
      for (int i = 0; i < 32; i += 8) {
        if (ptx::inside(numbers[i >> 3], Q.shape[0]) && ptx::inside(x1, Q.shape[1])) ptx::load_words<8>(words + i / 2, p + numbers[i >> 3] * Q.stride[0]);
        else ptx::fill_words<8, px_bf16>(words + i / 2, (px_bf16)0x0000);
      }
      ptx::unpack_words<32>(t_17, words);
    }
    {
      px_bf16* const p = q + (((px_lane & 7) * 8) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 144) ^ ((px_warp_id & 1) * 288) ^ ((px_warp_id >> 1) * 512));
      #pragma unroll
      for (int i = 0; i < 32; i += 8) {
        ptx::store_vector<8>(p + (i >> 3) * 1024, t_17 + i);
      }
    }
    px_bf16 t_18[32];
    {
      const int x1 = 64 + (px_lane & 7) * 8;
      px_bf16* const p = Q.data + (x1);
      unsigned words[16];
      #pragma unroll
      for (int i = 0; i < 32; i += 8) {
        if (ptx::inside(numbers[i >> 3], Q.shape[0]) && ptx::inside(x1, Q.shape[1])) ptx::load_words<8>(words + i / 2, p + numbers[i >> 3] * Q.stride[0]);
        else ptx::fill_words<8, px_bf16>(words + i / 2, (px_bf16)0x0000);
      }
      ptx::unpack_words<32>(t_18, words);
    }
    {
      px_bf16* const p = q + (((px_lane & 7) * 8) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 144) ^ ((px_warp_id & 1) * 288) ^ ((px_warp_id >> 1) * 512));
      #pragma unroll
      for (int i = 0; i < 32; i += 8) {
        ptx::store_vector<8>(p + (i >> 3) * 1024 + 4096, t_18 + i);
      }
    }
    // decode_terms.py: px.fence.async_proxy()  (called at decode_ring.py)
    ptx::fence_proxy_async_shared_cta();
    // decode_terms.py: if mine.first < mine.end:  (called at decode_ring.py)
    if (first < end_1) {
      // decode_terms.py: with keys.consume() as s:  (called at decode_ring.py)
      ptx::mbarrier_wait_parity(keys_full, 0);
      // decode_terms.py: x = px.dot(q, k[s].T)  (called at decode_ring.py)
      float t_19[32];
      ptx::bar_sync<1, 128>();  // q was written at line 57 before q is read
      {
        const unsigned long long px_a = ptx::wgmma_descriptor(q_addr, 0x4000004000010000ull);
        const unsigned long long px_b = ptx::wgmma_descriptor(k_addr, 0x4000004000010000ull);
        ptx::keep_float<32>(t_19);
        ptx::wgmma_fence_sync_aligned();
        ptx::wgmma_m64n64k16_f32_bf16_bf16_x8<2, 4, 6, 512, 514, 516, 518, 2, 4, 6, 512, 514, 516, 518>(t_19, px_a, px_b, false);
      }
      ptx::wgmma_commit_group_sync_aligned();
      ptx::wgmma_wait_group_0();
      ptx::keep_float<32>(t_19);
      // decode_terms.py: with keys.consume() as s:  (called at decode_ring.py)
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(keys_empty);
      }
      // decode_terms.py: if mine.first < mine.end:  (called at decode_ring.py)
      taking = 1;
      #pragma unroll
      for (int px_r = 0; px_r < 32; ++px_r) x[px_r] = t_19[px_r];
    } else {
      taking = 0;
      // decode_terms.py: x = px.empty((BM, BN), px.f32)  (called at decode_ring.py)
      float x_1[32];
      // decode_terms.py: if mine.first < mine.end:  (called at decode_ring.py)
    }
    // decode_terms.py: for block in range(mine.first, mine.end):  (called at decode_ring.py)
    int taking_1 = taking;
    int taking_parity = 0;
    int taking_2 = 0;
    int taking_parity_1 = 0;
    // decode_terms.py: sums = px.zeros((BM, DV), px.f32)  (called at decode_ring.py)
    float sums[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] = 0.0f;
    // decode_terms.py: for block in range(mine.first, mine.end):  (called at decode_ring.py)
    float sums_1[64];
    #pragma unroll
    for (int px_r = 0; px_r < 64; ++px_r) sums_1[px_r] = sums[px_r];
    float x_1[32];
    #pragma unroll
    for (int px_r = 0; px_r < 32; ++px_r) x_1[px_r] = x[px_r];
    // decode_terms.py: top = px.full((BM,), NOTHING, px.f32)  (called at decode_ring.py)
    float top[2];
    top[0] = __int_as_float(0xff800000);
    top[1] = __int_as_float(0xff800000);
    // decode_terms.py: for block in range(mine.first, mine.end):  (called at decode_ring.py)
    float top_1[2];
    top_1[0] = top[0];
    top_1[1] = top[1];
    // decode_terms.py: mass = px.zeros((BM, 4), px.f32)  (called at decode_ring.py)
    float mass[2];
    mass[0] = 0.0f;
    mass[1] = 0.0f;
    // decode_terms.py: for block in range(mine.first, mine.end):  (called at decode_ring.py)
    float mass_1[2];
    mass_1[0] = mass[0];
    mass_1[1] = mass[1];
    ptx::bar_sync<1, 128>();  // q was written at line 57 before q is read
    #pragma unroll 1
    for (int block = first; block < end_1; ++block) {
      float x_2[32];
      int taking_3;
      int taking_parity_2;
      int taking_4;
      int taking_parity_3;
      float sums_2[64];
      float x_3[32];
      // decode_terms.py: at = values.wait()  (called at decode_ring.py)
      ptx::mbarrier_wait_parity(values_full + 8 * taking_2, taking_parity_1);
      // decode_terms.py: whole = (block * tokens >= self.reach.begin(last)) & ((block + 1) * tokens <= self.reach.end(0))  (called at decode_terms.py)
      // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
      // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at decode_terms.py)
      const int t_19 = ptx::wrap_add((ptx::wrap_add(ptx::wrap_sub(length, 1), right)), 1);
      const int end_2 = ptx::minimum<int>(length, t_19);
      // decode_terms.py: whole = (block * tokens >= self.reach.begin(last)) & ((block + 1) * tokens <= self.reach.end(0))  (called at decode_terms.py)
      const bool t_20 = (ptx::wrap_mul(ptx::wrap_add(block, 1), 64)) <= end_2;
      const bool whole = (bool)((ptx::wrap_mul(block, 64) >= 0) & t_20);
      // decode_terms.py: if not self.is_whole(block):  (called at decode_terms.py)
      if (!whole) {
        // decode_terms.py: return block * (self.BN // self.HEADS) + px.arange(self.BN) // self.HEADS  (called at decode_terms.py)
        const int lane = ptx::lane_here();
        int t_21[16];
        {
          const int c0 = (lane & 3) * 2;
          #pragma unroll
          for (int i = 0; i < 16; ++i) {
            t_21[i] = c0 + (i & 1) + (i >> 1) * 8;
          }
        }
        int t_22[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_22[i] = t_21[i] >> 0;
        int t_23[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_23[i] = ptx::wrap_add(ptx::wrap_mul(block, 64), t_22[i]);
        // decode_terms.py: keys = self.tokens(block).reshape(1, self.BN)  (called at decode_terms.py)
        int keys[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) keys[i] = t_23[i];
        // decode_terms.py: token = ((self.rows.row + px.arange(BM)) // self.rows.G).reshape(BM, 1)  (called at decode_terms.py)
        const int lane_1 = ptx::lane_here();
        int t_24[2];
        {
          const int c0 = (lane_1 >> 2) + px_warp_id * 16;
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            t_24[i] = c0 + i * 8;
          }
        }
        int t_25[2];
        t_25[0] = ptx::wrap_add(t_1, t_24[0]);
        t_25[1] = ptx::wrap_add(t_1, t_24[1]);
        int t_26[2];
        t_26[0] = t_25[0] >> 3;
        t_26[1] = t_25[1] >> 3;
        int token[2];
        token[0] = t_26[0];
        token[1] = t_26[1];
        // decode_terms.py: return px.where((keys >= self.reach.begin(token)) & (keys < self.reach.end(token)), x, NOTHING)  (called at decode_terms.py)
        bool t_27[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_27[i] = keys[i] >= 0;
        // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
        int t_28[2];
        t_28[0] = ptx::wrap_add(token[0], ptx::wrap_sub(length, 1));
        t_28[1] = ptx::wrap_add(token[1], ptx::wrap_sub(length, 1));
        // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at decode_terms.py)
        int t_29[2];
        t_29[0] = ptx::wrap_add(t_28[0], right);
        t_29[1] = ptx::wrap_add(t_28[1], right);
        int t_30[2];
        t_30[0] = ptx::wrap_add(t_29[0], 1);
        t_30[1] = ptx::wrap_add(t_29[1], 1);
        int end_3[2];
        end_3[0] = ptx::minimum<int>(length, t_30[0]);
        end_3[1] = ptx::minimum<int>(length, t_30[1]);
        // decode_terms.py: return px.where((keys >= self.reach.begin(token)) & (keys < self.reach.end(token)), x, NOTHING)  (called at decode_terms.py)
        bool t_31[32];
        #pragma unroll
        for (int i = 0; i < 32; ++i) t_31[i] = keys[(i & 1) + (i >> 2) * 2] < end_3[(i >> 1) & 1];
        bool t_32[32];
        #pragma unroll
        for (int i = 0; i < 32; ++i) t_32[i] = (bool)(t_27[(i & 1) + (i >> 2) * 2] & t_31[i]);
        float x_4[32];
        #pragma unroll
        for (int i = 0; i < 32; ++i) x_4[i] = t_32[i] ? x_1[i] : __int_as_float(0xff800000);
        // decode_terms.py: return block * (self.BN // self.HEADS) + px.arange(self.BN) // self.HEADS  (called at decode_terms.py)
        const int lane_2 = ptx::lane_here();
        int t_33[4];
        {
          const int c0 = (lane_2 >> 3) + px_warp_id * 4;
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            t_33[i] = c0 + i * 16;
          }
        }
        int t_34[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_34[i] = t_33[i] >> 0;
        int t_35[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_35[i] = ptx::wrap_add(ptx::wrap_mul(block, 64), t_34[i]);
        // decode_terms.py: keys = self.tokens(block).reshape(self.BN, 1)  (called at decode_terms.py)
        int keys_1[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) keys_1[i] = t_35[i];
        // decode_terms.py: there = (keys >= self.reach.begin(0)) & (keys < self.reach.end(self.rows.T - 1))  (called at decode_terms.py)
        bool t_36[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_36[i] = keys_1[i] >= 0;
        // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
        // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at decode_terms.py)
        const int t_37 = ptx::wrap_add((ptx::wrap_add(ptx::wrap_sub(length, 1), right)), 1);
        const int end_4 = ptx::minimum<int>(length, t_37);
        // decode_terms.py: there = (keys >= self.reach.begin(0)) & (keys < self.reach.end(self.rows.T - 1))  (called at decode_terms.py)
        bool t_38[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_38[i] = keys_1[i] < end_4;
        bool there[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) there[i] = (bool)(t_36[i] & t_38[i]);
        // decode_terms.py: px.store(values, px.where(there, px.load(values), 0.0))  (called at decode_terms.py)
        px_bf16 t_39[32];
        {
          px_bf16* const p = v + taking_2 * 8192 + (((px_lane & 7) * 8) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 144) ^ ((px_warp_id & 1) * 288) ^ ((px_warp_id >> 1) * 512));
          #pragma unroll
          for (int i = 0; i < 32; i += 8) {
            ptx::load_vector<8>(t_39 + i, p + (i >> 3) * 1024);
          }
        }
        px_bf16 t_40[32];
        #pragma unroll
        for (int i = 0; i < 32; ++i) t_40[i] = there[i >> 3] ? t_39[i] : (px_bf16)0x0000;
        ptx::bar_sync<1, 128>();  // v was read at line 118 before v is written
        {
          px_bf16* const p = v + taking_2 * 8192 + (((px_lane & 7) * 8) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 144) ^ ((px_warp_id & 1) * 288) ^ ((px_warp_id >> 1) * 512));
          #pragma unroll
          for (int i = 0; i < 32; i += 8) {
            ptx::store_vector<8>(p + (i >> 3) * 1024, t_40 + i);
          }
        }
        px_bf16 t_41[32];
        {
          px_bf16* const p = v + taking_2 * 8192 + (((px_lane & 7) * 8) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 144) ^ ((px_warp_id & 1) * 288) ^ ((px_warp_id >> 1) * 512));
          #pragma unroll
          for (int i = 0; i < 32; i += 8) {
            ptx::load_vector<8>(t_41 + i, p + (i >> 3) * 1024 + 4096);
          }
        }
        px_bf16 t_42[32];
        #pragma unroll
        for (int i = 0; i < 32; ++i) t_42[i] = there[i >> 3] ? t_41[i] : (px_bf16)0x0000;
        ptx::bar_sync<1, 128>();  // v was read at line 118 before v is written
        {
          px_bf16* const p = v + taking_2 * 8192 + (((px_lane & 7) * 8) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 144) ^ ((px_warp_id & 1) * 288) ^ ((px_warp_id >> 1) * 512));
          #pragma unroll
          for (int i = 0; i < 32; i += 8) {
            ptx::store_vector<8>(p + (i >> 3) * 1024 + 4096, t_42 + i);
          }
        }
        // decode_terms.py: px.fence.async_proxy()  (called at decode_terms.py)
        ptx::fence_proxy_async_shared_cta();
        // decode_terms.py: px.sync()  # here, and not before the product of every block  (called at decode_terms.py)
        ptx::bar_sync<1, 128>();
        // decode_terms.py: if not self.is_whole(block):  (called at decode_terms.py)
        #pragma unroll
        for (int px_r = 0; px_r < 32; ++px_r) x_2[px_r] = x_4[px_r];
      } else {
        #pragma unroll
        for (int px_r = 0; px_r < 32; ++px_r) x_2[px_r] = x_1[px_r];
      }
      // scores.py: highest = shifted(px.max(s, axis=1) * factor, SHIFT)  (called at decode_terms.py)
      float x_max[2];
      {
        float x_max_parts[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          x_max_parts[(i & 1) * 2 + ((i >> 1) & 1)] = x_2[i];
        }
        #pragma unroll
        for (int i = 4; i < 32; ++i) {
          x_max_parts[(i & 1) * 2 + ((i >> 1) & 1)] = ptx::max_NaN_f32(x_max_parts[(i & 1) * 2 + ((i >> 1) & 1)], x_2[i]);
        }
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          x_max[i] = ptx::max_NaN_f32(x_max_parts[i], x_max_parts[i + 2]);
        }
        #pragma unroll
        for (int mask = 1; mask <= 2; mask *= 2) {
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            x_max[i] = ptx::max_NaN_f32(x_max[i], ptx::shuffle_xor(x_max[i], mask));
          }
        }
      }
      float t_21[2];
      t_21[0] = x_max[0];
      t_21[1] = x_max[1];
      float highest[2];
      highest[0] = t_21[0] * t_7;
      highest[1] = t_21[1] * t_7;
      // scores.py: new = px.where(highest <= top + SLACK, top, highest)  (called at decode_terms.py)
      float t_22[2];
      t_22[0] = top_1[0] + 8.0f;
      t_22[1] = top_1[1] + 8.0f;
      bool t_23[2];
      t_23[0] = highest[0] <= t_22[0];
      t_23[1] = highest[1] <= t_22[1];
      float v_new[2];
      v_new[0] = t_23[0] ? top_1[0] : highest[0];
      v_new[1] = t_23[1] ? top_1[1] : highest[1];
      // scores.py: base = px.where(new == NOTHING, 0.0, new) if EMPTY else new  (called at decode_terms.py)
      bool t_24[2];
      t_24[0] = v_new[0] == __int_as_float(0xff800000);
      t_24[1] = v_new[1] == __int_as_float(0xff800000);
      float base[2];
      base[0] = t_24[0] ? 0.0f : v_new[0];
      base[1] = t_24[1] ? 0.0f : v_new[1];
      // scores.py: alpha = px.exp2(top - base)  (called at decode_terms.py)
      float t_25[2];
      t_25[0] = top_1[0] - base[0];
      t_25[1] = top_1[1] - base[1];
      float alpha[2];
      alpha[0] = ptx::exp2_approx(t_25[0]);
      alpha[1] = ptx::exp2_approx(t_25[1]);
      // scores.py: p = px.exp2(px.fma(s, factor, -base.reshape(ROWS, 1)))  (called at decode_terms.py)
      float t_26[2];
      t_26[0] = base[0];
      t_26[1] = base[1];
      float t_27[2];
      t_27[0] = -t_26[0];
      t_27[1] = -t_26[1];
      float t_28[32];
      #pragma unroll
      for (int i = 0; i < 32; ++i) t_28[i] = fmaf(x_2[i], t_7, t_27[(i >> 1) & 1]);
      float p_1[32];
      #pragma unroll
      for (int i = 0; i < 32; ++i) p_1[i] = ptx::exp2_approx(t_28[i]);
      // scores.py: sums = sums * alpha.reshape(ROWS, 1) + partial_sums(p, ROWS, KEYS)  (called at decode_terms.py)
      float t_29[2];
      t_29[0] = alpha[0];
      t_29[1] = alpha[1];
      float t_30[2];
      t_30[0] = mass_1[0] * t_29[0];
      t_30[1] = mass_1[1] * t_29[1];
      // scores.py: eights = px.sum(p.reshape(ROWS, KEYS // 8, 8), axis=1)  (called at scores.py)
      float t_31[32];
      #pragma unroll
      for (int i = 0; i < 32; ++i) t_31[i] = p_1[i];
      float eights_sum[4];
      {
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          eights_sum[i & 3] = t_31[i];
        }
        #pragma unroll
        for (int i = 4; i < 32; ++i) {
          eights_sum[i & 3] = eights_sum[i & 3] + t_31[i];
        }
      }
      float eights[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) eights[i] = eights_sum[i];
      // scores.py: return px.sum(eights.reshape(ROWS, 4, 2), axis=2)  (called at scores.py)
      float t_32[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) t_32[i] = eights[i];
      float t_sum[2];
      {
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          t_sum[i] = 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          t_sum[i >> 1] = t_sum[i >> 1] + t_32[i];
        }
      }
      float t_33[2];
      t_33[0] = t_sum[0];
      t_33[1] = t_sum[1];
      // scores.py: sums = sums * alpha.reshape(ROWS, 1) + partial_sums(p, ROWS, KEYS)  (called at decode_terms.py)
      float sums_3[2];
      sums_3[0] = t_30[0] + t_33[0];
      sums_3[1] = t_30[1] + t_33[1];
      // decode_terms.py: sums = px.multiply(sums, factor.reshape(BM, 1), skip_ones=True)  (called at decode_ring.py)
      float t_34[2];
      t_34[0] = alpha[0];
      t_34[1] = alpha[1];
      float sums_4[64];
      #pragma unroll
      for (int i = 0; i < 64; ++i) sums_4[i] = sums_1[i];
      {
        bool some = false;
        some |= t_34[0] != 1.0f;
        some |= t_34[1] != 1.0f;
        if (__any_sync(0xffffffffu, some)) {
          #pragma unroll
          for (int i = 0; i < 64; ++i) sums_4[i] = sums_4[i] * t_34[(i >> 1) & 1];
        }
      }
      ptx::keep_float<64>(sums_4);
      // decode_terms.py: px.wgmma(p.to(v.dtype), v[at], sums)  (called at decode_ring.py)
      px_bf16 p_2[32];
      #pragma unroll
      for (int i = 0; i < 32; i += 2) ptx::bf16_pair_from_float(p_2 + i, p_1[i], p_1[i + 1]);
      {
        unsigned px_a[16];
        ptx::pack_words<32>(px_a, p_2);
        const unsigned long long px_b = ptx::wgmma_descriptor(v_addr + taking_2 * 16384, 0x4000004002000000ull);
        ptx::keep_float<64>(sums_4);
        ptx::wgmma_m64n128k16_f32_bf16_bf16_registers_tb_x4_fenced<128, 256, 384>(sums_4, px_a, px_b, true);
      }
      // decode_terms.py: px.wgmma_commit()  (called at decode_ring.py)
      ptx::wgmma_commit_group_sync_aligned();
      // decode_terms.py: if block + 1 < mine.end:  (called at decode_ring.py)
      if (ptx::wrap_add(block, 1) < end_1) {
        // decode_terms.py: s = keys.wait()  (called at decode_ring.py)
        ptx::mbarrier_wait_parity(keys_full + 8 * taking_1, taking_parity);
        // decode_terms.py: x = px.empty((BM, BN), px.f32)  (called at decode_ring.py)
        float x_4[32];
        // decode_terms.py: px.wgmma(q, k[s].T, x, accumulate=False)  (called at decode_ring.py)
        {
          const unsigned long long px_a = ptx::wgmma_descriptor(q_addr, 0x4000004000010000ull);
          const unsigned long long px_b = ptx::wgmma_descriptor(k_addr + taking_1 * 16384, 0x4000004000010000ull);
          ptx::keep_float<32>(x_4);
          ptx::wgmma_fence_sync_aligned();
          ptx::wgmma_m64n64k16_f32_bf16_bf16_x8<2, 4, 6, 512, 514, 516, 518, 2, 4, 6, 512, 514, 516, 518>(x_4, px_a, px_b, false);
        }
        // decode_terms.py: px.wgmma_commit()  (called at decode_ring.py)
        ptx::wgmma_commit_group_sync_aligned();
        // decode_terms.py: px.wgmma_wait(1)  (called at decode_ring.py)
        ptx::wgmma_wait_group_1();
        // decode_terms.py: values.release()  (called at decode_ring.py)
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_2);
        }
        const int t_35 = ptx::wrap_add(taking_2, 1);
        const bool t_36 = t_35 == 3;
        // decode_terms.py: px.wgmma_wait(0)  (called at decode_ring.py)
        ptx::wgmma_wait_group_0();
        ptx::keep_float<64>(sums_4);
        ptx::keep_float<32>(x_4);
        // decode_terms.py: keys.release()  (called at decode_ring.py)
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(keys_empty + 8 * taking_1);
        }
        const int t_37 = ptx::wrap_add(taking_1, 1);
        const bool t_38 = t_37 == 3;
        // decode_terms.py: if block + 1 < mine.end:  (called at decode_ring.py)
        taking_3 = t_38 ? 0 : t_37;
        taking_parity_2 = taking_parity ^ ((int)t_38);
        taking_4 = t_36 ? 0 : t_35;
        taking_parity_3 = taking_parity_1 ^ ((int)t_36);
        #pragma unroll
        for (int px_r = 0; px_r < 64; ++px_r) sums_2[px_r] = sums_4[px_r];
        #pragma unroll
        for (int px_r = 0; px_r < 32; ++px_r) x_3[px_r] = x_4[px_r];
      } else {
        // decode_terms.py: px.wgmma_wait(0)  (called at decode_ring.py)
        ptx::wgmma_wait_group_0();
        ptx::keep_float<64>(sums_4);
        ptx::keep_float<32>(x_2);
        // decode_terms.py: values.release()  (called at decode_ring.py)
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(values_empty + 8 * taking_2);
        }
        const int t_35 = ptx::wrap_add(taking_2, 1);
        const bool t_36 = t_35 == 3;
        // decode_terms.py: if block + 1 < mine.end:  (called at decode_ring.py)
        taking_3 = taking_1;
        taking_parity_2 = taking_parity;
        taking_4 = t_36 ? 0 : t_35;
        taking_parity_3 = taking_parity_1 ^ ((int)t_36);
        #pragma unroll
        for (int px_r = 0; px_r < 64; ++px_r) sums_2[px_r] = sums_4[px_r];
        #pragma unroll
        for (int px_r = 0; px_r < 32; ++px_r) x_3[px_r] = x_2[px_r];
      }
      taking_1 = taking_3;
      taking_parity = taking_parity_2;
      taking_2 = taking_4;
      taking_parity_1 = taking_parity_3;
      #pragma unroll
      for (int px_r = 0; px_r < 64; ++px_r) sums_1[px_r] = sums_2[px_r];
      #pragma unroll
      for (int px_r = 0; px_r < 32; ++px_r) x_1[px_r] = x_3[px_r];
      top_1[0] = v_new[0];
      top_1[1] = v_new[1];
      mass_1[0] = sums_3[0];
      mass_1[1] = sums_3[1];
    }
    // decode_terms.py: for block in range(mine.first, mine.end):  (called at decode_ring.py)
    // decode_terms.py: return sums, top, px.sum(mass, axis=1)  (called at decode_ring.py)
    float total_sum[2];
    {
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        total_sum[i] = mass_1[i];
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
    // decode_terms.py: px.store(part, sums)  (called at decode_ring.py)
    ptx::bar_sync<1, 128>();  // k was read at line 378 before part, in its memory, is written
    {
      float* const p = part + (((px_lane & 15) * 2) ^ ((px_lane >> 4) * 36) ^ (px_warp_id * 128));
      #pragma unroll
      for (int i = 0; i < 64; i += 2) {
        ptx::store_vector<2>(p + ((i >> 1) & 1) * 64 + (i >> 2) * 512, sums_1 + i);
      }
    }
    // decode_terms.py: px.store(tops, top)  (called at decode_ring.py)
    if ((px_lane & 3) == 0) {
      float* const p = tops + (px_lane >> 2) + px_warp_id * 16;
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        *(p + i * 8) = top_1[i];
      }
    }
    // decode_terms.py: px.store(masses, total)  (called at decode_ring.py)
    if ((px_lane & 3) == 0) {
      float* const p = masses + (px_lane >> 2) + px_warp_id * 16;
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        *(p + i * 8) = total[i];
      }
    }
  }
  __syncthreads();  // the roles join
  // decode_ring.py: px.cluster.sync()
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // decode_ring.py: with px.warps(0, BM // 16):
  if (px_warp_id < 4) {  // warps 0 to 3
    // decode_terms.py: first = px.cluster.rank() * each  (called at decode_ring.py)
    const int first_1 = ptx::wrap_mul(rank, 4);
    // decode_terms.py: if first < count:  (called at decode_ring.py)
    if (first_1 < 8) {
      // decode_terms.py: top = px.maximum(top, px.load(tops.at(other)[first : first + each]))  (called at decode_ring.py)
      float t_9[1];
      {
        const unsigned a = ptx::mapa_shared_cluster(tops_addr, 0) + 4 * (first_1 + px_warp_id);
        ptx::load_remote<1>(t_9, a);
      }
      // decode_terms.py: top = px.full((each,), NOTHING, px.f32)  (called at decode_ring.py)
      float top[1];
      top[0] = __int_as_float(0xff800000);
      // decode_terms.py: top = px.maximum(top, px.load(tops.at(other)[first : first + each]))  (called at decode_ring.py)
      float top_1[1];
      top_1[0] = ptx::max_NaN_f32(top[0], t_9[0]);
      float t_10[1];
      {
        const unsigned a = ptx::mapa_shared_cluster(tops_addr, 1) + 4 * (first_1 + px_warp_id);
        ptx::load_remote<1>(t_10, a);
      }
      float top_2[1];
      top_2[0] = ptx::max_NaN_f32(top_1[0], t_10[0]);
      // decode_terms.py: base = px.where(top == NOTHING, 0.0, top)  (called at decode_ring.py)
      bool t_11[1];
      t_11[0] = top_2[0] == __int_as_float(0xff800000);
      float base[1];
      base[0] = t_11[0] ? 0.0f : top_2[0];
      // decode_terms.py: factor = px.exp2(px.load(tops.at(other)[first : first + each]) - base)  (called at decode_ring.py)
      float t_12[1];
      {
        const unsigned a = ptx::mapa_shared_cluster(tops_addr, 0) + 4 * (first_1 + px_warp_id);
        ptx::load_remote<1>(t_12, a);
      }
      float t_13[1];
      t_13[0] = t_12[0] - base[0];
      float factor_1[1];
      factor_1[0] = ptx::exp2_approx(t_13[0]);
      // decode_terms.py: total = total + factor * px.load(masses.at(other)[first : first + each])  (called at decode_ring.py)
      float t_14[1];
      {
        const unsigned a = ptx::mapa_shared_cluster(masses_addr, 0) + 4 * (first_1 + px_warp_id);
        ptx::load_remote<1>(t_14, a);
      }
      float t_15[1];
      t_15[0] = factor_1[0] * t_14[0];
      // decode_terms.py: total = px.zeros((each,), px.f32)  (called at decode_ring.py)
      float total[1];
      total[0] = 0.0f;
      // decode_terms.py: total = total + factor * px.load(masses.at(other)[first : first + each])  (called at decode_ring.py)
      float total_1[1];
      total_1[0] = total[0] + t_15[0];
      // decode_terms.py: factor = px.exp2(px.load(tops.at(other)[first : first + each]) - base)  (called at decode_ring.py)
      float t_16[1];
      {
        const unsigned a = ptx::mapa_shared_cluster(tops_addr, 1) + 4 * (first_1 + px_warp_id);
        ptx::load_remote<1>(t_16, a);
      }
      float t_17[1];
      t_17[0] = t_16[0] - base[0];
      float factor_2[1];
      factor_2[0] = ptx::exp2_approx(t_17[0]);
      // decode_terms.py: total = total + factor * px.load(masses.at(other)[first : first + each])  (called at decode_ring.py)
      float t_18[1];
      {
        const unsigned a = ptx::mapa_shared_cluster(masses_addr, 1) + 4 * (first_1 + px_warp_id);
        ptx::load_remote<1>(t_18, a);
      }
      float t_19[1];
      t_19[0] = factor_2[0] * t_18[0];
      float total_2[1];
      total_2[0] = total_1[0] + t_19[0];
      // decode_terms.py: r = self.row + first + px.arange(count)  (called at decode_terms.py)
      int t_20[1];
      {
        t_20[0] = px_warp_id;
      }
      int r[1];
      r[0] = ptx::wrap_add(ptx::wrap_add(t_1, first_1), t_20[0]);
      // decode_terms.py: return px.where(r < self.T * self.G, (self.b * self.T + r // self.G) * self.heads + self.h * self.G + r % self.G, -1)  (called at decode_terms.py)
      int t_21[1];
      t_21[0] = r[0] >> 3;
      int t_22[1];
      t_22[0] = ptx::wrap_add(block_z, t_21[0]);
      int t_23[1];
      t_23[0] = ptx::wrap_mul(t_22[0], heads);
      int t_24[1];
      t_24[0] = ptx::wrap_add(t_23[0], ptx::wrap_mul(block_y, 8));
      int t_25[1];
      t_25[0] = r[0] & 7;
      int t_26[1];
      t_26[0] = ptx::wrap_add(t_24[0], t_25[0]);
      bool t_27[1];
      t_27[0] = r[0] < 8;
      int numbers[1];
      numbers[0] = t_27[0] ? t_26[0] : (-1);
      // decode_terms.py: return px.where(numbers >= 0, numbers + self.shift, -1)  (called at decode_terms.py)
      bool t_28[1];
      t_28[0] = numbers[0] >= 0;
      int t_29[1];
      t_29[0] = ptx::wrap_add(numbers[0], t);
      int targets[1];
      targets[0] = t_28[0] ? t_29[0] : (-1);
      // decode_terms.py: sums = sums + factors[other].reshape(each, 1) * px.load(there)  (called at decode_ring.py)
      float t_30[1];
      t_30[0] = factor_1[0];
      float t_31[4];
      {
        const int c1 = px_lane * 4;
        const unsigned a = ptx::mapa_shared_cluster(part_addr, 0);
        ptx::load_remote<4>(t_31, a + 4 * (ptx::swizzle<4>((first_1 + px_warp_id) * 8 + c1 / 8 * 512 + c1 % 8)));
      }
      float t_32[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) t_32[i] = t_30[0] * t_31[i];
      // decode_terms.py: sums = px.zeros((each, min(JOINED, right - column)), px.f32)  (called at decode_ring.py)
      float sums[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) sums[i] = 0.0f;
      // decode_terms.py: sums = sums + factors[other].reshape(each, 1) * px.load(there)  (called at decode_ring.py)
      float sums_1[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) sums_1[i] = sums[i] + t_32[i];
      float t_33[1];
      t_33[0] = factor_2[0];
      float t_34[4];
      {
        const int c1 = px_lane * 4;
        const unsigned a = ptx::mapa_shared_cluster(part_addr, 1);
        ptx::load_remote<4>(t_34, a + 4 * (ptx::swizzle<4>((first_1 + px_warp_id) * 8 + c1 / 8 * 512 + c1 % 8)));
      }
      float t_35[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) t_35[i] = t_33[0] * t_34[i];
      float sums_2[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) sums_2[i] = sums_1[i] + t_35[i];
      // decode_terms.py: inverse = px.where(total == 0.0, 0.0, self.v_scale * px.reciprocal(total))  (called at decode_terms.py)
      bool t_36[1];
      t_36[0] = total_2[0] == 0.0f;
      float t_37[1];
      t_37[0] = ptx::reciprocal_approx(total_2[0]);
      float t_38[1];
      t_38[0] = t_8 * t_37[0];
      float inverse[1];
      inverse[0] = t_36[0] ? 0.0f : t_38[0];
      // decode_terms.py: return (sums * inverse.reshape(sums.shape[0], 1)).to(self.O.dtype)  (called at decode_terms.py)
      float t_39[1];
      t_39[0] = inverse[0];
      float t_40[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) t_40[i] = sums_2[i] * t_39[0];
      px_bf16 t_41[4];
      ptx::bf16_pair_from_float(t_41 + 0, t_40[0], t_40[0 + 1]);
      ptx::bf16_pair_from_float(t_41 + 2, t_40[2], t_40[2 + 1]);
      // decode_terms.py: px.store(self.O[targets, column : column + sums.shape[1]], self.scaled(sums, total))  (called at decode_ring.py)
      {
        const int x1 = px_lane * 4;
        px_bf16* const p = O.data + (x1);
        ptx::store_vector_if<4>(p + targets[0] * O.stride[0], t_41, ptx::inside(targets[0], O.shape[0]) & ptx::inside(x1, O.shape[1]));
      }
      // decode_terms.py: r = self.row + first + px.arange(count)  (called at decode_terms.py)
      int t_42[1];
      {
        const int c0 = (px_lane & 3);
        t_42[0] = c0;
      }
      int r_1[1];
      r_1[0] = ptx::wrap_add(ptx::wrap_add(t_1, first_1), t_42[0]);
      // decode_terms.py: return px.where(r < self.T * self.G, (self.b * self.T + r // self.G) * self.heads + self.h * self.G + r % self.G, -1)  (called at decode_terms.py)
      int t_43[1];
      t_43[0] = r_1[0] >> 3;
      int t_44[1];
      t_44[0] = ptx::wrap_add(block_z, t_43[0]);
      int t_45[1];
      t_45[0] = ptx::wrap_mul(t_44[0], heads);
      int t_46[1];
      t_46[0] = ptx::wrap_add(t_45[0], ptx::wrap_mul(block_y, 8));
      int t_47[1];
      t_47[0] = r_1[0] & 7;
      int t_48[1];
      t_48[0] = ptx::wrap_add(t_46[0], t_47[0]);
      bool t_49[1];
      t_49[0] = r_1[0] < 8;
      int numbers_1[1];
      numbers_1[0] = t_49[0] ? t_48[0] : (-1);
      // decode_terms.py: return px.where(numbers >= 0, numbers + self.shift, -1)  (called at decode_terms.py)
      bool t_50[1];
      t_50[0] = numbers_1[0] >= 0;
      int t_51[1];
      t_51[0] = ptx::wrap_add(numbers_1[0], t);
      int t_52[1];
      t_52[0] = t_50[0] ? t_51[0] : (-1);
      // scores.py: return px.where(total == 0.0, NOTHING, (top + px.log2(total)) * LN2)  (called at decode_terms.py)
      bool t_53[1];
      t_53[0] = total_2[0] == 0.0f;
      float t_54[1];
      t_54[0] = log2f(total_2[0]);
      float t_55[1];
      t_55[0] = top_2[0] + t_54[0];
      float t_56[1];
      t_56[0] = t_55[0] * 0.6931472f;
      float t_57[1];
      t_57[0] = t_53[0] ? __int_as_float(0xff800000) : t_56[0];
      // decode_terms.py: px.store(self.LSE[self.rows.targets(first, top.shape[0])], log_sums(top, total))  (called at decode_terms.py)
      int t_58[1];
      {
        const int from = (px_lane >> 2) * 4 + px_warp_id;
        {
          const auto got0 = ptx::shuffle(t_52[0], from);
          t_58[0] = got0;
        }
      }
      if (px_lane == 0) {
        if (ptx::inside(t_58[0], LSE.shape[0])) *(LSE.data + t_58[0]) = t_57[0];
      }
    }
  }
  // decode_ring.py: def decode_ring(
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
