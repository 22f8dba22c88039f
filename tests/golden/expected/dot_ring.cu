// dot_ring(BM=128, BN=64, BK=64, STAGES=3) for sm_100a, from dots.py:9
// 160 threads, 92352 bytes of shared memory

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
//   tcgen05_alloc_cta_group_1_64
//   tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned
//   mbarrier_init_shared_cta
//   fence_mbarrier_init_release_cluster
//   wrap_mul
//   wrap_add
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global
//   elect_sync
//   tcgen05_fence_after_thread_sync
//   tcgen05_mma_cta_group_1_f16
//   tcgen05_descriptor
//   bar_sync
//   tcgen05_commit_cta_group_1
//   tcgen05_ld_32x32b_x64_float
//   tcgen05_wait_ld_sync_aligned
//   keep_float
//   bf16_pair_from_float
//   bits
//   unpack
//   store_vector
//   inside
//   tcgen05_fence_before_thread_sync
//   tcgen05_dealloc_cta_group_1_64
//   shared_address

extern "C" __global__ void __launch_bounds__(160, 1) dot_ring_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<px_bf16, 2> B,
    const __grid_constant__ px_array<px_bf16, 2> C,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned tmem_address_addr = px_base + 73728;
  const unsigned pipe_full = px_base + 92288;
  const unsigned pipe_empty = px_base + 92312;
  const unsigned dot_done = px_base + 92336;
  unsigned* const tmem_address = reinterpret_cast<unsigned*>(px_smem + 73728);
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 49152;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
  }
  // dots.py:24: acc = px.dot(a[i], b[i].T, acc)
  if (px_warp_id == 0) {
    // acc_tmem: accumulator, columns 0 to 63
    ptx::tcgen05_alloc_cta_group_1_64(tmem_address_addr);
    ptx::tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned();
  }
  // dots.py:13: pipe = px.pipe(STAGES)
  if (px_one) {
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(pipe_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(pipe_empty + 8 * px_i, 1);
    // dots.py:24: acc = px.dot(a[i], b[i].T, acc)
    ptx::mbarrier_init_shared_cta(dot_done, 1);
    // dots.py:9: def dot_ring(A, B, C, *, BM=128, BN=64, BK=64, STAGES=3):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // dots.py:11: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int block_x = (int)blockIdx.x;
  const int block_y = (int)blockIdx.y;
  // dots.py:14: steps = px.cdiv(A.shape[1], BK)
  const int A_size1 = A.shape[1];
  // dots.py:11: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int m = ptx::wrap_mul(block_x, 128);
  const int n = ptx::wrap_mul(block_y, 64);
  // dots.py:14: steps = px.cdiv(A.shape[1], BK)
  const int steps = ptx::wrap_add((A_size1 >> 6), ((int)((A_size1 & 63) != 0)));
  // dots.py:9: def dot_ring(A, B, C, *, BM=128, BN=64, BK=64, STAGES=3):
  __syncthreads();  // barriers are initialised before their first use
  // dots.py:24: acc = px.dot(a[i], b[i].T, acc)
  const unsigned px_tmem = *(volatile unsigned*)tmem_address;
  // dots.py:15: with px.warps(4, 1):
  __syncthreads();  // all threads are done with tmem_address at line 24 before the elected thread arrives
  if (px_warp_id == 4) {  // warp 4
    const bool px_one = ptx::elect_sync();
    // dots.py:16: for k in range(steps):
    int filling = 0;
    int filling_parity = 0;
    #pragma unroll 1
    for (int k = 0; k < steps; ++k) {
      // dots.py:17: with pipe.produce() as i:
      ptx::mbarrier_wait_parity(pipe_empty + 8 * filling, filling_parity ^ 1);
      __syncwarp();  // all threads have passed the wait at line 17 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(pipe_full + 8 * filling, 24576);
        // dots.py:18: px.tma.load(A[m : m + BM, k * BK : k * BK + BK], a[i], pipe.full[i])
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_shared_global(a_addr + filling * 16384, &A_map, ptx::wrap_mul(k, 64), m, pipe_full + 8 * filling);
        // dots.py:19: px.tma.load(B[n : n + BN, k * BK : k * BK + BK], b[i], pipe.full[i])
        // tensor copy: a box of 64 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_shared_global(b_addr + filling * 8192, &B_map, ptx::wrap_mul(k, 64), n, pipe_full + 8 * filling);
      }
      // dots.py:17: with pipe.produce() as i:
      const int t = ptx::wrap_add(filling, 1);
      const bool t_1 = t == 3;
      filling = t_1 ? 0 : t;
      filling_parity = filling_parity ^ ((int)t_1);
    }
  } else if (px_warp_id < 4) {  // warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    float acc[64];
    // dots.py:24: acc = px.dot(a[i], b[i].T, acc)
    int dot_phase = 0;
    // dots.py:22: for _ in range(steps):
    int taking = 0;
    int taking_parity = 0;
    // dots.py:24: acc = px.dot(a[i], b[i].T, acc)
    bool acc_begun = false;
    // dots.py:22: for _ in range(steps):
    #pragma unroll 1
    for (int t = 0; t < steps; ++t) {
      // dots.py:23: with pipe.consume() as i:
      ptx::mbarrier_wait_parity(pipe_full + 8 * taking, taking_parity);
      // dots.py:24: acc = px.dot(a[i], b[i].T, acc)
      ptx::tcgen05_fence_after_thread_sync();
      if (px_one) {
        {
          const unsigned long long px_a = ptx::tcgen05_descriptor(a_addr + taking * 16384, 0x4000404000010000ull);
          const unsigned long long px_b = ptx::tcgen05_descriptor(b_addr + taking * 8192, 0x4000404000010000ull);
          const unsigned px_d = px_tmem;
          ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a, px_b, 0x8100490u, acc_begun);
          ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 2, px_b + 2, 0x8100490u, true);
          ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 4, px_b + 4, 0x8100490u, true);
          ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 6, px_b + 6, 0x8100490u, true);
        }
      }
      acc_begun = true;
      // dots.py:23: with pipe.consume() as i:
      ptx::bar_sync<1, 128>();  // all threads have passed the wait at line 23 before the elected thread goes on
      if (px_one) {
        ptx::tcgen05_commit_cta_group_1(pipe_empty + 8 * taking);
      }
      const int t_1 = ptx::wrap_add(taking, 1);
      const bool t_2 = t_1 == 3;
      taking = t_2 ? 0 : t_1;
      taking_parity = taking_parity ^ ((int)t_2);
    }
    // dots.py:22: for _ in range(steps):
    if (px_one) {
      ptx::tcgen05_commit_cta_group_1(dot_done);
    }
    ptx::mbarrier_wait_parity(dot_done, dot_phase);
    dot_phase = dot_phase ^ 1;
    // dots.py:24: acc = px.dot(a[i], b[i].T, acc)
    if (acc_begun) {
      ptx::tcgen05_fence_after_thread_sync();
      float acc_1[64];
      // 32x32b: 1 of each warp
      {
        const unsigned px_at = px_tmem + (px_warp_id << 21);
        ptx::tcgen05_ld_32x32b_x64_float(acc_1, px_at);
      }
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(acc_1);
      #pragma unroll
      for (int px_r = 0; px_r < 64; ++px_r) acc[px_r] = acc_1[px_r];
    } else {
      // dots.py:21: acc = px.zeros((BM, BN), px.f32)
      float acc_1[64];
      #pragma unroll
      for (int i = 0; i < 64; ++i) acc_1[i] = 0.0f;
      // dots.py:24: acc = px.dot(a[i], b[i].T, acc)
      #pragma unroll
      for (int px_r = 0; px_r < 64; ++px_r) acc[px_r] = acc_1[px_r];
    }
    // dots.py:22: for _ in range(steps):
    // dots.py:25: px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))
    px_bf16 acc_1[64];
    #pragma unroll
    for (int i = 0; i < 64; i += 2) ptx::bf16_pair_from_float(acc_1 + i, acc[i], acc[i + 1]);
    px_bf16 acc_2[64];
    {
      px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 73856));
      {
        auto* const p = scratch + (px_lane + px_warp_id * 32) * 72;
        #pragma unroll
        for (int i = 0; i < 64; i += 8) {
          ptx::store_vector<8>(p + (i >> 3) * 8, acc_1 + (i >> 3) * 8);
        }
      }
      ptx::bar_sync<1, 128>();
      {
        auto* const p = scratch + px_warp_id * 72 + px_lane;
        #pragma unroll
        for (int i = 0; i < 64; ++i) {
          constexpr int offset[64] = {0, 32, 288, 320, 576, 608, 864, 896, 1152, 1184, 1440, 1472, 1728, 1760, 2016, 2048, 2304, 2336, 2592, 2624, 2880, 2912, 3168, 3200, 3456, 3488, 3744, 3776, 4032, 4064, 4320, 4352, 4608, 4640, 4896, 4928, 5184, 5216, 5472, 5504, 5760, 5792, 6048, 6080, 6336, 6368, 6624, 6656, 6912, 6944, 7200, 7232, 7488, 7520, 7776, 7808, 8064, 8096, 8352, 8384, 8640, 8672, 8928, 8960};
          acc_2[i] = *(p + offset[i]);
        }
      }
    }
    {
      const unsigned x0 = (unsigned)m + px_warp_id;
      const unsigned x1 = (unsigned)n + px_lane;
      px_bf16* const p = C.data + ((int)x0 * C.stride[0] + (int)x1);
      #pragma unroll
      for (int i = 0; i < 64; ++i) {
        if (ptx::inside(x0 + (i >> 1) * 4, C.shape[0]) && ptx::inside(x1 + (i & 1) * 32, C.shape[1])) *(p + (i >> 1) * 4 * C.stride[0] + (i & 1) * 32) = acc_2[i];
      }
    }
    // dots.py:20: with px.warps(0, 4):
    ptx::tcgen05_fence_before_thread_sync();
  }
  // dots.py:24: acc = px.dot(a[i], b[i].T, acc)
  __syncthreads();  // nobody uses the tensor memory any more
  ptx::tcgen05_fence_after_thread_sync();
  if (px_warp_id == 0) {
    ptx::tcgen05_dealloc_cta_group_1_64(px_tmem);
  }
}
