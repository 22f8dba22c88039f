// split_k(BM=64, BN=64, BK=64, STAGES=3, SPLIT=2, CN=2) for sm_90a, from split_k.py
// 160 threads, 84032 bytes of shared memory, clusters of 2 x 2 x 1 (set at launch)

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
//   shift_right
//   wrap_mul
//   wrap_add
//   shift_left
//   barrier_cluster_wait_acquire_aligned
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global_multicast
//   cp_async_bulk_tensor_2d_shared_global
//   elect_sync
//   wgmma_fence_sync_aligned
//   wgmma_descriptor
//   wgmma_m64n64k16_f32_bf16_bf16_x4
//   wgmma_commit_group_sync_aligned
//   wgmma_wait_group_0
//   keep_float
//   mbarrier_arrive_shared_cluster
//   mapa_shared_cluster
//   wrap_sub
//   bits
//   unpack
//   st_async
//   load_vector
//   store_vector
//   bar_sync
//   inside
//   barrier_cluster_arrive_release_aligned
//   shared_address

extern "C" __global__ void __launch_bounds__(160, 1) split_k_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<px_bf16, 2> B,
    const __grid_constant__ px_array<float, 2> C,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned pipe_full = px_base + 83968;
  const unsigned pipe_empty = px_base + 83992;
  const unsigned landed = px_base + 84016;
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 24576;
  const unsigned inbox_addr = px_base + 49152;
  float* const inbox = reinterpret_cast<float*>(px_smem + 49152);
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
  }
  // split_k.py: pipe, landed = px.pipe(STAGES), px.barrier()
  if (px_one) {
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(pipe_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(pipe_empty + 8 * px_i, 2);
    ptx::mbarrier_init_shared_cta(landed, 1);
    // split_k.py: def split_k(A, B, C, *, BM=64, BN=64, BK=64, STAGES=3, SPLIT=2, CN=2):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // split_k.py: with pipe.consume() as i:
  const int rank = ptx::cluster_ctarank();
  const int release_ctas = (((ptx::shift_right<int>(10, rank)) & 1) != 0) ? 10 : 5;
  // split_k.py: s, y = px.cluster.rank(0), px.cluster.rank(1)
  const int rank_x = (int)((unsigned)ptx::cluster_ctarank() % 2u);
  const int rank_y = (int)((unsigned)ptx::cluster_ctarank() / 2u);
  // split_k.py: m, n = px.block_id(2) * BM, px.block_id(1) * BN
  const int block_z = (int)blockIdx.z;
  const int block_y = (int)blockIdx.y;
  // split_k.py: steps = px.cdiv(A.shape[1], BK * SPLIT)  # beyond the end of K there are zeros
  const int A_size1 = A.shape[1];
  // split_k.py: m, n = px.block_id(2) * BM, px.block_id(1) * BN
  const int m = ptx::wrap_mul(block_z, 64);
  const int n = ptx::wrap_mul(block_y, 64);
  // split_k.py: steps = px.cdiv(A.shape[1], BK * SPLIT)  # beyond the end of K there are zeros
  const int steps = ptx::wrap_add((A_size1 >> 7), ((int)((A_size1 & 127) != 0)));
  // split_k.py: same_rows = same_rows | 1 << (s + SPLIT * other)
  const int same_rows = 0 | (ptx::shift_left<int>(1, rank_x));
  const int t = ptx::shift_left<int>(1, ptx::wrap_add(rank_x, 2));
  const int same_rows_1 = same_rows | t;
  // split_k.py: def split_k(A, B, C, *, BM=64, BN=64, BK=64, STAGES=3, SPLIT=2, CN=2):
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // split_k.py: with px.warps(4, 1):
  if (px_warp_id == 4) {  // warp 4
    const bool px_one = ptx::elect_sync();
    // split_k.py: for t in range(steps):
    int filling = 0;
    int filling_parity = 0;
    #pragma unroll 1
    for (int t_1 = 0; t_1 < steps; ++t_1) {
      // split_k.py: k = (s * steps + t) * BK
      const int k = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(rank_x, steps), t_1)), 64);
      // split_k.py: with pipe.produce() as i:
      ptx::mbarrier_wait_parity(pipe_empty + 8 * filling, filling_parity ^ 1);
      __syncwarp();  // all threads have passed the wait at line 31 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(pipe_full + 8 * filling, 16384);
      }
      // split_k.py: px.cluster.load(A[m : m + BM, k : k + BK], a[i], pipe.full[i], ctas=same_rows)
      const int rank_y_1 = (int)((unsigned)ptx::cluster_ctarank() / 2u);
      const int t_2 = ptx::wrap_mul(rank_y_1, 32);
      if (px_one) {
        // tensor copy: a box of 32 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_shared_global_multicast(a_addr + filling * 8192 + t_2 * 128, &A_map, k, ptx::wrap_add(m, t_2), pipe_full + 8 * filling, (unsigned short)same_rows_1);
        // split_k.py: px.tma.load(B[n : n + BN, k : k + BK], b[i], pipe.full[i])
        // tensor copy: a box of 64 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_shared_global(b_addr + filling * 8192, &B_map, k, n, pipe_full + 8 * filling);
      }
      // split_k.py: with pipe.produce() as i:
      const int t_3 = ptx::wrap_add(filling, 1);
      const bool t_4 = t_3 == 3;
      filling = t_4 ? 0 : t_3;
      filling_parity = filling_parity ^ ((int)t_4);
    }
  } else if (px_warp_id < 4) {  // warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    // split_k.py: for _ in range(steps):
    int taking = 0;
    int taking_parity = 0;
    // split_k.py: acc = px.zeros((BM, BN), px.f32)
    float acc[32];
    #pragma unroll
    for (int i = 0; i < 32; ++i) acc[i] = 0.0f;
    // split_k.py: for _ in range(steps):
    float acc_1[32];
    #pragma unroll
    for (int px_r = 0; px_r < 32; ++px_r) acc_1[px_r] = acc[px_r];
    #pragma unroll 1
    for (int t_1 = 0; t_1 < steps; ++t_1) {
      // split_k.py: with pipe.consume() as i:
      ptx::mbarrier_wait_parity(pipe_full + 8 * taking, taking_parity);
      // split_k.py: acc = px.dot(a[i], b[i].T, acc)
      ptx::wgmma_fence_sync_aligned();
      {
        const unsigned long long px_a = ptx::wgmma_descriptor(a_addr + taking * 8192, 0x4000004000010000ull);
        const unsigned long long px_b = ptx::wgmma_descriptor(b_addr + taking * 8192, 0x4000004000010000ull);
        ptx::wgmma_m64n64k16_f32_bf16_bf16_x4<2, 4, 6, 2, 4, 6>(acc_1, px_a, px_b, true);
      }
      ptx::wgmma_commit_group_sync_aligned();
      ptx::wgmma_wait_group_0();
      ptx::keep_float<32>(acc_1);
      // split_k.py: with pipe.consume() as i:
      if (px_warp_id == 0 && ((unsigned)release_ctas >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(pipe_empty + 8 * taking, px_lane));
      const int t_2 = ptx::wrap_add(taking, 1);
      const bool t_3 = t_2 == 3;
      taking = t_3 ? 0 : t_2;
      taking_parity = taking_parity ^ ((int)t_3);
    }
    // split_k.py: for _ in range(steps):
    // split_k.py: with landed.transaction():  # of SPLIT - 1 tiles where s is 0, of nothing elsewhere
    const int rank_1 = ptx::cluster_ctarank();
    const int nbytes = (rank_1 == 1) ? 0 : 16384;
    const int nbytes_1 = (rank_1 == 3) ? 0 : nbytes;
    if (px_one) {
      ptx::mbarrier_arrive_expect_tx_shared_cta(landed, nbytes_1);
    }
    // split_k.py: if s > 0:
    if (rank_x > 0) {
      // split_k.py: px.cluster.store(inbox[s - 1], acc, landed, cta=SPLIT * y)
      const int t_1 = ptx::wrap_mul(2, rank_y);
      {
        const unsigned there_bar = ptx::mapa_shared_cluster(landed, t_1);
        const unsigned a = ptx::mapa_shared_cluster(inbox_addr, t_1) + 4 * (ptx::wrap_sub(rank_x, 1) * 4096 + (((px_lane & 15) * 2) ^ ((px_lane >> 4) * 36) ^ (px_warp_id * 128)));
        #pragma unroll
        for (int i = 0; i < 32; i += 2) {
          ptx::st_async<2>(a + 4 * (((i >> 1) & 1) * 64 + (i >> 2) * 512), acc_1 + i, there_bar);
        }
      }
    }
    // split_k.py: landed.wait(0)
    ptx::mbarrier_wait_parity(landed, 0);
    // split_k.py: if s == 0:
    if (rank_x == 0) {
      // split_k.py: acc = acc + px.load(inbox[other])
      float t_1[32];
      {
        float* const p = inbox + (((px_lane & 15) * 2) ^ ((px_lane >> 4) * 36) ^ (px_warp_id * 128));
        #pragma unroll
        for (int i = 0; i < 32; i += 2) {
          ptx::load_vector<2>(t_1 + i, p + ((i >> 1) & 1) * 64 + (i >> 2) * 512);
        }
      }
      float acc_2[32];
      #pragma unroll
      for (int i = 0; i < 32; ++i) acc_2[i] = acc_1[i] + t_1[i];
      // split_k.py: px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))
      float acc_3[32];
      {
        float* const scratch = reinterpret_cast<float*>((px_smem + 65536));
        {
          auto* const p = scratch + ((px_lane >> 2) + px_warp_id * 16) * 72 + (px_lane & 3) * 2;
          #pragma unroll
          for (int i = 0; i < 32; i += 2) {
            ptx::store_vector<2>(p + ((i >> 1) & 1) * 576 + (i >> 2) * 8, acc_2 + (i >> 1) * 2);
          }
        }
        ptx::bar_sync<1, 128>();
        {
          auto* const p = scratch + px_warp_id * 72 + px_lane;
          #pragma unroll
          for (int i = 0; i < 32; ++i) {
            constexpr int offset[32] = {0, 32, 288, 320, 576, 608, 864, 896, 1152, 1184, 1440, 1472, 1728, 1760, 2016, 2048, 2304, 2336, 2592, 2624, 2880, 2912, 3168, 3200, 3456, 3488, 3744, 3776, 4032, 4064, 4320, 4352};
            acc_3[i] = *(p + offset[i]);
          }
        }
      }
      {
        const unsigned x0 = (unsigned)m + px_warp_id;
        const unsigned x1 = (unsigned)n + px_lane;
        float* const p = C.data + ((int)x0 * C.stride[0] + (int)x1);
        #pragma unroll
        for (int i = 0; i < 32; ++i) {
          if (ptx::inside(x0 + (i >> 1) * 4, C.shape[0]) && ptx::inside(x1 + (i & 1) * 32, C.shape[1])) *(p + (i >> 1) * 4 * C.stride[0] + (i & 1) * 32) = acc_3[i];
        }
      }
    }
  }
  // split_k.py: def split_k(A, B, C, *, BM=64, BN=64, BK=64, STAGES=3, SPLIT=2, CN=2):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
