// blackwell_v2(BM=128, BN=256, BK=64, STAGES=4) for sm_100a, from v2.py:13
// 192 threads, 215248 bytes of shared memory

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
//   tcgen05_alloc_cta_group_1_256
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
//   tcgen05_commit_cta_group_1
//   tcgen05_ld_32x32b_x64_float
//   tcgen05_wait_ld_sync_aligned
//   keep_float
//   bf16_pair_from_float
//   bits
//   unpack
//   store_vector
//   bar_sync
//   load_vector
//   inside
//   store_vector_if
//   tcgen05_fence_before_thread_sync
//   tcgen05_dealloc_cta_group_1_256
//   shared_address

extern "C" __global__ void __launch_bounds__(192, 1) blackwell_v2_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<px_bf16, 2> B,
    const __grid_constant__ px_array<px_bf16, 2> C,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned tmem_address_addr = px_base + 196608;
  const unsigned pipe_full = px_base + 215168;
  const unsigned pipe_empty = px_base + 215200;
  const unsigned done = px_base + 215232;
  unsigned* const tmem_address = reinterpret_cast<unsigned*>(px_smem + 196608);
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 65536;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
  }
  // v2.py:17: acc = px.tmem((BM, BN), px.f32)
  if (px_warp_id == 0) {
    // acc: accumulator, columns 0 to 255
    ptx::tcgen05_alloc_cta_group_1_256(tmem_address_addr);
    ptx::tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned();
  }
  // v2.py:18: pipe, done = px.pipe(STAGES), px.barrier()
  if (px_one) {
    for (int px_i = 0; px_i < 4; ++px_i) ptx::mbarrier_init_shared_cta(pipe_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 4; ++px_i) ptx::mbarrier_init_shared_cta(pipe_empty + 8 * px_i, 1);
    ptx::mbarrier_init_shared_cta(done, 1);
    // v2.py:13: def blackwell_v2(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // v2.py:14: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int block_x = (int)blockIdx.x;
  const int block_y = (int)blockIdx.y;
  // v2.py:19: steps = px.cdiv(A.shape[1], BK)
  const int A_size1 = A.shape[1];
  // v2.py:14: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int m = ptx::wrap_mul(block_x, 128);
  const int n = ptx::wrap_mul(block_y, 256);
  // v2.py:19: steps = px.cdiv(A.shape[1], BK)
  const int steps = ptx::wrap_add((A_size1 >> 6), ((int)((A_size1 & 63) != 0)));
  // v2.py:13: def blackwell_v2(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4):
  __syncthreads();  // barriers are initialised before their first use
  // v2.py:17: acc = px.tmem((BM, BN), px.f32)
  const unsigned px_tmem = *(volatile unsigned*)tmem_address;
  // v2.py:21: with px.warps(4, 1):
  __syncthreads();  // all threads are done with tmem_address at line 17 before the elected thread arrives
  if (px_warp_id == 4) {  // warp 4
    const bool px_one = ptx::elect_sync();
    // v2.py:22: for k in range(0, steps * BK, BK):
    int filling = 0;
    int filling_parity = 0;
    #pragma unroll 1
    for (int k = 0; k < ptx::wrap_mul(steps, 64); k += 64) {
      // v2.py:23: with pipe.produce() as s:
      ptx::mbarrier_wait_parity(pipe_empty + 8 * filling, filling_parity ^ 1);
      __syncwarp();  // all threads have passed the wait at line 23 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(pipe_full + 8 * filling, 49152);
        // v2.py:24: px.tma.load(A[m : m + BM, k : k + BK], a[s], pipe.full[s])
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_shared_global(a_addr + filling * 16384, &A_map, k, m, pipe_full + 8 * filling);
        // v2.py:25: px.tma.load(B[n : n + BN, k : k + BK], b[s], pipe.full[s])
        // tensor copy: a box of 256 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_shared_global(b_addr + filling * 32768, &B_map, k, n, pipe_full + 8 * filling);
      }
      // v2.py:23: with pipe.produce() as s:
      const int t = ptx::wrap_add(filling, 1);
      const bool t_1 = t == 4;
      filling = t_1 ? 0 : t;
      filling_parity = filling_parity ^ ((int)t_1);
    }
  } else if (px_warp_id == 5) {  // warp 5
    const bool px_one = ptx::elect_sync();
    // v2.py:28: for k in range(steps):
    int taking = 0;
    int taking_parity = 0;
    #pragma unroll 1
    for (int k = 0; k < steps; ++k) {
      // v2.py:29: s = pipe.wait()
      ptx::mbarrier_wait_parity(pipe_full + 8 * taking, taking_parity);
      // v2.py:30: px.tcgen05.mma(a[s], b[s].T, acc, accumulate=k > 0)
      ptx::tcgen05_fence_after_thread_sync();
      if (px_one) {
        {
          const unsigned long long px_a = ptx::tcgen05_descriptor(a_addr + taking * 16384, 0x4000404000010000ull);
          const unsigned long long px_b = ptx::tcgen05_descriptor(b_addr + taking * 32768, 0x4000404000010000ull);
          const unsigned px_d = px_tmem;
          ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a, px_b, 0x8400490u, k > 0);
          ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 2, px_b + 2, 0x8400490u, true);
          ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 4, px_b + 4, 0x8400490u, true);
          ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 6, px_b + 6, 0x8400490u, true);
        }
      }
      // v2.py:31: px.tcgen05.commit(pipe)  # when this product is over
      __syncwarp();  // all threads have passed the wait at line 29 before the elected thread goes on
      if (px_one) {
        ptx::tcgen05_commit_cta_group_1(pipe_empty + 8 * taking);
      }
      const int t = ptx::wrap_add(taking, 1);
      const bool t_1 = t == 4;
      taking = t_1 ? 0 : t;
      taking_parity = taking_parity ^ ((int)t_1);
    }
    // v2.py:32: px.tcgen05.commit(done)
    if (px_one) {
      ptx::tcgen05_commit_cta_group_1(done);
    }
  } else if (px_warp_id < 4) {  // warps 0 to 3
    // v2.py:35: done.wait(0)
    ptx::mbarrier_wait_parity(done, 0);
    // v2.py:37: px.store(C[m : m + BM, n + j : n + j + 64], px.tcgen05.load(acc[:, j : j + 64]).to(C.dtype))
    ptx::tcgen05_fence_after_thread_sync();
    float t[64];
    // 32x32b: 1 of each warp
    {
      const unsigned px_at = px_tmem + (px_warp_id << 21);
      ptx::tcgen05_ld_32x32b_x64_float(t, px_at);
    }
    ptx::tcgen05_wait_ld_sync_aligned();
    ptx::keep_float<64>(t);
    px_bf16 t_1[64];
    #pragma unroll
    for (int i = 0; i < 64; i += 2) ptx::bf16_pair_from_float(t_1 + i, t[i], t[i + 1]);
    px_bf16 t_2[64];
    {
      px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 196736));
      {
        auto* const p = scratch + (px_lane + px_warp_id * 32) * 72;
        #pragma unroll
        for (int i = 0; i < 64; i += 8) {
          ptx::store_vector<8>(p + (i >> 3) * 8, t_1 + (i >> 3) * 8);
        }
      }
      ptx::bar_sync<1, 128>();
      {
        auto* const p = scratch + ((px_lane >> 3) + px_warp_id * 4) * 72 + (px_lane & 7) * 8;
        #pragma unroll
        for (int i = 0; i < 64; i += 8) {
          ptx::load_vector<8>(t_2 + (i >> 3) * 8, p + ((i >> 3) & 1) * 1152 + ((i >> 4) & 1) * 2304 + (i >> 5) * 4608);
        }
      }
    }
    {
      const unsigned x0 = (unsigned)m + (px_lane >> 3) + px_warp_id * 4;
      const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
      px_bf16* const p = C.data + ((int)x0 * C.stride[0] + (int)x1);
      #pragma unroll
      for (int i = 0; i < 64; i += 8) {
        ptx::store_vector_if<8>(p + (i >> 3) * 16 * C.stride[0], t_2 + i, ptx::inside(x0 + (i >> 3) * 16, C.shape[0]) & ptx::inside(x1, C.shape[1]));
      }
    }
    float t_3[64];
    // 32x32b: 1 of each warp
    {
      const unsigned px_at = px_tmem + 64 + (px_warp_id << 21);
      ptx::tcgen05_ld_32x32b_x64_float(t_3, px_at);
    }
    ptx::tcgen05_wait_ld_sync_aligned();
    ptx::keep_float<64>(t_3);
    px_bf16 t_4[64];
    #pragma unroll
    for (int i = 0; i < 64; i += 2) ptx::bf16_pair_from_float(t_4 + i, t_3[i], t_3[i + 1]);
    px_bf16 t_5[64];
    {
      px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 196736));
      ptx::bar_sync<1, 128>();  // scratch memory is free
      {
        auto* const p = scratch + (px_lane + px_warp_id * 32) * 72;
        #pragma unroll
        for (int i = 0; i < 64; i += 8) {
          ptx::store_vector<8>(p + (i >> 3) * 8, t_4 + (i >> 3) * 8);
        }
      }
      ptx::bar_sync<1, 128>();
      {
        auto* const p = scratch + ((px_lane >> 3) + px_warp_id * 4) * 72 + (px_lane & 7) * 8;
        #pragma unroll
        for (int i = 0; i < 64; i += 8) {
          ptx::load_vector<8>(t_5 + (i >> 3) * 8, p + ((i >> 3) & 1) * 1152 + ((i >> 4) & 1) * 2304 + (i >> 5) * 4608);
        }
      }
    }
    {
      const unsigned x0 = (unsigned)m + (px_lane >> 3) + px_warp_id * 4;
      const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
      px_bf16* const p = (C.data + ((int)x0 * C.stride[0] + (int)x1)) + (64);
      #pragma unroll
      for (int i = 0; i < 64; i += 8) {
        ptx::store_vector_if<8>(p + (i >> 3) * 16 * C.stride[0], t_5 + i, ptx::inside(x0 + (i >> 3) * 16, C.shape[0]) & ptx::inside(x1 + 64, C.shape[1]));
      }
    }
    float t_6[64];
    // 32x32b: 1 of each warp
    {
      const unsigned px_at = px_tmem + 128 + (px_warp_id << 21);
      ptx::tcgen05_ld_32x32b_x64_float(t_6, px_at);
    }
    ptx::tcgen05_wait_ld_sync_aligned();
    ptx::keep_float<64>(t_6);
    px_bf16 t_7[64];
    #pragma unroll
    for (int i = 0; i < 64; i += 2) ptx::bf16_pair_from_float(t_7 + i, t_6[i], t_6[i + 1]);
    px_bf16 t_8[64];
    {
      px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 196736));
      ptx::bar_sync<1, 128>();  // scratch memory is free
      {
        auto* const p = scratch + (px_lane + px_warp_id * 32) * 72;
        #pragma unroll
        for (int i = 0; i < 64; i += 8) {
          ptx::store_vector<8>(p + (i >> 3) * 8, t_7 + (i >> 3) * 8);
        }
      }
      ptx::bar_sync<1, 128>();
      {
        auto* const p = scratch + ((px_lane >> 3) + px_warp_id * 4) * 72 + (px_lane & 7) * 8;
        #pragma unroll
        for (int i = 0; i < 64; i += 8) {
          ptx::load_vector<8>(t_8 + (i >> 3) * 8, p + ((i >> 3) & 1) * 1152 + ((i >> 4) & 1) * 2304 + (i >> 5) * 4608);
        }
      }
    }
    {
      const unsigned x0 = (unsigned)m + (px_lane >> 3) + px_warp_id * 4;
      const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
      px_bf16* const p = (C.data + ((int)x0 * C.stride[0] + (int)x1)) + (128);
      #pragma unroll
      for (int i = 0; i < 64; i += 8) {
        ptx::store_vector_if<8>(p + (i >> 3) * 16 * C.stride[0], t_8 + i, ptx::inside(x0 + (i >> 3) * 16, C.shape[0]) & ptx::inside(x1 + 128, C.shape[1]));
      }
    }
    float t_9[64];
    // 32x32b: 1 of each warp
    {
      const unsigned px_at = px_tmem + 192 + (px_warp_id << 21);
      ptx::tcgen05_ld_32x32b_x64_float(t_9, px_at);
    }
    ptx::tcgen05_wait_ld_sync_aligned();
    ptx::keep_float<64>(t_9);
    px_bf16 t_10[64];
    #pragma unroll
    for (int i = 0; i < 64; i += 2) ptx::bf16_pair_from_float(t_10 + i, t_9[i], t_9[i + 1]);
    px_bf16 t_11[64];
    {
      px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 196736));
      ptx::bar_sync<1, 128>();  // scratch memory is free
      {
        auto* const p = scratch + (px_lane + px_warp_id * 32) * 72;
        #pragma unroll
        for (int i = 0; i < 64; i += 8) {
          ptx::store_vector<8>(p + (i >> 3) * 8, t_10 + (i >> 3) * 8);
        }
      }
      ptx::bar_sync<1, 128>();
      {
        auto* const p = scratch + ((px_lane >> 3) + px_warp_id * 4) * 72 + (px_lane & 7) * 8;
        #pragma unroll
        for (int i = 0; i < 64; i += 8) {
          ptx::load_vector<8>(t_11 + (i >> 3) * 8, p + ((i >> 3) & 1) * 1152 + ((i >> 4) & 1) * 2304 + (i >> 5) * 4608);
        }
      }
    }
    {
      const unsigned x0 = (unsigned)m + (px_lane >> 3) + px_warp_id * 4;
      const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
      px_bf16* const p = (C.data + ((int)x0 * C.stride[0] + (int)x1)) + (192);
      #pragma unroll
      for (int i = 0; i < 64; i += 8) {
        ptx::store_vector_if<8>(p + (i >> 3) * 16 * C.stride[0], t_11 + i, ptx::inside(x0 + (i >> 3) * 16, C.shape[0]) & ptx::inside(x1 + 192, C.shape[1]));
      }
    }
    // v2.py:34: with px.warps(0, 4):
    ptx::tcgen05_fence_before_thread_sync();
  }
  // v2.py:17: acc = px.tmem((BM, BN), px.f32)
  __syncthreads();  // nobody uses the tensor memory any more
  ptx::tcgen05_fence_after_thread_sync();
  if (px_warp_id == 0) {
    ptx::tcgen05_dealloc_cta_group_1_256(px_tmem);
  }
}
