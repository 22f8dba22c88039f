// blackwell_v1(BM=128, BN=128, BK=64, STAGES=4) for sm_100a, from v1.py:13
// 128 threads, 148688 bytes of shared memory

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
//   wrap_mul
//   wrap_add
//   wrap_sub
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global
//   tcgen05_fence_after_thread_sync
//   tcgen05_mma_cta_group_1_f16
//   tcgen05_descriptor
//   tcgen05_commit_cta_group_1
//   tcgen05_ld_32x32b_x128_float
//   tcgen05_wait_ld_sync_aligned
//   keep_float
//   bf16_pair_from_float
//   bits
//   unpack
//   store_vector
//   load_vector
//   inside
//   store_vector_if
//   tcgen05_fence_before_thread_sync
//   tcgen05_dealloc_cta_group_1_128
//   elect_sync
//   shared_address

extern "C" __global__ void __launch_bounds__(128, 1) blackwell_v1_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<px_bf16, 2> B,
    const __grid_constant__ px_array<px_bf16, 2> C,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned tmem_address_addr = px_base + 131072;
  const unsigned full = px_base + 148608;
  const unsigned empty = px_base + 148640;
  const unsigned done = px_base + 148672;
  unsigned* const tmem_address = reinterpret_cast<unsigned*>(px_smem + 131072);
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 65536;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
  }
  // v1.py:17: acc = px.tmem((BM, BN), px.f32)
  if (px_warp_id == 0) {
    // acc: accumulator, columns 0 to 127
    ptx::tcgen05_alloc_cta_group_1_128(tmem_address_addr);
    ptx::tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned();
  }
  // v1.py:18: full, empty, done = px.barrier(STAGES), px.barrier(STAGES), px.barrier()
  if (px_one) {
    for (int px_i = 0; px_i < 4; ++px_i) ptx::mbarrier_init_shared_cta(full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 4; ++px_i) ptx::mbarrier_init_shared_cta(empty + 8 * px_i, 1);
    ptx::mbarrier_init_shared_cta(done, 1);
    // v1.py:13: def blackwell_v1(A, B, C, *, BM=128, BN=128, BK=64, STAGES=4):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // v1.py:14: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int block_x = (int)blockIdx.x;
  const int block_y = (int)blockIdx.y;
  // v1.py:19: steps = px.cdiv(A.shape[1], BK)
  const int A_size1 = A.shape[1];
  // v1.py:14: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int m = ptx::wrap_mul(block_x, 128);
  const int n = ptx::wrap_mul(block_y, 128);
  // v1.py:19: steps = px.cdiv(A.shape[1], BK)
  const int steps = ptx::wrap_add((A_size1 >> 6), ((int)((A_size1 & 63) != 0)));
  // v1.py:22: for k in range(1 - STAGES, steps):  # the copies are STAGES - 1 steps ahead of the products
  int stage = 0;
  int parity = 0;
  int stage_1 = 0;
  int parity_1 = 0;
  // v1.py:13: def blackwell_v1(A, B, C, *, BM=128, BN=128, BK=64, STAGES=4):
  __syncthreads();  // barriers are initialised before their first use
  // v1.py:17: acc = px.tmem((BM, BN), px.f32)
  const unsigned px_tmem = *(volatile unsigned*)tmem_address;
  // v1.py:22: for k in range(1 - STAGES, steps):  # the copies are STAGES - 1 steps ahead of the products
  #pragma unroll 1
  for (int k = -3; k < steps; ++k) {
    int stage_2;
    int parity_2;
    int stage_3;
    int parity_3;
    // v1.py:23: ahead = k + STAGES - 1
    const int ahead = ptx::wrap_sub(ptx::wrap_add(k, 4), 1);
    // v1.py:24: if ahead < steps:
    if (ahead < steps) {
      // v1.py:26: empty[s].wait(load.parity ^ 1)
      ptx::mbarrier_wait_parity(empty + 8 * stage, parity ^ 1);
      // v1.py:27: with full[s].transaction():
      __syncthreads();  // all threads are done with tmem_address at line 17 before the elected thread arrives
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(full + 8 * stage, 32768);
        // v1.py:28: px.tma.load(A[m : m + BM, ahead * BK : ahead * BK + BK], a[s], full[s])
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_shared_global(a_addr + stage * 16384, &A_map, ptx::wrap_mul(ahead, 64), m, full + 8 * stage);
        // v1.py:29: px.tma.load(B[n : n + BN, ahead * BK : ahead * BK + BK], b[s], full[s])
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_shared_global(b_addr + stage * 16384, &B_map, ptx::wrap_mul(ahead, 64), n, full + 8 * stage);
      }
      // v1.py:30: load.advance()
      const int t = ptx::wrap_add(stage, 1);
      const bool t_1 = t == 4;
      // v1.py:24: if ahead < steps:
      stage_2 = t_1 ? 0 : t;
      parity_2 = parity ^ ((int)t_1);
    } else {
      stage_2 = stage;
      parity_2 = parity;
    }
    // v1.py:31: if k >= 0:
    if (k >= 0) {
      // v1.py:33: full[s].wait(use.parity)
      ptx::mbarrier_wait_parity(full + 8 * stage_1, parity_1);
      // v1.py:34: px.tcgen05.mma(a[s], b[s].T, acc, accumulate=k > 0)
      ptx::tcgen05_fence_after_thread_sync();
      if (px_one) {
        {
          const unsigned long long px_a = ptx::tcgen05_descriptor(a_addr + stage_1 * 16384, 0x4000404000010000ull);
          const unsigned long long px_b = ptx::tcgen05_descriptor(b_addr + stage_1 * 16384, 0x4000404000010000ull);
          const unsigned px_d = px_tmem;
          ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a, px_b, 0x8200490u, k > 0);
          ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 2, px_b + 2, 0x8200490u, true);
          ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 4, px_b + 4, 0x8200490u, true);
          ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 6, px_b + 6, 0x8200490u, true);
        }
      }
      // v1.py:35: px.tcgen05.commit(empty[s])
      __syncthreads();  // all threads are done with tmem_address at line 17 before the elected thread arrives
      if (px_one) {
        ptx::tcgen05_commit_cta_group_1(empty + 8 * stage_1);
      }
      // v1.py:36: use.advance()
      const int t = ptx::wrap_add(stage_1, 1);
      const bool t_1 = t == 4;
      // v1.py:31: if k >= 0:
      stage_3 = t_1 ? 0 : t;
      parity_3 = parity_1 ^ ((int)t_1);
    } else {
      stage_3 = stage_1;
      parity_3 = parity_1;
    }
    stage = stage_2;
    parity = parity_2;
    stage_1 = stage_3;
    parity_1 = parity_3;
  }
  // v1.py:37: px.tcgen05.commit(done)
  __syncthreads();  // all threads are done with tmem_address at line 17 before the elected thread arrives
  if (px_one) {
    ptx::tcgen05_commit_cta_group_1(done);
  }
  // v1.py:38: done.wait(0)
  ptx::mbarrier_wait_parity(done, 0);
  // v1.py:39: px.store(C[m : m + BM, n : n + BN], px.tcgen05.load(acc).to(C.dtype))
  ptx::tcgen05_fence_after_thread_sync();
  float t[128];
  // 32x32b: 1 of each warp
  {
    const unsigned px_at = px_tmem + (px_warp_id << 21);
    ptx::tcgen05_ld_32x32b_x128_float(t, px_at);
  }
  ptx::tcgen05_wait_ld_sync_aligned();
  ptx::keep_float<128>(t);
  px_bf16 t_1[128];
  #pragma unroll
  for (int i = 0; i < 128; i += 2) ptx::bf16_pair_from_float(t_1 + i, t[i], t[i + 1]);
  px_bf16 t_2[128];
  {
    px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 131200));
    {
      auto* const p = scratch + (px_lane + (px_warp_id & 1) * 32) * 136;
      #pragma unroll
      for (int i = 0; i < 128; i += 8) {
        const int c0 = px_lane + px_warp_id * 32;
        if (c0 < 64) ptx::store_vector<8>(p + (i >> 3) * 8, t_1 + (i >> 3) * 8);
      }
    }
    __syncthreads();
    {
      auto* const p = scratch + ((px_lane >> 4) + px_warp_id * 2) * 136 + (px_lane & 15) * 8;
      #pragma unroll
      for (int i = 0; i < 64; i += 8) {
        const int c0 = (px_lane >> 4) + px_warp_id * 2;
        if (c0 + (i >> 3) * 8 < 64) ptx::load_vector<8>(t_2 + (i >> 3) * 8, p + ((i >> 3) & 1) * 1088 + ((i >> 4) & 1) * 2176 + (i >> 5) * 4352);
      }
    }
    __syncthreads();  // the next part
    {
      auto* const p = scratch + (px_lane + (px_warp_id & 1) * 32) * 136;
      #pragma unroll
      for (int i = 0; i < 128; i += 8) {
        const int c0 = px_lane + px_warp_id * 32;
        if (c0 >= 64 && c0 < 128) ptx::store_vector<8>(p + (i >> 3) * 8, t_1 + (i >> 3) * 8);
      }
    }
    __syncthreads();
    {
      auto* const p = scratch + ((px_lane >> 4) + px_warp_id * 2) * 136 + (px_lane & 15) * 8;
      #pragma unroll
      for (int i = 0; i < 64; i += 8) {
        const int c0 = (px_lane >> 4) + px_warp_id * 2;
        if (c0 + (i >> 3) * 8 + 64 >= 64 && c0 + (i >> 3) * 8 + 64 < 128) ptx::load_vector<8>(t_2 + (i >> 3) * 8 + 64, p + ((i >> 3) & 1) * 1088 + ((i >> 4) & 1) * 2176 + (i >> 5) * 4352);
      }
    }
  }
  {
    const unsigned x0 = (unsigned)m + (px_lane >> 4) + px_warp_id * 2;
    const unsigned x1 = (unsigned)n + (px_lane & 15) * 8;
    px_bf16* const p = C.data + ((int)x0 * C.stride[0] + (int)x1);
    #pragma unroll
    for (int i = 0; i < 128; i += 8) {
      ptx::store_vector_if<8>(p + (i >> 3) * 8 * C.stride[0], t_2 + i, ptx::inside(x0 + (i >> 3) * 8, C.shape[0]) & ptx::inside(x1, C.shape[1]));
    }
  }
  // v1.py:17: acc = px.tmem((BM, BN), px.f32)
  ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();  // nobody uses the tensor memory any more
  ptx::tcgen05_fence_after_thread_sync();
  if (px_warp_id == 0) {
    ptx::tcgen05_dealloc_cta_group_1_128(px_tmem);
  }
}
