// matmul(BM=128, BN=64, BK=64) for sm_90a, from matmul.py
// 384 threads, 213120 bytes of shared memory, clusters of 1 x 2 x 1 (set at launch)

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
//   wrap_add
//   wrap_mul
//   setmaxnreg_dec
//   floor_div
//   minimum
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global_multicast
//   cp_async_bulk_tensor_2d_shared_global
//   elect_sync
//   setmaxnreg_inc
//   wgmma_fence_sync_aligned
//   wgmma_descriptor
//   wgmma_m64n64k16_f32_bf16_bf16_x4
//   wgmma_commit_group_sync_aligned
//   wgmma_wait_group_1
//   mbarrier_arrive_shared_cluster
//   mapa_shared_cluster
//   wgmma_wait_group_0
//   keep_float
//   bf16_pair_from_float
//   cp_async_bulk_wait_group_read_0
//   bar_sync
//   bits
//   pack_words
//   stmatrix_x4
//   fence_proxy_async_shared_cta
//   cp_async_bulk_tensor_2d_global_shared
//   cp_async_bulk_commit_group
//   cp_async_bulk_wait_group_0
//   barrier_cluster_arrive_release_aligned
//   shared_address

extern "C" __global__ void __launch_bounds__(384, 1) matmul_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<px_bf16, 2> B,
    const __grid_constant__ px_array<px_bf16, 2> C,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map,
    const __grid_constant__ px_tensor_map C_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned A_B_full = px_base + 212992;
  const unsigned A_B_empty = px_base + 213056;
  const unsigned A_ring_addr = px_base;
  const unsigned B_ring_addr = px_base + 131072;
  const unsigned C_out_addr = px_base + 196608;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
    ptx::prefetch_tensormap(&C_map);
  }
  // matmul.py: acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
  if (px_one) {
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(A_B_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(A_B_empty + 8 * px_i, 4);
    // matmul.py: def matmul(A, B, C, *, BM=128, BN=256, BK=64):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // matmul.py: rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], 2 * BN)
  const int C_size0 = C.shape[0];
  const int C_size1 = C.shape[1];
  // matmul.py: for t in px.persistent(rows * columns):
  const int cluster = (int)blockIdx.x + (int)gridDim.x * (((int)blockIdx.y / 2) + ((int)gridDim.y / 2) * (int)blockIdx.z);
  const int clusters = (int)gridDim.x * (int)gridDim.y * (int)gridDim.z / 2;
  // matmul.py: m, n = t // columns * BM, (t % columns * 2 + px.cluster.rank()) * BN
  const int rank = ptx::cluster_ctarank();
  // matmul.py: for k in px.pipelined(range(0, A.shape[1], BK)):
  const int A_size1 = A.shape[1];
  // matmul.py: def matmul(A, B, C, *, BM=128, BN=256, BK=64):
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // matmul.py: px.wait_prior()
  ptx::griddepcontrol_wait();
  // matmul.py: px.launch_dependents()
  ptx::griddepcontrol_launch_dependents();
  // matmul.py: rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], 2 * BN)
  const int rows = ptx::wrap_add((C_size0 >> 7), ((int)((C_size0 & 127) != 0)));
  const int columns = ptx::wrap_add((C_size1 >> 7), ((int)((C_size1 & 127) != 0)));
  // matmul.py: for t in px.persistent(rows * columns):
  const int t = ptx::wrap_mul(rows, columns);
  // matmul.py: for k in px.pipelined(range(0, A.shape[1], BK)):
  if (px_warp_id >= 8) {  // producer: warp 8
    const bool px_one = ptx::elect_sync();
    ptx::setmaxnreg_dec<40>();
    if (px_warp_id == 8) {
      int fill_stage = 0;
      int fill_parity = 0;
      // matmul.py: for t in px.persistent(rows * columns):
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
        // matmul.py: m, n = t // columns * BM, (t % columns * 2 + px.cluster.rank()) * BN
        const int m = ptx::wrap_mul(row, 128);
        const int n = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(column, 2), rank)), 64);
        // matmul.py: for k in px.pipelined(range(0, A.shape[1], BK)):
        #pragma unroll 1
        for (int k = 0; k < A_size1; k += 64) {
          // matmul.py: acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
          ptx::mbarrier_wait_parity(A_B_empty + 8 * fill_stage, fill_parity ^ 1);
          __syncwarp();  // all threads have passed the wait at line 20 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(A_B_full + 8 * fill_stage, 24576);
          }
          const int rank_1 = ptx::cluster_ctarank();
          const int t_9 = ptx::wrap_mul(rank_1, 64);
          if (px_one) {
            // tensor copy: a box of 64 x 64, 128-byte swizzle
            ptx::cp_async_bulk_tensor_2d_shared_global_multicast(A_ring_addr + fill_stage * 16384 + t_9 * 128, &A_map, k, ptx::wrap_add(m, t_9), A_B_full + 8 * fill_stage, 0x3);
            // tensor copy: a box of 64 x 64, 128-byte swizzle
            ptx::cp_async_bulk_tensor_2d_shared_global(B_ring_addr + fill_stage * 8192, &B_map, k, n, A_B_full + 8 * fill_stage);
          }
          const int t_10 = ptx::wrap_add(fill_stage, 1);
          const bool wraps = t_10 == 8;
          fill_parity = fill_parity ^ ((int)wraps);
          fill_stage = wraps ? 0 : t_10;
        }
      }
    }
  } else if (px_warp_id < 8) {  // consumer: warps 0 to 7
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    ptx::setmaxnreg_inc<232>();
    // matmul.py: for k in px.pipelined(range(0, A.shape[1], BK)):
    int take_stage = 0;
    int take_parity = 0;
    // matmul.py: for t in px.persistent(rows * columns):
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
      // matmul.py: m, n = t // columns * BM, (t % columns * 2 + px.cluster.rank()) * BN
      const int m = ptx::wrap_mul(row, 128);
      const int n = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(column, 2), rank)), 64);
      // matmul.py: for k in px.pipelined(range(0, A.shape[1], BK)):
      float acc[32];
      float acc_1[32];
      int last_stage = 0;
      const bool ran = 0 < A_size1;
      if (ran) {
      } else {
        // matmul.py: acc = px.zeros((BM, BN), px.f32)
        float acc_2[32];
        #pragma unroll
        for (int i = 0; i < 32; ++i) acc_2[i] = 0.0f;
        // matmul.py: for k in px.pipelined(range(0, A.shape[1], BK)):
        #pragma unroll
        for (int px_r = 0; px_r < 32; ++px_r) acc_1[px_r] = acc_2[px_r];
      }
      #pragma unroll 1
      for (int k = 0; k < A_size1; k += 64) {
        // matmul.py: acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[n : n + BN, k : k + BK]).T, acc)
        const int take_stage_1 = take_stage;
        ptx::mbarrier_wait_parity(A_B_full + 8 * take_stage_1, take_parity);
        const int t_10 = ptx::wrap_add(take_stage_1, 1);
        const bool wraps = t_10 == 8;
        take_parity = take_parity ^ ((int)wraps);
        take_stage = wraps ? 0 : t_10;
        const bool later = k != 0;
        ptx::wgmma_fence_sync_aligned();
        {
          const unsigned long long px_a = ptx::wgmma_descriptor(A_ring_addr + take_stage_1 * 16384 + px_warp_id / 4 * 8192, 0x4000004000010000ull);
          const unsigned long long px_b = ptx::wgmma_descriptor(B_ring_addr + take_stage_1 * 8192, 0x4000004000010000ull);
          ptx::wgmma_m64n64k16_f32_bf16_bf16_x4<2, 4, 6, 2, 4, 6>(acc_1, px_a, px_b, later);
        }
        ptx::wgmma_commit_group_sync_aligned();
        ptx::wgmma_wait_group_1();
        const bool later_1 = k != 0;
        if (later_1) {
          if (px_warp_id % 4 == 0 && px_lane < 2) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(A_B_empty + 8 * last_stage, px_lane));
        }
        last_stage = take_stage_1;
      }
      // matmul.py: for k in px.pipelined(range(0, A.shape[1], BK)):
      ptx::wgmma_wait_group_0();
      ptx::keep_float<32>(acc_1);
      if (ran) {
        if (px_warp_id % 4 == 0 && px_lane < 2) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(A_B_empty + 8 * last_stage, px_lane));
      }
      // matmul.py: px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))
      px_bf16 acc_2[32];
      #pragma unroll
      for (int i = 0; i < 32; i += 2) ptx::bf16_pair_from_float(acc_2 + i, acc_1[i], acc_1[i + 1]);
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_0();
      }
      ptx::bar_sync<1, 256>();  // the elected thread is done with C_out at line 21 before C_out is written
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
      ptx::bar_sync<1, 256>();  // C_out was written at line 21 before C_out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, n, m, C_out_addr);
        ptx::cp_async_bulk_commit_group();
      }
    }
    // matmul.py: for t in px.persistent(rows * columns):
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
  }
  // matmul.py: def matmul(A, B, C, *, BM=128, BN=256, BK=64):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
