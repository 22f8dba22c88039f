// attention(D=64, ROWS=64, KEYS=32) for sm_90a, from attention.py:9
// 160 threads, 82192 bytes of shared memory

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
//   wrap_add
//   wrap_mul
//   floor_div
//   floor_mod
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_3d_shared_global
//   elect_sync
//   wgmma_descriptor
//   keep_float
//   wgmma_fence_sync_aligned
//   wgmma_m64n32k16_f32_bf16_bf16_x4
//   wgmma_commit_group_sync_aligned
//   wgmma_wait_group_0
//   mbarrier_arrive_shared_cta
//   max_NaN_f32
//   bits
//   shuffle_xor
//   exp2_approx
//   bf16_pair_from_float
//   pack_words
//   wrap_sub
//   unpack_words
//   wgmma_m64n64k16_f32_bf16_bf16_registers_tb_x2_fenced
//   wgmma_wait_group_1
//   fold_scalar
//   fold_bits
//   finish
//   bar_sync
//   cp_async_bulk_wait_group_read_0
//   stmatrix_x4
//   fence_proxy_async_shared_cta
//   cp_async_bulk_tensor_3d_global_shared
//   cp_async_bulk_commit_group
//   cp_async_bulk_wait_group_0
//   shared_address
//   unknown_zero

