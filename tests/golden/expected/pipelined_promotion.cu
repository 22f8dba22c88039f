// block_scaled(BM=128, BN=64) for sm_90a, from block_scaled.py:14
// 384 threads, 217344 bytes of shared memory

typedef unsigned short px_bf16;
typedef unsigned char px_f8e4m3;
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
//   setmaxnreg_dec
//   floor_div
//   minimum
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global
//   shared_address
//   cp_async_bulk_shared_global
//   px_inside
//   bulk_zeros
//   fence_proxy_async_shared_cta
//   mbarrier_complete_tx_relaxed_cta_shared_cta
//   bulk_load
//   elect_sync
//   setmaxnreg_inc
//   wgmma_fence_sync_aligned
//   wgmma_descriptor
//   wgmma_m64n64k32_f32_e4m3_e4m3_x4
//   wgmma_commit_group_sync_aligned
//   inside
//   mbarrier_arrive_shared_cta
//   bits
//   pack_words
//   fold_scalar
//   fold_bits
//   finish
//   wgmma_wait_group_0
//   keep_float
//   wrap_sub
//   wgmma_wait_group_1
//   bf16_pair_from_float
//   cp_async_bulk_wait_group_read_0
//   bar_sync
//   stmatrix_x4
//   cp_async_bulk_tensor_2d_global_shared
//   cp_async_bulk_commit_group
//   cp_async_bulk_wait_group_0
//   unknown_zero

