// two_in_turn(BM=64, BN=64, BK=64, STEPS=4) for sm_90a, from kernels.py:116
// 384 threads, 33072 bytes of shared memory

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
//   wrap_mul
//   setmaxnreg_dec
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global
//   wrap_add
//   elect_sync
//   setmaxnreg_inc
//   wgmma_descriptor
//   hold_descriptors
//   wgmma_fence_sync_aligned
//   wgmma_m64n64k16_f32_bf16_bf16_tb_x4_listed_a_listed_b
//   wgmma_commit_group_sync_aligned
//   wgmma_wait_group_0
//   keep_float
//   mbarrier_arrive_shared_cta
//   bits
//   shuffle_xor
//   bar_sync_of
//   inside
//   unpack
//   store_vector_if
//   shared_address

extern "C" __global__ void __launch_bounds__(384, 1) two_in_turn_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<px_bf16, 2> B,
    const __grid_constant__ px_array<float, 2> C,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned full = px_base + 33024;
  const unsigned free = px_base + 33040;
  const unsigned turn = px_base + 33056;
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 16384;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
  }
  // kernels.py:119: full, free, turn = px.barrier(2), px.barrier(2), px.barrier(2)
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(free + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(turn + 8 * px_i, 1);
    // kernels.py:116: def two_in_turn(A, B, C, *, BM=64, BN=64, BK=64, STEPS=4):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // kernels.py:120: m = px.block_id(0) * 2 * BM
  const int block_x = (int)blockIdx.x;
  const int m = ptx::wrap_mul(ptx::wrap_mul(block_x, 2), 64);
  // kernels.py:116: def two_in_turn(A, B, C, *, BM=64, BN=64, BK=64, STEPS=4):
  __syncthreads();  // barriers are initialised before their first use
  // kernels.py:121: with px.warps(0, 1, regs=24):
  if (px_warp_id < 4) {  // warp 0
    const bool px_one = ptx::elect_sync();
    ptx::setmaxnreg_dec<24>();
    if (px_warp_id == 0) {
      // kernels.py:122: for t in range(STEPS):
      #pragma unroll 1
      for (int t = 0; t < 4; ++t) {
        // kernels.py:124: free[c].wait((t & 1) ^ 1)
        ptx::mbarrier_wait_parity(free, (t & 1) ^ 1);
        // kernels.py:125: with full[c].transaction():
        __syncwarp();  // all threads have passed the wait at line 124 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(full, 16384);
          // kernels.py:126: px.tma.load(A[m + c * BM : m + c * BM + BM, t * BK : t * BK + BK], a[c], full[c])
          // tensor copy: a box of 64 x 64, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global(a_addr, &A_map, ptx::wrap_mul(t, 64), m, full);
          // kernels.py:127: px.tma.load(B[t * BK : t * BK + BK, 0:BN], b[c], full[c])
          // tensor copy: a box of 64 x 64, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global(b_addr, &B_map, 0, ptx::wrap_mul(t, 64), full);
        }
        // kernels.py:124: free[c].wait((t & 1) ^ 1)
        ptx::mbarrier_wait_parity(free + 8, (t & 1) ^ 1);
        // kernels.py:125: with full[c].transaction():
        __syncwarp();  // all threads have passed the wait at line 124 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(full + 8, 16384);
          // kernels.py:126: px.tma.load(A[m + c * BM : m + c * BM + BM, t * BK : t * BK + BK], a[c], full[c])
          // tensor copy: a box of 64 x 64, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global(a_addr + 8192, &A_map, ptx::wrap_mul(t, 64), ptx::wrap_add(m, 64), full + 8);
          // kernels.py:127: px.tma.load(B[t * BK : t * BK + BK, 0:BN], b[c], full[c])
          // tensor copy: a box of 64 x 64, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global(b_addr + 8192, &B_map, 0, ptx::wrap_mul(t, 64), full + 8);
        }
      }
    }
  } else if (px_warp_id >= 4) {  // warps 4 to 11, 2 copies
    const int px_copy = (px_warp_id - 4) / 4;
    const int px_warp = (px_warp_id - 4) % 4;
    const bool px_one = (px_warp_id - 4) % 4 == 0 && ptx::elect_sync();
    ptx::setmaxnreg_inc<240>();
    // kernels.py:128: with px.warps(4, 4, copies=2, regs=240) as c:
    const int c = px_copy;
    // kernels.py:129: acc = px.zeros((BM, BN), px.f32)
    float acc[32];
    #pragma unroll
    for (int i = 0; i < 32; ++i) acc[i] = 0.0f;
    // kernels.py:130: for t in range(STEPS):
    float acc_1[32];
    #pragma unroll
    for (int px_r = 0; px_r < 32; ++px_r) acc_1[px_r] = acc[px_r];
    const unsigned long long b_first = ptx::wgmma_descriptor(b_addr + c * 8192, 0x4000004002000000ull);  // the same in every turn
    unsigned long long b_steps[4] = {b_first, b_first + 128, b_first + 256, b_first + 384};
    ptx::hold_descriptors<4>(b_steps);
    const unsigned long long a_first = ptx::wgmma_descriptor(a_addr + c * 8192, 0x4000004000010000ull);  // the same in every turn
    unsigned long long a_steps[4] = {a_first, a_first + 2, a_first + 4, a_first + 6};
    ptx::hold_descriptors<4>(a_steps);
    #pragma unroll 1
    for (int t = 0; t < 4; ++t) {
      // kernels.py:131: full[c].wait(t & 1)
      ptx::mbarrier_wait_parity(full + 8 * c, t & 1);
      // kernels.py:132: turn[c].wait((t & 1) ^ (1 if c == 0 else 0))
      ptx::mbarrier_wait_parity(turn + 8 * c, (t & 1) ^ ((c == 0) ? 1 : 0));
      // kernels.py:133: acc = px.dot(a[c], b[c], acc)
      ptx::wgmma_fence_sync_aligned();
      {
        ptx::wgmma_m64n64k16_f32_bf16_bf16_tb_x4_listed_a_listed_b(acc_1, a_steps, b_steps, true);
      }
      ptx::wgmma_commit_group_sync_aligned();
      ptx::wgmma_wait_group_0();
      ptx::keep_float<32>(acc_1);
      // kernels.py:134: turn[(c + 1) % 2].arrive()
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(turn + 8 * (ptx::wrap_add(c, 1) & 1));
        // kernels.py:135: free[c].arrive()
        ptx::mbarrier_arrive_shared_cta(free + 8 * c);
      }
    }
    // kernels.py:130: for t in range(STEPS):
    // kernels.py:136: acc = acc - px.sum(acc) / (BM * BN)
    float t[32];
    #pragma unroll
    for (int i = 0; i < 32; ++i) t[i] = acc_1[i];
    float t_sum[1];
    {
      float t_sum_parts[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        t_sum_parts[i & 3] = t[i];
      }
      #pragma unroll
      for (int i = 4; i < 32; ++i) {
        t_sum_parts[i & 3] = t_sum_parts[i & 3] + t[i];
      }
      t_sum[0] = ((t_sum_parts[0] + t_sum_parts[1]) + t_sum_parts[2]) + t_sum_parts[3];
      #pragma unroll
      for (int mask = 1; mask <= 16; mask *= 2) {
        t_sum[0] = t_sum[0] + ptx::shuffle_xor(t_sum[0], mask);
      }
      float* const partial = reinterpret_cast<float*>((px_smem + 32768 + 128 * px_copy));
      const int part = px_warp;
      if (px_lane == 0) {
        partial[part] = t_sum[0];
      }
      ptx::bar_sync_of<128>(1 + px_copy);
      t_sum[0] = partial[0];
      #pragma unroll
      for (int j = 1; j < 4; ++j) {
        t_sum[0] = t_sum[0] + partial[j];
      }
    }
    const float t_1 = t_sum[0];
    float acc_2[32];
    #pragma unroll
    for (int i = 0; i < 32; ++i) acc_2[i] = acc_1[i] - (t_1 / 4096.0f);
    // kernels.py:137: px.store(C[m + c * BM : m + c * BM + BM, 0:BN], acc)
    {
      const unsigned x0 = (unsigned)(ptx::wrap_add(m, ptx::wrap_mul(c, 64))) + (px_lane >> 2) + px_warp * 16;
      const int x1 = (px_lane & 3) * 2;
      float* const p = C.data + ((int)x0 * C.stride[0] + x1);
      #pragma unroll
      for (int i = 0; i < 32; i += 2) {
        ptx::store_vector_if<2>(p + ((i >> 1) & 1) * 8 * C.stride[0] + (i >> 2) * 8, acc_2 + i, ptx::inside(x0 + ((i >> 1) & 1) * 8, C.shape[0]) & ptx::inside(x1 + (i >> 2) * 8, C.shape[1]));
      }
    }
  }
}