extern "C" __global__ void __launch_bounds__(160, 1) attention_kernel(
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
  const unsigned px_never = ptx::unknown_zero();
  const unsigned K_full = px_base + 81920;
  const unsigned K_empty = px_base + 81984;
  const unsigned V_full = px_base + 82048;
  const unsigned V_empty = px_base + 82112;
  const unsigned Q_full = px_base + 82176;
  const unsigned Q_empty = px_base + 82184;
  const unsigned Q_ring_addr = px_base + 65536;
  const unsigned K_ring_addr = px_base;
  const unsigned V_ring_addr = px_base + 32768;
  const unsigned O_out_addr = px_base + 73728;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&Q_map);
    ptx::prefetch_tensormap(&K_map);
    ptx::prefetch_tensormap(&V_map);
    ptx::prefetch_tensormap(&O_map);
  }
  // attention.py:16: k, v = px.load(K[head, j : j + KEYS, 0:D]), px.load(V[head, j : j + KEYS, 0:D])
  if (px_one) {
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(K_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(K_empty + 8 * px_i, 1);
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(V_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(V_empty + 8 * px_i, 1);
    // attention.py:13: q, o = px.load(Q[head, row : row + ROWS, 0:D]), px.zeros((ROWS, D), px.f32)
    ptx::mbarrier_init_shared_cta(Q_full, 1);
    ptx::mbarrier_init_shared_cta(Q_empty, 1);
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
  const int rows = ptx::wrap_add((Q_size1 >> 6), ((int)((Q_size1 & 63) != 0)));
  // attention.py:11: for t in px.persistent(Q.shape[0] * rows):
  const int t = ptx::wrap_mul(Q_size0, rows);
  // attention.py:9: def attention(Q, K, V, O, *, D=128, ROWS=128, KEYS=128):
  __syncthreads();  // barriers are initialised before their first use
  // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
  if (px_warp_id == 4) {  // producer: warp 4
    const bool px_one = ptx::elect_sync();
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
      const int row = ptx::wrap_mul((ptx::floor_mod<int>(t_1, rows)), 64);
      // attention.py:13: q, o = px.load(Q[head, row : row + ROWS, 0:D]), px.zeros((ROWS, D), px.f32)
      ptx::mbarrier_wait_parity(Q_empty + 8 * fill_stage_2, fill_parity_2 ^ 1);
      __syncwarp();  // all threads have passed the wait at line 13 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(Q_full + 8 * fill_stage_2, 8192);
        // tensor copy: a box of 1 x 64 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_3d_shared_global(Q_ring_addr + fill_stage_2 * 8192, &Q_map, 0, row, head, Q_full + 8 * fill_stage_2);
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
  } else if (px_warp_id < 4) {  // consumer: warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
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
      const int row = ptx::wrap_mul((ptx::floor_mod<int>(t_1, rows)), 64);
      // attention.py:13: q, o = px.load(Q[head, row : row + ROWS, 0:D]), px.zeros((ROWS, D), px.f32)
      float o[32];
      #pragma unroll
      for (int i = 0; i < 32; ++i) o[i] = 0.0f;
      // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
      float o_1[32];
      #pragma unroll
      for (int px_r = 0; px_r < 32; ++px_r) o_1[px_r] = o[px_r];
      // attention.py:14: top, total, scale = px.full((ROWS,), -float("inf"), px.f32), px.zeros((ROWS,), px.f32), 1.4427 * D**-0.5
      float top[2];
      top[0] = __int_as_float(0xff800000);
      top[1] = __int_as_float(0xff800000);
      // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
      float top_1[2];
      top_1[0] = top[0];
      top_1[1] = top[1];
      // attention.py:14: top, total, scale = px.full((ROWS,), -float("inf"), px.f32), px.zeros((ROWS,), px.f32), 1.4427 * D**-0.5
      float total[2];
      total[0] = 0.0f;
      total[1] = 0.0f;
      // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
      float total_1[2];
      total_1[0] = total[0];
      total_1[1] = total[1];
      // attention.py:13: q, o = px.load(Q[head, row : row + ROWS, 0:D]), px.zeros((ROWS, D), px.f32)
      const int take_stage_3 = take_stage_2;
      ptx::mbarrier_wait_parity(Q_full + 8 * take_stage_3, take_parity_2);
      const int t_2 = ptx::wrap_add(take_stage_3, 1);
      const bool wraps = t_2 == 1;
      take_parity_2 = take_parity_2 ^ ((int)wraps);
      take_stage_2 = wraps ? 0 : t_2;
      // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
      const bool ran = 0 < K_size1;
      if (ran) {
        // attention.py:16: k, v = px.load(K[head, j : j + KEYS, 0:D]), px.load(V[head, j : j + KEYS, 0:D])
        const int take_stage_4 = take_stage;
        ptx::mbarrier_wait_parity(K_full + 8 * take_stage_4, take_parity);
        const int t_3 = ptx::wrap_add(take_stage_4, 1);
        const bool wraps_1 = t_3 == 8;
        take_parity = take_parity ^ ((int)wraps_1);
        take_stage = wraps_1 ? 0 : t_3;
        // attention.py:17: s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
        float t_4[16];
        {
          const unsigned long long px_a = ptx::wgmma_descriptor(Q_ring_addr, 0x4000004000010000ull);
          const unsigned long long px_b = ptx::wgmma_descriptor(K_ring_addr + take_stage_4 * 4096, 0x4000004000010000ull);
          ptx::keep_float<16>(t_4);
          ptx::wgmma_fence_sync_aligned();
          ptx::wgmma_m64n32k16_f32_bf16_bf16_x4<2, 4, 6, 2, 4, 6>(t_4, px_a, px_b, false);
        }
        ptx::wgmma_commit_group_sync_aligned();
        // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
        ptx::wgmma_wait_group_0();
        ptx::keep_float<16>(t_4);
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(K_empty + 8 * take_stage_4);
        }
        // attention.py:17: s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
        int t_5[8];
        {
          const int c0 = (px_lane & 3) * 2;
          #pragma unroll
          for (int i = 0; i < 8; ++i) {
            t_5[i] = c0 + (i & 1) + (i >> 1) * 8;
          }
        }
        int t_6[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_6[i] = t_5[i];
        int t_7[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_7[i] = ptx::wrap_add(0, t_6[i]);
        bool t_8[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_8[i] = t_7[i] < K_size1;
        float s[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) s[i] = t_8[(i & 1) + (i >> 2) * 2] ? t_4[i] : __int_as_float(0xff800000);
        // attention.py:18: new = px.maximum(top, px.max(s, axis=1))
        float s_max[2];
        {
          float s_max_parts[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            s_max_parts[(i & 1) * 2 + ((i >> 1) & 1)] = s[i];
          }
          #pragma unroll
          for (int i = 4; i < 16; ++i) {
            s_max_parts[(i & 1) * 2 + ((i >> 1) & 1)] = ptx::max_NaN_f32(s_max_parts[(i & 1) * 2 + ((i >> 1) & 1)], s[i]);
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
        float t_9[2];
        t_9[0] = s_max[0];
        t_9[1] = s_max[1];
        float v_new[2];
        v_new[0] = ptx::max_NaN_f32(top_1[0], t_9[0]);
        v_new[1] = ptx::max_NaN_f32(top_1[1], t_9[1]);
        // attention.py:19: p, faded = px.exp2(s * scale - (new * scale)[:, None]), px.exp2((top - new) * scale)
        float t_10[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_10[i] = s[i] * 0.1803375f;
        float t_11[2];
        t_11[0] = v_new[0] * 0.1803375f;
        t_11[1] = v_new[1] * 0.1803375f;
        float t_12[2];
        t_12[0] = t_11[0];
        t_12[1] = t_11[1];
        float t_13[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_13[i] = t_10[i] - t_12[(i >> 1) & 1];
        float p[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) p[i] = ptx::exp2_approx(t_13[i]);
        float t_14[2];
        t_14[0] = top_1[0] - v_new[0];
        t_14[1] = top_1[1] - v_new[1];
        float t_15[2];
        t_15[0] = t_14[0] * 0.1803375f;
        t_15[1] = t_14[1] * 0.1803375f;
        float faded[2];
        faded[0] = ptx::exp2_approx(t_15[0]);
        faded[1] = ptx::exp2_approx(t_15[1]);
        // attention.py:20: total, top = total * faded + px.sum(p, axis=1), new
        float t_16[2];
        t_16[0] = total_1[0] * faded[0];
        t_16[1] = total_1[1] * faded[1];
        float p_sum[2];
        {
          float p_sum_parts[4];
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            p_sum_parts[(i & 1) * 2 + ((i >> 1) & 1)] = p[i];
          }
          #pragma unroll
          for (int i = 4; i < 16; ++i) {
            p_sum_parts[(i & 1) * 2 + ((i >> 1) & 1)] = p_sum_parts[(i & 1) * 2 + ((i >> 1) & 1)] + p[i];
          }
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            p_sum[i] = p_sum_parts[i] + p_sum_parts[i + 2];
          }
          #pragma unroll
          for (int mask = 1; mask <= 2; mask *= 2) {
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              p_sum[i] = p_sum[i] + ptx::shuffle_xor(p_sum[i], mask);
            }
          }
        }
        float t_17[2];
        t_17[0] = p_sum[0];
        t_17[1] = p_sum[1];
        float total_2[2];
        total_2[0] = t_16[0] + t_17[0];
        total_2[1] = t_16[1] + t_17[1];
        // attention.py:21: o = px.dot(p.to(V.dtype), v, o * faded[:, None])
        float t_18[2];
        t_18[0] = faded[0];
        t_18[1] = faded[1];
        top_1[0] = v_new[0];
        top_1[1] = v_new[1];
        total_1[0] = total_2[0];
        total_1[1] = total_2[1];
        // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
        // attention.py:21: o = px.dot(p.to(V.dtype), v, o * faded[:, None])
        px_bf16 p_1[16];
        #pragma unroll
        for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_1 + i, p[i], p[i + 1]);
        float t_19[32];
        #pragma unroll
        for (int i = 0; i < 32; ++i) t_19[i] = o_1[i] * t_18[(i >> 1) & 1];
        // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
        unsigned p_2[8];
        ptx::pack_words<16>(p_2, p_1);
        float acc[32];
        #pragma unroll
        for (int px_r = 0; px_r < 32; ++px_r) acc[px_r] = t_19[px_r];
        const int t_20 = ptx::wrap_add(0, 32);
        int behind = t_20;
        #pragma unroll 1
        for (int j = t_20; j < (ptx::wrap_add(ptx::wrap_sub(K_size1, 32), 1)); j += 32) {
          px_bf16 p_3[16];
          ptx::unpack_words<16>(p_3, p_2);
          // attention.py:16: k, v = px.load(K[head, j : j + KEYS, 0:D]), px.load(V[head, j : j + KEYS, 0:D])
          const int take_stage_5 = take_stage;
          ptx::mbarrier_wait_parity(K_full + 8 * take_stage_5, take_parity);
          const int t_21 = ptx::wrap_add(take_stage_5, 1);
          const bool wraps_2 = t_21 == 8;
          take_parity = take_parity ^ ((int)wraps_2);
          take_stage = wraps_2 ? 0 : t_21;
          // attention.py:17: s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
          float t_22[16];
          {
            const unsigned long long px_a = ptx::wgmma_descriptor(Q_ring_addr, 0x4000004000010000ull);
            const unsigned long long px_b = ptx::wgmma_descriptor(K_ring_addr + take_stage_5 * 4096, 0x4000004000010000ull);
            ptx::keep_float<16>(t_22);
            ptx::wgmma_fence_sync_aligned();
            ptx::wgmma_m64n32k16_f32_bf16_bf16_x4<2, 4, 6, 2, 4, 6>(t_22, px_a, px_b, false);
          }
          ptx::wgmma_commit_group_sync_aligned();
          // attention.py:16: k, v = px.load(K[head, j : j + KEYS, 0:D]), px.load(V[head, j : j + KEYS, 0:D])
          const int take_stage_6 = take_stage_1;
          ptx::mbarrier_wait_parity(V_full + 8 * take_stage_6, take_parity_1);
          const int t_23 = ptx::wrap_add(take_stage_6, 1);
          const bool wraps_3 = t_23 == 8;
          take_parity_1 = take_parity_1 ^ ((int)wraps_3);
          take_stage_1 = wraps_3 ? 0 : t_23;
          // attention.py:21: o = px.dot(p.to(V.dtype), v, o * faded[:, None])
          {
            unsigned px_a[8];
            ptx::pack_words<16>(px_a, p_3);
            const unsigned long long px_b = ptx::wgmma_descriptor(V_ring_addr + take_stage_6 * 4096, 0x4000004001000000ull);
            ptx::wgmma_m64n64k16_f32_bf16_bf16_registers_tb_x2_fenced<128>(acc, px_a, px_b, true);
          }
          ptx::wgmma_commit_group_sync_aligned();
          // attention.py:17: s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
          ptx::wgmma_wait_group_1();
          ptx::keep_float<16>(t_22);
          // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(K_empty + 8 * take_stage_5);
          }
          // attention.py:18: new = px.maximum(top, px.max(s, axis=1))
          float t_max[2];
          {
            float t_max_parts[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              t_max_parts[(i & 1) * 2 + ((i >> 1) & 1)] = t_22[i];
            }
            #pragma unroll
            for (int i = 4; i < 16; ++i) {
              t_max_parts[(i & 1) * 2 + ((i >> 1) & 1)] = ptx::max_NaN_f32(t_max_parts[(i & 1) * 2 + ((i >> 1) & 1)], t_22[i]);
            }
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              t_max[i] = ptx::max_NaN_f32(t_max_parts[i], t_max_parts[i + 2]);
            }
            #pragma unroll
            for (int mask = 1; mask <= 2; mask *= 2) {
              #pragma unroll
              for (int i = 0; i < 2; ++i) {
                t_max[i] = ptx::max_NaN_f32(t_max[i], ptx::shuffle_xor(t_max[i], mask));
              }
            }
          }
          float t_24[2];
          t_24[0] = t_max[0];
          t_24[1] = t_max[1];
          float v_new_1[2];
          v_new_1[0] = ptx::max_NaN_f32(top_1[0], t_24[0]);
          v_new_1[1] = ptx::max_NaN_f32(top_1[1], t_24[1]);
          // attention.py:19: p, faded = px.exp2(s * scale - (new * scale)[:, None]), px.exp2((top - new) * scale)
          float t_25[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_25[i] = t_22[i] * 0.1803375f;
          float t_26[2];
          t_26[0] = v_new_1[0] * 0.1803375f;
          t_26[1] = v_new_1[1] * 0.1803375f;
          float t_27[2];
          t_27[0] = t_26[0];
          t_27[1] = t_26[1];
          float t_28[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_28[i] = t_25[i] - t_27[(i >> 1) & 1];
          float p_4[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) p_4[i] = ptx::exp2_approx(t_28[i]);
          float t_29[2];
          t_29[0] = top_1[0] - v_new_1[0];
          t_29[1] = top_1[1] - v_new_1[1];
          float t_30[2];
          t_30[0] = t_29[0] * 0.1803375f;
          t_30[1] = t_29[1] * 0.1803375f;
          float faded_1[2];
          faded_1[0] = ptx::exp2_approx(t_30[0]);
          faded_1[1] = ptx::exp2_approx(t_30[1]);
          // attention.py:20: total, top = total * faded + px.sum(p, axis=1), new
          float t_31[2];
          t_31[0] = total_1[0] * faded_1[0];
          t_31[1] = total_1[1] * faded_1[1];
          float p_sum_1[2];
          {
            float p_sum_1_parts[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              p_sum_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] = p_4[i];
            }
            #pragma unroll
            for (int i = 4; i < 16; ++i) {
              p_sum_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] = p_sum_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] + p_4[i];
            }
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              p_sum_1[i] = p_sum_1_parts[i] + p_sum_1_parts[i + 2];
            }
            #pragma unroll
            for (int mask = 1; mask <= 2; mask *= 2) {
              #pragma unroll
              for (int i = 0; i < 2; ++i) {
                p_sum_1[i] = p_sum_1[i] + ptx::shuffle_xor(p_sum_1[i], mask);
              }
            }
          }
          float t_32[2];
          t_32[0] = p_sum_1[0];
          t_32[1] = p_sum_1[1];
          float total_3[2];
          total_3[0] = t_31[0] + t_32[0];
          total_3[1] = t_31[1] + t_32[1];
          // attention.py:21: o = px.dot(p.to(V.dtype), v, o * faded[:, None])
          float t_33[2];
          t_33[0] = faded_1[0];
          t_33[1] = faded_1[1];
          top_1[0] = v_new_1[0];
          top_1[1] = v_new_1[1];
          total_1[0] = total_3[0];
          total_1[1] = total_3[1];
          ptx::finish(ptx::fold_bits<2>(total_3), px_never, px_base);
          ptx::wgmma_wait_group_0();
          ptx::keep_float<32>(acc);
          // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(V_empty + 8 * take_stage_6);
          }
          // attention.py:21: o = px.dot(p.to(V.dtype), v, o * faded[:, None])
          px_bf16 p_5[16];
          #pragma unroll
          for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_5 + i, p_4[i], p_4[i + 1]);
          float t_34[32];
          #pragma unroll
          for (int i = 0; i < 32; ++i) t_34[i] = acc[i];
          {
            bool some = false;
            some |= t_33[0] != 1.0f;
            some |= t_33[1] != 1.0f;
            if (__any_sync(0xffffffffu, some)) {
              #pragma unroll
              for (int i = 0; i < 32; ++i) t_34[i] = t_34[i] * t_33[(i >> 1) & 1];
            }
          }
          // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
          ptx::pack_words<16>(p_2, p_5);
          #pragma unroll
          for (int px_r = 0; px_r < 32; ++px_r) acc[px_r] = t_34[px_r];
          behind = ptx::wrap_add(j, 32);
        }
        #pragma unroll 1
        for (int j = behind; j < K_size1; j += 32) {
          px_bf16 p_3[16];
          ptx::unpack_words<16>(p_3, p_2);
          // attention.py:16: k, v = px.load(K[head, j : j + KEYS, 0:D]), px.load(V[head, j : j + KEYS, 0:D])
          const int take_stage_5 = take_stage;
          ptx::mbarrier_wait_parity(K_full + 8 * take_stage_5, take_parity);
          const int t_21 = ptx::wrap_add(take_stage_5, 1);
          const bool wraps_2 = t_21 == 8;
          take_parity = take_parity ^ ((int)wraps_2);
          take_stage = wraps_2 ? 0 : t_21;
          // attention.py:17: s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
          float t_22[16];
          {
            const unsigned long long px_a = ptx::wgmma_descriptor(Q_ring_addr, 0x4000004000010000ull);
            const unsigned long long px_b = ptx::wgmma_descriptor(K_ring_addr + take_stage_5 * 4096, 0x4000004000010000ull);
            ptx::keep_float<16>(t_22);
            ptx::wgmma_fence_sync_aligned();
            ptx::wgmma_m64n32k16_f32_bf16_bf16_x4<2, 4, 6, 2, 4, 6>(t_22, px_a, px_b, false);
          }
          ptx::wgmma_commit_group_sync_aligned();
          // attention.py:16: k, v = px.load(K[head, j : j + KEYS, 0:D]), px.load(V[head, j : j + KEYS, 0:D])
          const int take_stage_6 = take_stage_1;
          ptx::mbarrier_wait_parity(V_full + 8 * take_stage_6, take_parity_1);
          const int t_23 = ptx::wrap_add(take_stage_6, 1);
          const bool wraps_3 = t_23 == 8;
          take_parity_1 = take_parity_1 ^ ((int)wraps_3);
          take_stage_1 = wraps_3 ? 0 : t_23;
          // attention.py:21: o = px.dot(p.to(V.dtype), v, o * faded[:, None])
          {
            unsigned px_a[8];
            ptx::pack_words<16>(px_a, p_3);
            const unsigned long long px_b = ptx::wgmma_descriptor(V_ring_addr + take_stage_6 * 4096, 0x4000004001000000ull);
            ptx::wgmma_m64n64k16_f32_bf16_bf16_registers_tb_x2_fenced<128>(acc, px_a, px_b, true);
          }
          ptx::wgmma_commit_group_sync_aligned();
          // attention.py:17: s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
          ptx::wgmma_wait_group_1();
          ptx::keep_float<16>(t_22);
          // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(K_empty + 8 * take_stage_5);
          }
          // attention.py:17: s = px.where(j + px.arange(KEYS)[None, :] < K.shape[1], px.dot(q, k.T), -float("inf"))
          int t_24[8];
          {
            const int c0 = (px_lane & 3) * 2;
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
              t_24[i] = c0 + (i & 1) + (i >> 1) * 8;
            }
          }
          int t_25[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) t_25[i] = t_24[i];
          int t_26[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) t_26[i] = ptx::wrap_add(j, t_25[i]);
          bool t_27[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) t_27[i] = t_26[i] < K_size1;
          float s_1[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) s_1[i] = t_27[(i & 1) + (i >> 2) * 2] ? t_22[i] : __int_as_float(0xff800000);
          // attention.py:18: new = px.maximum(top, px.max(s, axis=1))
          float s_max_1[2];
          {
            float s_max_1_parts[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              s_max_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] = s_1[i];
            }
            #pragma unroll
            for (int i = 4; i < 16; ++i) {
              s_max_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] = ptx::max_NaN_f32(s_max_1_parts[(i & 1) * 2 + ((i >> 1) & 1)], s_1[i]);
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
          float t_28[2];
          t_28[0] = s_max_1[0];
          t_28[1] = s_max_1[1];
          float v_new_1[2];
          v_new_1[0] = ptx::max_NaN_f32(top_1[0], t_28[0]);
          v_new_1[1] = ptx::max_NaN_f32(top_1[1], t_28[1]);
          // attention.py:19: p, faded = px.exp2(s * scale - (new * scale)[:, None]), px.exp2((top - new) * scale)
          float t_29[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_29[i] = s_1[i] * 0.1803375f;
          float t_30[2];
          t_30[0] = v_new_1[0] * 0.1803375f;
          t_30[1] = v_new_1[1] * 0.1803375f;
          float t_31[2];
          t_31[0] = t_30[0];
          t_31[1] = t_30[1];
          float t_32[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_32[i] = t_29[i] - t_31[(i >> 1) & 1];
          float p_4[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) p_4[i] = ptx::exp2_approx(t_32[i]);
          float t_33[2];
          t_33[0] = top_1[0] - v_new_1[0];
          t_33[1] = top_1[1] - v_new_1[1];
          float t_34[2];
          t_34[0] = t_33[0] * 0.1803375f;
          t_34[1] = t_33[1] * 0.1803375f;
          float faded_1[2];
          faded_1[0] = ptx::exp2_approx(t_34[0]);
          faded_1[1] = ptx::exp2_approx(t_34[1]);
          // attention.py:20: total, top = total * faded + px.sum(p, axis=1), new
          float t_35[2];
          t_35[0] = total_1[0] * faded_1[0];
          t_35[1] = total_1[1] * faded_1[1];
          float p_sum_1[2];
          {
            float p_sum_1_parts[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              p_sum_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] = p_4[i];
            }
            #pragma unroll
            for (int i = 4; i < 16; ++i) {
              p_sum_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] = p_sum_1_parts[(i & 1) * 2 + ((i >> 1) & 1)] + p_4[i];
            }
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              p_sum_1[i] = p_sum_1_parts[i] + p_sum_1_parts[i + 2];
            }
            #pragma unroll
            for (int mask = 1; mask <= 2; mask *= 2) {
              #pragma unroll
              for (int i = 0; i < 2; ++i) {
                p_sum_1[i] = p_sum_1[i] + ptx::shuffle_xor(p_sum_1[i], mask);
              }
            }
          }
          float t_36[2];
          t_36[0] = p_sum_1[0];
          t_36[1] = p_sum_1[1];
          float total_3[2];
          total_3[0] = t_35[0] + t_36[0];
          total_3[1] = t_35[1] + t_36[1];
          // attention.py:21: o = px.dot(p.to(V.dtype), v, o * faded[:, None])
          float t_37[2];
          t_37[0] = faded_1[0];
          t_37[1] = faded_1[1];
          top_1[0] = v_new_1[0];
          top_1[1] = v_new_1[1];
          total_1[0] = total_3[0];
          total_1[1] = total_3[1];
          ptx::finish(ptx::fold_bits<2>(total_3), px_never, px_base);
          ptx::wgmma_wait_group_0();
          ptx::keep_float<32>(acc);
          // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(V_empty + 8 * take_stage_6);
          }
          // attention.py:21: o = px.dot(p.to(V.dtype), v, o * faded[:, None])
          px_bf16 p_5[16];
          #pragma unroll
          for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_5 + i, p_4[i], p_4[i + 1]);
          float t_38[32];
          #pragma unroll
          for (int i = 0; i < 32; ++i) t_38[i] = acc[i];
          {
            bool some = false;
            some |= t_37[0] != 1.0f;
            some |= t_37[1] != 1.0f;
            if (__any_sync(0xffffffffu, some)) {
              #pragma unroll
              for (int i = 0; i < 32; ++i) t_38[i] = t_38[i] * t_37[(i >> 1) & 1];
            }
          }
          // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
          ptx::pack_words<16>(p_2, p_5);
          #pragma unroll
          for (int px_r = 0; px_r < 32; ++px_r) acc[px_r] = t_38[px_r];
        }
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(Q_empty + 8 * take_stage_3);
        }
        px_bf16 p_3[16];
        ptx::unpack_words<16>(p_3, p_2);
        // attention.py:16: k, v = px.load(K[head, j : j + KEYS, 0:D]), px.load(V[head, j : j + KEYS, 0:D])
        const int take_stage_5 = take_stage_1;
        ptx::mbarrier_wait_parity(V_full + 8 * take_stage_5, take_parity_1);
        const int t_21 = ptx::wrap_add(take_stage_5, 1);
        const bool wraps_2 = t_21 == 8;
        take_parity_1 = take_parity_1 ^ ((int)wraps_2);
        take_stage_1 = wraps_2 ? 0 : t_21;
        // attention.py:21: o = px.dot(p.to(V.dtype), v, o * faded[:, None])
        {
          unsigned px_a[8];
          ptx::pack_words<16>(px_a, p_3);
          const unsigned long long px_b = ptx::wgmma_descriptor(V_ring_addr + take_stage_5 * 4096, 0x4000004001000000ull);
          ptx::wgmma_m64n64k16_f32_bf16_bf16_registers_tb_x2_fenced<128>(acc, px_a, px_b, true);
        }
        ptx::wgmma_commit_group_sync_aligned();
        ptx::wgmma_wait_group_0();
        ptx::keep_float<32>(acc);
        // attention.py:15: for j in px.pipelined(range(0, K.shape[1], KEYS)):
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(V_empty + 8 * take_stage_5);
        }
        #pragma unroll
        for (int px_r = 0; px_r < 32; ++px_r) o_1[px_r] = acc[px_r];
      } else {
        ptx::bar_sync<1, 128>();  // all threads have passed the wait at line 13 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(Q_empty + 8 * take_stage_3);
        }
      }
      // attention.py:22: px.store(O[head, row : row + ROWS, 0:D], (o * (1.0 / total)[:, None]).to(O.dtype))
      float t_3[2];
      t_3[0] = 1.0f / total_1[0];
      t_3[1] = 1.0f / total_1[1];
      float t_4[2];
      t_4[0] = t_3[0];
      t_4[1] = t_3[1];
      float t_5[32];
      #pragma unroll
      for (int i = 0; i < 32; ++i) t_5[i] = o_1[i] * t_4[(i >> 1) & 1];
      px_bf16 t_6[32];
      #pragma unroll
      for (int i = 0; i < 32; i += 2) ptx::bf16_pair_from_float(t_6 + i, t_5[i], t_5[i + 1]);
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_0();
      }
      ptx::bar_sync<1, 128>();  // the elected thread is done with O_out at line 22 before O_out is written
      {
        const int o_2 = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 128);
        const unsigned a = O_out_addr;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          unsigned words[4];
          ptx::pack_words<8>(words, t_6 + 8 * i);
          ptx::stmatrix_x4(a + 16 * (o_2 ^ (i * 2)), words);
        }
      }
      ptx::fence_proxy_async_shared_cta();
      ptx::bar_sync<1, 128>();  // O_out was written at line 22 before O_out is read by a copy
      if (px_one) {
        // tensor copy: a box of 1 x 64 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_3d_global_shared(&O_map, 0, row, head, O_out_addr);
        ptx::cp_async_bulk_commit_group();
      }
    }
    // attention.py:11: for t in px.persistent(Q.shape[0] * rows):
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
  }
}