extern "C" __global__ void __launch_bounds__(384, 1) block_scaled_kernel(
    const __grid_constant__ px_array<px_f8e4m3, 2> A,
    const __grid_constant__ px_array<float, 2> SA,
    const __grid_constant__ px_array<px_f8e4m3, 2> B,
    const __grid_constant__ px_array<float, 2> SB,
    const __grid_constant__ px_array<px_bf16, 2> C,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map,
    const __grid_constant__ px_tensor_map C_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned px_never = ptx::unknown_zero();
  const unsigned A_B_full = px_base + 217088;
  const unsigned A_B_empty = px_base + 217152;
  const unsigned SA_full = px_base + 217216;
  const unsigned SA_empty = px_base + 217280;
  const unsigned A_ring_addr = px_base;
  const unsigned B_ring_addr = px_base + 131072;
  float* const SA_ring = reinterpret_cast<float*>(px_smem + 212992);
  const unsigned C_out_addr = px_base + 196608;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
    ptx::prefetch_tensormap(&C_map);
  }
  // block_scaled.py:20: a, b = px.load(A[m : m + BM, g * 128 : g * 128 + 128]), px.load(B[n : n + BN, g * 128 : g * 128 + 128])
  if (px_one) {
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(A_B_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(A_B_empty + 8 * px_i, 8);
    // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(SA_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(SA_empty + 8 * px_i, 8);
    // block_scaled.py:14: def block_scaled(A, SA, B, SB, C, *, BM=128, BN=128):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // block_scaled.py:15: rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
  const int C_size0 = C.shape[0];
  const int C_size1 = C.shape[1];
  // block_scaled.py:16: for t in px.persistent(rows * columns):
  const int cluster = (int)blockIdx.x + (int)gridDim.x * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int clusters = (int)gridDim.x * (int)gridDim.y * (int)gridDim.z;
  // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
  const int A_size1 = A.shape[1];
  // block_scaled.py:15: rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
  const int rows = ptx::wrap_add((C_size0 >> 7), ((int)((C_size0 & 127) != 0)));
  const int columns = ptx::wrap_add((C_size1 >> 6), ((int)((C_size1 & 63) != 0)));
  // block_scaled.py:16: for t in px.persistent(rows * columns):
  const int t = ptx::wrap_mul(rows, columns);
  // block_scaled.py:14: def block_scaled(A, SA, B, SB, C, *, BM=128, BN=128):
  __syncthreads();  // barriers are initialised before their first use
  // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
  if (px_warp_id >= 8) {  // producer: warp 8
    const bool px_one = ptx::elect_sync();
    ptx::setmaxnreg_dec<40>();
    if (px_warp_id == 8) {
      int fill_stage = 0;
      int fill_parity = 0;
      int fill_stage_1 = 0;
      int fill_parity_1 = 0;
      // block_scaled.py:16: for t in px.persistent(rows * columns):
      #pragma unroll 1
      for (int t_1 = cluster; t_1 < t; t_1 += clusters) {
        const unsigned rows_1 = (unsigned)rows;
        const unsigned columns_1 = (unsigned)columns;
        const unsigned t_2 = (unsigned)t_1;
        const unsigned t_3 = 8u * columns_1;
        const unsigned t_4 = ptx::floor_div<unsigned>(t_2, t_3);
        const unsigned t_5 = t_2 - (t_4 * t_3);
        const unsigned t_6 = t_4 * 8u;
        const unsigned t_7 = ptx::minimum<unsigned>(8u, (rows_1 - t_6));
        const unsigned t_8 = ptx::floor_div<unsigned>(t_5, t_7);
        const int row = (int)(t_6 + (t_5 - (t_8 * t_7)));
        const int column = (int)t_8;
        // block_scaled.py:17: m, n = t // columns * BM, t % columns * BN
        const int m = ptx::wrap_mul(row, 128);
        const int n = ptx::wrap_mul(column, 64);
        // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
        const int t_9 = ptx::wrap_add((A_size1 >> 7), ((int)((A_size1 & 127) != 0)));
        #pragma unroll 1
        for (int g = 0; g < t_9; ++g) {
          // block_scaled.py:20: a, b = px.load(A[m : m + BM, g * 128 : g * 128 + 128]), px.load(B[n : n + BN, g * 128 : g * 128 + 128])
          ptx::mbarrier_wait_parity(A_B_empty + 8 * fill_stage, fill_parity ^ 1);
          __syncwarp();  // all threads have passed the wait at line 20 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(A_B_full + 8 * fill_stage, 24576);
            // tensor copy: a box of 128 x 128, 128-byte swizzle
            ptx::cp_async_bulk_tensor_2d_shared_global(A_ring_addr + fill_stage * 16384, &A_map, ptx::wrap_mul(g, 128), m, A_B_full + 8 * fill_stage);
            // tensor copy: a box of 64 x 128, 128-byte swizzle
            ptx::cp_async_bulk_tensor_2d_shared_global(B_ring_addr + fill_stage * 8192, &B_map, ptx::wrap_mul(g, 128), n, A_B_full + 8 * fill_stage);
          }
          const int t_10 = ptx::wrap_add(fill_stage, 1);
          const bool wraps = t_10 == 8;
          fill_parity = fill_parity ^ ((int)wraps);
          fill_stage = wraps ? 0 : t_10;
          // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
          ptx::mbarrier_wait_parity(SA_empty + 8 * fill_stage_1, fill_parity_1 ^ 1);
          __syncwarp();  // all threads have passed the wait at line 21 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(SA_full + 8 * fill_stage_1, 512);
            // bulk copy: one contiguous run of 512 bytes from a multiple of 16 bytes
            ptx::bulk_load(reinterpret_cast<float*>(px_smem + 212992 + fill_stage_1 * 512), SA.data + (long long)g * SA.stride[0] + m, m, ((unsigned)g < (unsigned)SA.shape[0] ? SA.shape[1] : 0), 128, SA_full + 8 * fill_stage_1);
          }
          const int t_11 = ptx::wrap_add(fill_stage_1, 1);
          const bool wraps_1 = t_11 == 8;
          fill_parity_1 = fill_parity_1 ^ ((int)wraps_1);
          fill_stage_1 = wraps_1 ? 0 : t_11;
        }
      }
    }
  } else if (px_warp_id < 8) {  // consumer: warps 0 to 7
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    const bool px_warp_one = ptx::elect_sync();
    ptx::setmaxnreg_inc<232>();
    // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
    int take_stage = 0;
    int take_parity = 0;
    int take_stage_1 = 0;
    int take_parity_1 = 0;
    // block_scaled.py:16: for t in px.persistent(rows * columns):
    #pragma unroll 1
    for (int t_1 = cluster; t_1 < t; t_1 += clusters) {
      const unsigned rows_1 = (unsigned)rows;
      const unsigned columns_1 = (unsigned)columns;
      const unsigned t_2 = (unsigned)t_1;
      const unsigned t_3 = 8u * columns_1;
      const unsigned t_4 = ptx::floor_div<unsigned>(t_2, t_3);
      const unsigned t_5 = t_2 - (t_4 * t_3);
      const unsigned t_6 = t_4 * 8u;
      const unsigned t_7 = ptx::minimum<unsigned>(8u, (rows_1 - t_6));
      const unsigned t_8 = ptx::floor_div<unsigned>(t_5, t_7);
      const unsigned t_9 = t_6 + (t_5 - (t_8 * t_7));
      const int row = (int)t_9;
      const int column = (int)t_8;
      // block_scaled.py:17: m, n = t // columns * BM, t % columns * BN
      const int m = ptx::wrap_mul(row, 128);
      const int n = ptx::wrap_mul(column, 64);
      // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
      const int t_10 = ptx::wrap_add((A_size1 >> 7), ((int)((A_size1 & 127) != 0)));
      // block_scaled.py:18: acc = px.zeros((BM, BN), px.f32)
      float acc[32];
      #pragma unroll
      for (int i = 0; i < 32; ++i) acc[i] = 0.0f;
      // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
      float acc_1[32];
      #pragma unroll
      for (int px_r = 0; px_r < 32; ++px_r) acc_1[px_r] = acc[px_r];
      const bool ran = 0 < t_10;
      if (ran) {
        float t_11[32];
        float part[32];
        // block_scaled.py:20: a, b = px.load(A[m : m + BM, g * 128 : g * 128 + 128]), px.load(B[n : n + BN, g * 128 : g * 128 + 128])
        const int take_stage_2 = take_stage;
        ptx::mbarrier_wait_parity(A_B_full + 8 * take_stage_2, take_parity);
        const int t_12 = ptx::wrap_add(take_stage_2, 1);
        const bool wraps = t_12 == 8;
        take_parity = take_parity ^ ((int)wraps);
        take_stage = wraps ? 0 : t_12;
        // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
        ptx::wgmma_fence_sync_aligned();
        {
          const unsigned long long px_a = ptx::wgmma_descriptor(A_ring_addr + take_stage_2 * 16384 + px_warp_id / 4 * 8192, 0x4000004000010000ull);
          const unsigned long long px_b = ptx::wgmma_descriptor(B_ring_addr + take_stage_2 * 8192, 0x4000004000010000ull);
          ptx::wgmma_m64n64k32_f32_e4m3_e4m3_x4<2, 4, 6, 2, 4, 6>(part, px_a, px_b, false);
        }
        // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
        ptx::wgmma_commit_group_sync_aligned();
        // block_scaled.py:20: a, b = px.load(A[m : m + BM, g * 128 : g * 128 + 128]), px.load(B[n : n + BN, g * 128 : g * 128 + 128])
        // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
        const float t_13 = ptx::inside((n >> 7), SB.shape[0]) && ptx::inside(0, SB.shape[1]) ? *(SB.data + (n >> 7) * SB.stride[0]) : 0.0f;
        const int take_stage_3 = take_stage_1;
        ptx::mbarrier_wait_parity(SA_full + 8 * take_stage_3, take_parity_1);
        const int t_14 = ptx::wrap_add(take_stage_3, 1);
        const bool wraps_1 = t_14 == 8;
        take_parity_1 = take_parity_1 ^ ((int)wraps_1);
        take_stage_1 = wraps_1 ? 0 : t_14;
        float t_15[2];
        {
          float* const p = SA_ring + take_stage_3 * 128 + (px_lane >> 2) + px_warp_id * 16;
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            t_15[i] = *(p + i * 8);
          }
        }
        __syncwarp();  // all lanes of this warp are done with the stage
        if (px_warp_one) {
          ptx::mbarrier_arrive_shared_cta(SA_empty + 8 * take_stage_3);
        }
        float t_16[2];
        t_16[0] = t_15[0] * t_13;
        t_16[1] = t_15[1] * t_13;
        ptx::finish(ptx::fold_bits<2>(t_16), px_never, px_base);
        ptx::wgmma_wait_group_0();
        ptx::keep_float<32>(part);
        // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
        __syncwarp();  // all lanes of this warp are done with the stage
        if (px_warp_one) {
          ptx::mbarrier_arrive_shared_cta(A_B_empty + 8 * take_stage_2);
        }
        float t_17[2];
        t_17[0] = t_16[0];
        t_17[1] = t_16[1];
        int take_stage_4 = take_stage_2;
        const int t_18 = ptx::wrap_add(0, 1);
        int following = t_18;
        #pragma unroll 1
        for (int g = t_18; g < ptx::wrap_sub(t_10, 1); g += 2) {
          float acc_2[32];
          // block_scaled.py:20: a, b = px.load(A[m : m + BM, g * 128 : g * 128 + 128]), px.load(B[n : n + BN, g * 128 : g * 128 + 128])
          const int take_stage_5 = take_stage;
          ptx::mbarrier_wait_parity(A_B_full + 8 * take_stage_5, take_parity);
          const int t_19 = ptx::wrap_add(take_stage_5, 1);
          const bool wraps_2 = t_19 == 8;
          take_parity = take_parity ^ ((int)wraps_2);
          take_stage = wraps_2 ? 0 : t_19;
          // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
          {
            const unsigned long long px_a = ptx::wgmma_descriptor(A_ring_addr + take_stage_5 * 16384 + px_warp_id / 4 * 8192, 0x4000004000010000ull);
            const unsigned long long px_b = ptx::wgmma_descriptor(B_ring_addr + take_stage_5 * 8192, 0x4000004000010000ull);
            ptx::keep_float<32>(acc_2);
            ptx::wgmma_fence_sync_aligned();
            ptx::wgmma_m64n64k32_f32_e4m3_e4m3_x4<2, 4, 6, 2, 4, 6>(acc_2, px_a, px_b, false);
          }
          // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
          ptx::wgmma_commit_group_sync_aligned();
          // block_scaled.py:20: a, b = px.load(A[m : m + BM, g * 128 : g * 128 + 128]), px.load(B[n : n + BN, g * 128 : g * 128 + 128])
          // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
          const float t_20 = ptx::inside((n >> 7), SB.shape[0]) && ptx::inside(g, SB.shape[1]) ? *(SB.data + (n >> 7) * SB.stride[0] + g) : 0.0f;
          const int take_stage_6 = take_stage_1;
          ptx::mbarrier_wait_parity(SA_full + 8 * take_stage_6, take_parity_1);
          const int t_21 = ptx::wrap_add(take_stage_6, 1);
          const bool wraps_3 = t_21 == 8;
          take_parity_1 = take_parity_1 ^ ((int)wraps_3);
          take_stage_1 = wraps_3 ? 0 : t_21;
          float t_22[2];
          {
            float* const p = SA_ring + take_stage_6 * 128 + (px_lane >> 2) + px_warp_id * 16;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              t_22[i] = *(p + i * 8);
            }
          }
          __syncwarp();  // all lanes of this warp are done with the stage
          if (px_warp_one) {
            ptx::mbarrier_arrive_shared_cta(SA_empty + 8 * take_stage_6);
          }
          float t_23[2];
          t_23[0] = t_22[0] * t_20;
          t_23[1] = t_22[1] * t_20;
          // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
          // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
          float t_24[2];
          t_24[0] = t_17[0];
          t_24[1] = t_17[1];
          float t_25[32];
          #pragma unroll
          for (int i = 0; i < 32; ++i) t_25[i] = part[i] * t_24[(i >> 1) & 1];
          float acc_3[32];
          #pragma unroll
          for (int i = 0; i < 32; ++i) acc_3[i] = acc_1[i] + t_25[i];
          #pragma unroll
          for (int px_r = 0; px_r < 32; ++px_r) acc_1[px_r] = acc_3[px_r];
          // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
          const int t_26 = ptx::wrap_add(g, 1);
          // block_scaled.py:20: a, b = px.load(A[m : m + BM, g * 128 : g * 128 + 128]), px.load(B[n : n + BN, g * 128 : g * 128 + 128])
          const int take_stage_7 = take_stage;
          ptx::mbarrier_wait_parity(A_B_full + 8 * take_stage_7, take_parity);
          const int t_27 = ptx::wrap_add(take_stage_7, 1);
          const bool wraps_4 = t_27 == 8;
          take_parity = take_parity ^ ((int)wraps_4);
          take_stage = wraps_4 ? 0 : t_27;
          // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
          ptx::wgmma_fence_sync_aligned();
          {
            const unsigned long long px_a = ptx::wgmma_descriptor(A_ring_addr + take_stage_7 * 16384 + px_warp_id / 4 * 8192, 0x4000004000010000ull);
            const unsigned long long px_b = ptx::wgmma_descriptor(B_ring_addr + take_stage_7 * 8192, 0x4000004000010000ull);
            ptx::wgmma_m64n64k32_f32_e4m3_e4m3_x4<2, 4, 6, 2, 4, 6>(part, px_a, px_b, false);
          }
          // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
          ptx::wgmma_commit_group_sync_aligned();
          // block_scaled.py:20: a, b = px.load(A[m : m + BM, g * 128 : g * 128 + 128]), px.load(B[n : n + BN, g * 128 : g * 128 + 128])
          // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
          const float t_28 = ptx::inside((n >> 7), SB.shape[0]) && ptx::inside(t_26, SB.shape[1]) ? *(SB.data + (n >> 7) * SB.stride[0] + t_26) : 0.0f;
          const int take_stage_8 = take_stage_1;
          ptx::mbarrier_wait_parity(SA_full + 8 * take_stage_8, take_parity_1);
          const int t_29 = ptx::wrap_add(take_stage_8, 1);
          const bool wraps_5 = t_29 == 8;
          take_parity_1 = take_parity_1 ^ ((int)wraps_5);
          take_stage_1 = wraps_5 ? 0 : t_29;
          float t_30[2];
          {
            float* const p = SA_ring + take_stage_8 * 128 + (px_lane >> 2) + px_warp_id * 16;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              t_30[i] = *(p + i * 8);
            }
          }
          __syncwarp();  // all lanes of this warp are done with the stage
          if (px_warp_one) {
            ptx::mbarrier_arrive_shared_cta(SA_empty + 8 * take_stage_8);
          }
          float t_31[2];
          t_31[0] = t_30[0] * t_28;
          t_31[1] = t_30[1] * t_28;
          ptx::finish(ptx::fold_bits<2>(t_31), px_never, px_base);
          ptx::wgmma_wait_group_1();
          ptx::keep_float<32>(acc_2);
          // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
          __syncwarp();  // all lanes of this warp are done with the stage
          if (px_warp_one) {
            ptx::mbarrier_arrive_shared_cta(A_B_empty + 8 * take_stage_5);
          }
          // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
          float t_32[2];
          t_32[0] = t_23[0];
          t_32[1] = t_23[1];
          float t_33[32];
          #pragma unroll
          for (int i = 0; i < 32; ++i) t_33[i] = acc_2[i] * t_32[(i >> 1) & 1];
          float acc_4[32];
          #pragma unroll
          for (int i = 0; i < 32; ++i) acc_4[i] = acc_1[i] + t_33[i];
          #pragma unroll
          for (int px_r = 0; px_r < 32; ++px_r) acc_1[px_r] = acc_4[px_r];
          ptx::finish(ptx::fold_bits<32>(acc_4), px_never, px_base);
          ptx::wgmma_wait_group_0();
          ptx::keep_float<32>(part);
          // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
          __syncwarp();  // all lanes of this warp are done with the stage
          if (px_warp_one) {
            ptx::mbarrier_arrive_shared_cta(A_B_empty + 8 * take_stage_7);
          }
          t_17[0] = t_31[0];
          t_17[1] = t_31[1];
          take_stage_4 = take_stage_7;
          following = ptx::wrap_add(g, 2);
        }
        const bool inside = following < t_10;
        if (inside) {
          float acc_2[32];
          // block_scaled.py:20: a, b = px.load(A[m : m + BM, g * 128 : g * 128 + 128]), px.load(B[n : n + BN, g * 128 : g * 128 + 128])
          const int take_stage_5 = take_stage;
          ptx::mbarrier_wait_parity(A_B_full + 8 * take_stage_5, take_parity);
          const int t_19 = ptx::wrap_add(take_stage_5, 1);
          const bool wraps_2 = t_19 == 8;
          take_parity = take_parity ^ ((int)wraps_2);
          take_stage = wraps_2 ? 0 : t_19;
          // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
          {
            const unsigned long long px_a = ptx::wgmma_descriptor(A_ring_addr + take_stage_5 * 16384 + px_warp_id / 4 * 8192, 0x4000004000010000ull);
            const unsigned long long px_b = ptx::wgmma_descriptor(B_ring_addr + take_stage_5 * 8192, 0x4000004000010000ull);
            ptx::keep_float<32>(acc_2);
            ptx::wgmma_fence_sync_aligned();
            ptx::wgmma_m64n64k32_f32_e4m3_e4m3_x4<2, 4, 6, 2, 4, 6>(acc_2, px_a, px_b, false);
          }
          // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
          ptx::wgmma_commit_group_sync_aligned();
          // block_scaled.py:20: a, b = px.load(A[m : m + BM, g * 128 : g * 128 + 128]), px.load(B[n : n + BN, g * 128 : g * 128 + 128])
          // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
          const float t_20 = ptx::inside((n >> 7), SB.shape[0]) && ptx::inside(following, SB.shape[1]) ? *(SB.data + (n >> 7) * SB.stride[0] + following) : 0.0f;
          const int take_stage_6 = take_stage_1;
          ptx::mbarrier_wait_parity(SA_full + 8 * take_stage_6, take_parity_1);
          const int t_21 = ptx::wrap_add(take_stage_6, 1);
          const bool wraps_3 = t_21 == 8;
          take_parity_1 = take_parity_1 ^ ((int)wraps_3);
          take_stage_1 = wraps_3 ? 0 : t_21;
          float t_22[2];
          {
            float* const p = SA_ring + take_stage_6 * 128 + (px_lane >> 2) + px_warp_id * 16;
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              t_22[i] = *(p + i * 8);
            }
          }
          __syncwarp();  // all lanes of this warp are done with the stage
          if (px_warp_one) {
            ptx::mbarrier_arrive_shared_cta(SA_empty + 8 * take_stage_6);
          }
          float t_23[2];
          t_23[0] = t_22[0] * t_20;
          t_23[1] = t_22[1] * t_20;
          // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
          // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
          float t_24[2];
          t_24[0] = t_17[0];
          t_24[1] = t_17[1];
          float t_25[32];
          #pragma unroll
          for (int i = 0; i < 32; ++i) t_25[i] = part[i] * t_24[(i >> 1) & 1];
          float acc_3[32];
          #pragma unroll
          for (int i = 0; i < 32; ++i) acc_3[i] = acc_1[i] + t_25[i];
          #pragma unroll
          for (int px_r = 0; px_r < 32; ++px_r) acc_1[px_r] = acc_3[px_r];
          ptx::finish(ptx::fold_bits<2>(t_23) ^ ptx::fold_bits<32>(acc_3), px_never, px_base);
          ptx::wgmma_wait_group_0();
          ptx::keep_float<32>(acc_2);
          // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
          __syncwarp();  // all lanes of this warp are done with the stage
          if (px_warp_one) {
            ptx::mbarrier_arrive_shared_cta(A_B_empty + 8 * take_stage_5);
          }
          // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
          float t_26[2];
          t_26[0] = t_23[0];
          t_26[1] = t_23[1];
          float t_27[32];
          #pragma unroll
          for (int i = 0; i < 32; ++i) t_27[i] = acc_2[i] * t_26[(i >> 1) & 1];
          float acc_4[32];
          #pragma unroll
          for (int i = 0; i < 32; ++i) acc_4[i] = acc_1[i] + t_27[i];
          #pragma unroll
          for (int px_r = 0; px_r < 32; ++px_r) acc_1[px_r] = acc_4[px_r];
        } else {
          // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
          // block_scaled.py:21: acc = acc + px.dot(a, b.T) * (px.load(SA[g, m : m + BM]) * SB[n // 128, g])[:, None]
          float t_19[2];
          t_19[0] = t_17[0];
          t_19[1] = t_17[1];
          float t_20[32];
          #pragma unroll
          for (int i = 0; i < 32; ++i) t_20[i] = part[i] * t_19[(i >> 1) & 1];
          float acc_2[32];
          #pragma unroll
          for (int i = 0; i < 32; ++i) acc_2[i] = acc_1[i] + t_20[i];
          #pragma unroll
          for (int px_r = 0; px_r < 32; ++px_r) acc_1[px_r] = acc_2[px_r];
        }
      }
      // block_scaled.py:19: for g in px.pipelined(range(px.cdiv(A.shape[1], 128))):
      // block_scaled.py:22: px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))
      px_bf16 acc_2[32];
      #pragma unroll
      for (int i = 0; i < 32; i += 2) ptx::bf16_pair_from_float(acc_2 + i, acc_1[i], acc_1[i + 1]);
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_0();
      }
      ptx::bar_sync<1, 256>();  // the elected thread is done with C_out at line 22 before C_out is written
      {
        const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 128);
        const unsigned a = C_out_addr;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          unsigned words[4];
          ptx::pack_words<8>(words, acc_2 + 8 * i);
          ptx::stmatrix_x4(a + 16 * (o ^ (i * 2)), words);
        }
      }
      ptx::fence_proxy_async_shared_cta();
      ptx::bar_sync<1, 256>();  // C_out was written at line 22 before C_out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, n, m, C_out_addr);
        ptx::cp_async_bulk_commit_group();
      }
    }
    // block_scaled.py:16: for t in px.persistent(rows * columns):
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
  }
}
