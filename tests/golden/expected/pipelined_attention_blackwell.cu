// attention(D=64, ROWS=128, KEYS=32) for sm_100a, from attention.py:9
// 384 threads, 99744 bytes of shared memory

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
//   tcgen05_alloc_cta_group_1_128
//   tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned
//   mbarrier_init_shared_cta
//   fence_mbarrier_init_release_cluster
//   wrap_add
//   wrap_mul
//   setmaxnreg_dec
//   floor_div
//   floor_mod
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_3d_shared_global
//   elect_sync
//   setmaxnreg_inc
//   tcgen05_fence_after_thread_sync
//   tcgen05_mma_cta_group_1_f16
//   tcgen05_descriptor
//   tcgen05_fence_before_thread_sync
//   bar_sync
//   tcgen05_commit_cta_group_1
//   tcgen05_ld_32x32b_x16_float
//   tcgen05_wait_ld_sync_aligned
//   keep_float
//   mbarrier_arrive_shared_cta
//   max_NaN_f32
//   exp2_approx
//   bf16_pair_from_float
//   bits
//   shuffle
//   tcgen05_st_16x256b_x4_float
//   tcgen05_wait_st_sync_aligned
//   pack_words
//   tcgen05_st_32x32b_x8_unsigned
//   tcgen05_mma_cta_group_1_f16_tmem
//   tcgen05_ld_16x256b_x4_float
//   cp_async_bulk_wait_group_read_0
//   stmatrix_x4
//   fence_proxy_async_shared_cta
//   cp_async_bulk_tensor_3d_global_shared
//   cp_async_bulk_commit_group
//   cp_async_bulk_wait_group_0
//   tcgen05_dealloc_cta_group_1_128
//   shared_address

extern "C" __global__ void __launch_bounds__(384, 1) attention_kernel(
    const __grid_constant__ px_array<px_bf16, 3> Q,
    const __grid_constant__ px_array<px_bf16, 3> K,
    const __grid_constant__ px_array<px_bf16, 3> V,
    const __grid_constant__ px_array<px_bf16, 3> O,
    const __grid_constant__ px_tensor_map Q_map,
    const __grid_constant__ px_tensor_map K_map,
    const __grid_constant__ px_tensor_map V_map,
    const __grid_constant__ px_tensor_map O_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned tmem_address_addr = px_base + 98304;
  const unsigned K_full = px_base + 99456;
  const unsigned K_empty = px_base + 99520;
  const unsigned V_full = px_base + 99584;
  const unsigned V_empty = px_base + 99648;
  const unsigned Q_full = px_base + 99712;
  const unsigned Q_empty = px_base + 99720;
  const unsigned dot_done = px_base + 99728;
  unsigned* const tmem_address = reinterpret_cast<unsigned*>(px_smem + 98304);
  const unsigned Q_ring_addr = px_base + 65536;
  const unsigned K_ring_addr = px_base;
  const unsigned V_ring_addr = px_base + 32768;
  const unsigned O_out_addr = px_base + 81920;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&Q_map);
    ptx::prefetch_tensormap(&K_map);
    ptx::prefetch_tensormap(&V_map);
    ptx::prefetch_tensormap(&O_map);
  }
  // attention.py:17: s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
  if (px_warp_id == 0) {
    // acc_tmem: accumulator, columns 0 to 31
    // o_tmem: accumulator, columns 32 to 95
    // p_tmem: operand, columns 96 to 111
    ptx::tcgen05_alloc_cta_group_1_128(tmem_address_addr);
    ptx::tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned();
  }
  // attention.py:16: k, v = px.load(K[head, j : j + KEYS, 0:D]), px.load(V[head, j : j + KEYS, 0:D])
  if (px_one) {
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(K_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(K_empty + 8 * px_i, 8);
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(V_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(V_empty + 8 * px_i, 8);
    // attention.py:13: q, o = px.load(Q[head, row : row + ROWS, 0:D]), px.zeros((ROWS, D), px.f32)
    ptx::mbarrier_init_shared_cta(Q_full, 1);
    ptx::mbarrier_init_shared_cta(Q_empty, 8);
    // attention.py:17: s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
    ptx::mbarrier_init_shared_cta(dot_done, 1);
    // attention.py:9: def attention(Q, K, V, O, *, D=128, ROWS=128, KEYS=128):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // attention.py:10: rows = px.cdiv(Q.shape[1], ROWS)
  const int Q_size0 = Q.shape[0];
  const int Q_size1 = Q.shape[1];
  // attention.py:11: for t in px.persistent(Q.shape[0] * rows):
  const int cluster = (int)blockIdx.x + (int)gridDim.x * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int clusters = (int)gridDim.x * (int)gridDim.y * (int)gridDim.z;
  // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
  const int K_size1 = K.shape[1];
  // attention.py:10: rows = px.cdiv(Q.shape[1], ROWS)
  const int rows = ptx::wrap_add((Q_size1 >> 7), ((int)((Q_size1 & 127) != 0)));
  // attention.py:11: for t in px.persistent(Q.shape[0] * rows):
  const int t = ptx::wrap_mul(Q_size0, rows);
  // attention.py:9: def attention(Q, K, V, O, *, D=128, ROWS=128, KEYS=128):
  __syncthreads();  // barriers are initialised before their first use
  // attention.py:17: s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
  const unsigned px_tmem = *(volatile unsigned*)tmem_address;
  // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
  __syncthreads();  // all threads are done with tmem_address at line 17 before the elected thread arrives
  if (px_warp_id >= 8) {  // producer: warp 8
    const bool px_one = ptx::elect_sync();
    ptx::setmaxnreg_dec<40>();
    if (px_warp_id == 8) {
      int fill_stage = 0;
      int fill_parity = 0;
      int fill_stage_1 = 0;
      int fill_parity_1 = 0;
      int fill_stage_2 = 0;
      int fill_parity_2 = 0;
      // attention.py:11: for t in px.persistent(Q.shape[0] * rows):
      #pragma unroll 1
      for (int t_1 = cluster; t_1 < t; t_1 += clusters) {
        // attention.py:12: head, row = t // rows, t % rows * ROWS
        const int head = ptx::floor_div<int>(t_1, rows);
        const int row = ptx::wrap_mul((ptx::floor_mod<int>(t_1, rows)), 128);
        // attention.py:13: q, o = px.load(Q[head, row : row + ROWS, 0:D]), px.zeros((ROWS, D), px.f32)
        ptx::mbarrier_wait_parity(Q_empty + 8 * fill_stage_2, fill_parity_2 ^ 1);
        __syncwarp();  // all threads have passed the wait at line 13 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(Q_full + 8 * fill_stage_2, 16384);
          // tensor copy: a box of 1 x 128 x 64, 128-byte swizzle
          ptx::cp_async_bulk_tensor_3d_shared_global(Q_ring_addr + fill_stage_2 * 16384, &Q_map, 0, row, head, Q_full + 8 * fill_stage_2);
        }
        const int t_2 = ptx::wrap_add(fill_stage_2, 1);
        const bool wraps = t_2 == 1;
        fill_parity_2 = fill_parity_2 ^ ((int)wraps);
        fill_stage_2 = wraps ? 0 : t_2;
        // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
        #pragma unroll 1
        for (int j = 0; j < K_size1; j += 32) {
          // attention.py:16: k, v = px.load(K[head, j : j + KEYS, 0:D]), px.load(V[head, j : j + KEYS, 0:D])
          ptx::mbarrier_wait_parity(K_empty + 8 * fill_stage, fill_parity ^ 1);
          __syncwarp();  // all threads have passed the wait at line 16 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(K_full + 8 * fill_stage, 4096);
            // tensor copy: a box of 1 x 32 x 64, 128-byte swizzle
            ptx::cp_async_bulk_tensor_3d_shared_global(K_ring_addr + fill_stage * 4096, &K_map, 0, j, head, K_full + 8 * fill_stage);
          }
          const int t_3 = ptx::wrap_add(fill_stage, 1);
          const bool wraps_1 = t_3 == 8;
          fill_parity = fill_parity ^ ((int)wraps_1);
          fill_stage = wraps_1 ? 0 : t_3;
          ptx::mbarrier_wait_parity(V_empty + 8 * fill_stage_1, fill_parity_1 ^ 1);
          __syncwarp();  // all threads have passed the wait at line 16 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(V_full + 8 * fill_stage_1, 4096);
            // tensor copy: a box of 1 x 32 x 64, 128-byte swizzle
            ptx::cp_async_bulk_tensor_3d_shared_global(V_ring_addr + fill_stage_1 * 4096, &V_map, 0, j, head, V_full + 8 * fill_stage_1);
          }
          const int t_4 = ptx::wrap_add(fill_stage_1, 1);
          const bool wraps_2 = t_4 == 8;
          fill_parity_1 = fill_parity_1 ^ ((int)wraps_2);
          fill_stage_1 = wraps_2 ? 0 : t_4;
        }
      }
    }
  } else if (px_warp_id < 8) {  // consumer: warps 0 to 7
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    const bool px_warp_one = ptx::elect_sync();
    ptx::setmaxnreg_inc<232>();
    // attention.py:17: s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
    int dot_phase = 0;
    // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
    int take_stage = 0;
    int take_parity = 0;
    int take_stage_1 = 0;
    int take_parity_1 = 0;
    int take_stage_2 = 0;
    int take_parity_2 = 0;
    // attention.py:11: for t in px.persistent(Q.shape[0] * rows):
    #pragma unroll 1
    for (int t_1 = cluster; t_1 < t; t_1 += clusters) {
      // attention.py:12: head, row = t // rows, t % rows * ROWS
      const int head = ptx::floor_div<int>(t_1, rows);
      const int row = ptx::wrap_mul((ptx::floor_mod<int>(t_1, rows)), 128);
      // attention.py:13: q, o = px.load(Q[head, row : row + ROWS, 0:D]), px.zeros((ROWS, D), px.f32)
      float o[32];
      #pragma unroll
      for (int i = 0; i < 32; ++i) o[i] = 0.0f;
      // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
      float o_1[32];
      #pragma unroll
      for (int px_r = 0; px_r < 32; ++px_r) o_1[px_r] = o[px_r];
      // attention.py:14: top, total, scale = px.full((ROWS,), -float("inf"), px.f32), px.zeros((ROWS,), px.f32), 1.4427 * D**-0.5
      float top[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) top[i] = __int_as_float(0xff800000);
      // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
      float top_1[1];
      #pragma unroll
      for (int px_r = 0; px_r < 1; ++px_r) top_1[px_r] = top[px_r];
      // attention.py:14: top, total, scale = px.full((ROWS,), -float("inf"), px.f32), px.zeros((ROWS,), px.f32), 1.4427 * D**-0.5
      float total[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) total[i] = 0.0f;
      // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
      float total_1[1];
      #pragma unroll
      for (int px_r = 0; px_r < 1; ++px_r) total_1[px_r] = total[px_r];
      // attention.py:13: q, o = px.load(Q[head, row : row + ROWS, 0:D]), px.zeros((ROWS, D), px.f32)
      const int take_stage_3 = take_stage_2;
      ptx::mbarrier_wait_parity(Q_full + 8 * take_stage_3, take_parity_2);
      const int t_2 = ptx::wrap_add(take_stage_3, 1);
      const bool wraps = t_2 == 1;
      take_parity_2 = take_parity_2 ^ ((int)wraps);
      take_stage_2 = wraps ? 0 : t_2;
      // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
      #pragma unroll 1
      for (int j = 0; j < K_size1; j += 32) {
        // attention.py:16: k, v = px.load(K[head, j : j + KEYS, 0:D]), px.load(V[head, j : j + KEYS, 0:D])
        const int take_stage_4 = take_stage;
        ptx::mbarrier_wait_parity(K_full + 8 * take_stage_4, take_parity);
        const int t_3 = ptx::wrap_add(take_stage_4, 1);
        const bool wraps_1 = t_3 == 8;
        take_parity = take_parity ^ ((int)wraps_1);
        take_stage = wraps_1 ? 0 : t_3;
        // attention.py:17: s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
        ptx::tcgen05_fence_after_thread_sync();
        if (px_one) {
          {
            const unsigned long long px_a = ptx::tcgen05_descriptor(Q_ring_addr, 0x4000404000010000ull);
            const unsigned long long px_b = ptx::tcgen05_descriptor(K_ring_addr + take_stage_4 * 4096, 0x4000404000010000ull);
            const unsigned px_d = px_tmem;
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a, px_b, 0x8080490u, false);
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 2, px_b + 2, 0x8080490u, true);
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 4, px_b + 4, 0x8080490u, true);
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 6, px_b + 6, 0x8080490u, true);
          }
        }
        ptx::tcgen05_fence_before_thread_sync();
        ptx::bar_sync<1, 256>();  // all threads have passed the wait at line 13 before the elected thread goes on
        if (px_one) {
          ptx::tcgen05_commit_cta_group_1(dot_done);
        }
        ptx::mbarrier_wait_parity(dot_done, dot_phase);
        dot_phase = dot_phase ^ 1;
        ptx::tcgen05_fence_after_thread_sync();
        float t_4[16];
        // 32x32b: 1 of each warp
        {
          const unsigned px_at = px_tmem + (px_warp_id % 4 << 21) + px_warp_id / 4 * 16;
          ptx::tcgen05_ld_32x32b_x16_float(t_4, px_at);
        }
        ptx::tcgen05_wait_ld_sync_aligned();
        ptx::keep_float<16>(t_4);
        ptx::tcgen05_fence_before_thread_sync();
        __syncwarp();  // all lanes of this warp are done with the stage
        if (px_warp_one) {
          ptx::mbarrier_arrive_shared_cta(K_empty + 8 * take_stage_4);
        }
        int t_5[16];
        {
          const int c0 = (px_warp_id >> 2) * 16;
          #pragma unroll
          for (int i = 0; i < 16; ++i) {
            t_5[i] = c0 + i;
          }
        }
        int t_6[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_6[i] = t_5[i];
        int t_7[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_7[i] = ptx::wrap_add(j, t_6[i]);
        bool t_8[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_8[i] = t_7[i] < K_size1;
        float s[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) s[i] = t_8[i] ? t_4[i] : __int_as_float(0xff800000);
        // attention.py:18: new = px.maximum(top, px.max(s, axis=1))
        float s_max[1];
        {
          float s_max_parts[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            s_max_parts[i & 3] = s[i];
          }
          #pragma unroll
          for (int i = 4; i < 16; ++i) {
            s_max_parts[i & 3] = ptx::max_NaN_f32(s_max_parts[i & 3], s[i]);
          }
          s_max[0] = ptx::max_NaN_f32(ptx::max_NaN_f32(ptx::max_NaN_f32(s_max_parts[0], s_max_parts[1]), s_max_parts[2]), s_max_parts[3]);
          float* const partial = reinterpret_cast<float*>((px_smem + 98432));
          const int k0 = px_lane + (px_warp_id & 3) * 32;
          const int part = (px_warp_id >> 2);
          ptx::bar_sync<1, 256>();  // scratch memory is free
          {
            partial[part * 128 + k0] = s_max[0];
          }
          ptx::bar_sync<1, 256>();
          s_max[0] = partial[k0];
          #pragma unroll
          for (int j_1 = 1; j_1 < 2; ++j_1) {
            s_max[0] = ptx::max_NaN_f32(s_max[0], partial[j_1 * 128 + k0]);
          }
        }
        float t_9[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) t_9[i] = s_max[i];
        float v_new[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) v_new[i] = ptx::max_NaN_f32(top_1[0], t_9[0]);
        // attention.py:19: p, faded = px.exp2(s * scale - (new * scale)[:, None]), px.exp2((top - new) * scale)
        float t_10[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_10[i] = s[i] * 0.1803375f;
        float t_11[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) t_11[i] = v_new[0] * 0.1803375f;
        float t_12[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) t_12[i] = t_11[i];
        float t_13[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_13[i] = t_10[i] - t_12[0];
        float p[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) p[i] = ptx::exp2_approx(t_13[i]);
        float t_14[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) t_14[i] = top_1[0] - v_new[0];
        float t_15[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) t_15[i] = t_14[0] * 0.1803375f;
        float faded[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) faded[i] = ptx::exp2_approx(t_15[0]);
        // attention.py:20: total, top = total * faded + px.sum(p, axis=1), new
        float t_16[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) t_16[i] = total_1[0] * faded[0];
        float p_sum[1];
        {
          float p_sum_parts[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            p_sum_parts[i & 3] = p[i];
          }
          #pragma unroll
          for (int i = 4; i < 16; ++i) {
            p_sum_parts[i & 3] = p_sum_parts[i & 3] + p[i];
          }
          p_sum[0] = ((p_sum_parts[0] + p_sum_parts[1]) + p_sum_parts[2]) + p_sum_parts[3];
          float* const partial = reinterpret_cast<float*>((px_smem + 98432));
          const int k0 = px_lane + (px_warp_id & 3) * 32;
          const int part = (px_warp_id >> 2);
          ptx::bar_sync<1, 256>();  // scratch memory is free
          {
            partial[part * 128 + k0] = p_sum[0];
          }
          ptx::bar_sync<1, 256>();
          p_sum[0] = partial[k0];
          #pragma unroll
          for (int j_1 = 1; j_1 < 2; ++j_1) {
            p_sum[0] = p_sum[0] + partial[j_1 * 128 + k0];
          }
        }
        float t_17[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) t_17[i] = p_sum[i];
        float total_2[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) total_2[i] = t_16[0] + t_17[0];
        // attention.py:21: o = px.dot(p.to(V.dtype), v, o * faded[:, None])
        px_bf16 p_1[16];
        #pragma unroll
        for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_1 + i, p[i], p[i + 1]);
        float t_18[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) t_18[i] = faded[i];
        float t_19[4];
        {
          const int from = (px_lane >> 2);
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            const auto got0 = ptx::shuffle(t_18[0], from ^ i * 8);
            t_19[i] = got0;
          }
        }
        float t_20[32];
        #pragma unroll
        for (int i = 0; i < 32; ++i) t_20[i] = o_1[i] * t_19[((i >> 1) & 1) + (i >> 4) * 2];
        // attention.py:16: k, v = px.load(K[head, j : j + KEYS, 0:D]), px.load(V[head, j : j + KEYS, 0:D])
        const int take_stage_5 = take_stage_1;
        ptx::mbarrier_wait_parity(V_full + 8 * take_stage_5, take_parity_1);
        const int t_21 = ptx::wrap_add(take_stage_5, 1);
        const bool wraps_2 = t_21 == 8;
        take_parity_1 = take_parity_1 ^ ((int)wraps_2);
        take_stage_1 = wraps_2 ? 0 : t_21;
        // attention.py:21: o = px.dot(p.to(V.dtype), v, o * faded[:, None])
        ptx::tcgen05_fence_after_thread_sync();
        // 16x256b: 2 of each warp
        {
          const unsigned px_at = px_tmem + 32 + (px_warp_id % 4 << 21) + px_warp_id / 4 * 32;
          ptx::tcgen05_st_16x256b_x4_float(px_at, t_20);
          ptx::tcgen05_st_16x256b_x4_float(px_at + 1048576, t_20 + 16);
        }
        ptx::tcgen05_wait_st_sync_aligned();
        // 32x32b: 1 of each warp
        {
          const unsigned px_at = px_tmem + 96 + (px_warp_id % 4 << 21) + px_warp_id / 4 * 8;
          unsigned px_w[8];
          ptx::pack_words<16>(px_w, p_1);
          ptx::tcgen05_st_32x32b_x8_unsigned(px_at, px_w);
        }
        ptx::tcgen05_wait_st_sync_aligned();
        ptx::tcgen05_fence_before_thread_sync();
        ptx::bar_sync<1, 256>();  // o_tmem was written at line 21 before o_tmem is read by a copy
        ptx::tcgen05_fence_after_thread_sync();
        if (px_one) {
          {
            const unsigned px_a = px_tmem + 96;
            const unsigned long long px_b = ptx::tcgen05_descriptor(V_ring_addr + take_stage_5 * 4096, 0x4000404001000000ull);
            const unsigned px_d = px_tmem + 32;
            ptx::tcgen05_mma_cta_group_1_f16_tmem(px_d, px_a, px_b, 0x8110490u, true);
            ptx::tcgen05_mma_cta_group_1_f16_tmem(px_d, px_a + 8, px_b + 128, 0x8110490u, true);
          }
          ptx::tcgen05_commit_cta_group_1(dot_done);
        }
        ptx::mbarrier_wait_parity(dot_done, dot_phase);
        dot_phase = dot_phase ^ 1;
        ptx::tcgen05_fence_after_thread_sync();
        float o_2[32];
        // 16x256b: 2 of each warp
        {
          const unsigned px_at = px_tmem + 32 + (px_warp_id % 4 << 21) + px_warp_id / 4 * 32;
          ptx::tcgen05_ld_16x256b_x4_float(o_2, px_at);
          ptx::tcgen05_ld_16x256b_x4_float(o_2 + 16, px_at + 1048576);
        }
        ptx::tcgen05_wait_ld_sync_aligned();
        ptx::keep_float<32>(o_2);
        ptx::tcgen05_fence_before_thread_sync();
        __syncwarp();  // all lanes of this warp are done with the stage
        if (px_warp_one) {
          ptx::mbarrier_arrive_shared_cta(V_empty + 8 * take_stage_5);
        }
        #pragma unroll
        for (int px_r = 0; px_r < 32; ++px_r) o_1[px_r] = o_2[px_r];
        #pragma unroll
        for (int px_r = 0; px_r < 1; ++px_r) top_1[px_r] = v_new[px_r];
        #pragma unroll
        for (int px_r = 0; px_r < 1; ++px_r) total_1[px_r] = total_2[px_r];
      }
      // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
      ptx::tcgen05_fence_before_thread_sync();
      __syncwarp();  // all lanes of this warp are done with the stage
      if (px_warp_one) {
        ptx::mbarrier_arrive_shared_cta(Q_empty + 8 * take_stage_3);
      }
      // attention.py:22: px.store(O[head, row : row + ROWS, 0:D], (o * (1.0 / total)[:, None]).to(O.dtype))
      float t_3[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) t_3[i] = 1.0f / total_1[0];
      float t_4[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) t_4[i] = t_3[i];
      float t_5[4];
      {
        const int from = (px_lane >> 2);
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          const auto got0 = ptx::shuffle(t_4[0], from ^ i * 8);
          t_5[i] = got0;
        }
      }
      float t_6[32];
      #pragma unroll
      for (int i = 0; i < 32; ++i) t_6[i] = o_1[i] * t_5[((i >> 1) & 1) + (i >> 4) * 2];
      px_bf16 t_7[32];
      #pragma unroll
      for (int i = 0; i < 32; i += 2) ptx::bf16_pair_from_float(t_7 + i, t_6[i], t_6[i + 1]);
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_0();
      }
      ptx::bar_sync<1, 256>();  // the elected thread is done with O_out at line 22 before O_out is written
      {
        const int o_2 = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ ((px_warp_id & 3) * 256) ^ ((px_warp_id >> 2) * 4);
        const unsigned a = O_out_addr;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          unsigned words[4];
          ptx::pack_words<8>(words, t_7 + 8 * i);
          ptx::stmatrix_x4(a + 16 * ((o_2 ^ ((i & 1) * 2)) + (i >> 1) * 128), words);
        }
      }
      ptx::fence_proxy_async_shared_cta();
      ptx::bar_sync<1, 256>();  // O_out was written at line 22 before O_out is read by a copy
      if (px_one) {
        // tensor copy: a box of 1 x 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_3d_global_shared(&O_map, 0, row, head, O_out_addr);
        ptx::cp_async_bulk_commit_group();
      }
    }
    // attention.py:11: for t in px.persistent(Q.shape[0] * rows):
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
    // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
    ptx::tcgen05_fence_before_thread_sync();
  }
  // attention.py:17: s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
  __syncthreads();  // nobody uses the tensor memory any more
  ptx::tcgen05_fence_after_thread_sync();
  if (px_warp_id == 0) {
    ptx::tcgen05_dealloc_cta_group_1_128(px_tmem);
  }
}
