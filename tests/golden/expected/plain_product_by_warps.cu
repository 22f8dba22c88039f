// plain_matmul(BM=128, BN=64, BK=32, TA=False, TB=False, ACC=f32, WARPS=8) for sm_120a, from plain_products.py:9
// 256 threads, 12304 bytes of shared memory

typedef unsigned short px_bf16;
template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   mbarrier_init_shared_cta
//   fence_mbarrier_init_release_cluster
//   wrap_mul
//   cp_async_16
//   inside
//   bytes_inside_8x2
//   cp_async_mbarrier_arrive
//   mbarrier_arrive_shared_cta
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   ldmatrix_x4
//   bits
//   unpack_words
//   ldmatrix_x4_trans
//   pack_words
//   mma_m16n8k16_f32_bf16_bf16
//   unpack
//   store_vector_if
//   elect_sync
//   shared_address

extern "C" __global__ void __launch_bounds__(256, 1) plain_matmul_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<px_bf16, 2> B,
    const __grid_constant__ px_array<float, 2> C) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned dot_came = px_base + 12288;
  const unsigned a_tile_addr = px_base + 4096;
  const unsigned b_tile_addr = px_base;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  // plain_products.py:14: a = px.load(A[k : k + BK, m : m + BM]).T if TA else px.load(A[m : m + BM, k : k + BK])
  if (px_one) {
    ptx::mbarrier_init_shared_cta(dot_came, 1);
    // plain_products.py:9: def plain_matmul(A, B, C, *, BM=64, BN=64, BK=32, TA=False, TB=True, ACC=px.f32, WARPS=4):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // plain_products.py:14: a = px.load(A[k : k + BK, m : m + BM]).T if TA else px.load(A[m : m + BM, k : k + BK])
  int dot_phase = 0;
  // plain_products.py:11: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int block_x = (int)blockIdx.x;
  const int block_y = (int)blockIdx.y;
  // plain_products.py:13: for k in range(0, A.shape[0] if TA else A.shape[1], BK):
  const int A_size1 = A.shape[1];
  // plain_products.py:11: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int m = ptx::wrap_mul(block_x, 128);
  const int n = ptx::wrap_mul(block_y, 64);
  // plain_products.py:12: acc = px.zeros((BM, BN), ACC)
  float acc[32];
  #pragma unroll
  for (int i = 0; i < 32; ++i) acc[i] = 0.0f;
  // plain_products.py:13: for k in range(0, A.shape[0] if TA else A.shape[1], BK):
  float acc_1[32];
  #pragma unroll
  for (int px_r = 0; px_r < 32; ++px_r) acc_1[px_r] = acc[px_r];
  // plain_products.py:9: def plain_matmul(A, B, C, *, BM=64, BN=64, BK=32, TA=False, TB=True, ACC=px.f32, WARPS=4):
  __syncthreads();  // barriers are initialised before their first use
  // plain_products.py:13: for k in range(0, A.shape[0] if TA else A.shape[1], BK):
  #pragma unroll 1
  for (int k = 0; k < A_size1; k += 32) {
    // plain_products.py:14: a = px.load(A[k : k + BK, m : m + BM]).T if TA else px.load(A[m : m + BM, k : k + BK])
    __syncthreads();  // a_tile was read at line 16 before a_tile is written
    {
      {
        const unsigned x0 = (unsigned)m + (px_lane >> 2) + px_warp_id * 8;
        const unsigned x1 = (unsigned)k + (px_lane & 3) * 8;
        px_bf16* const p = A.data + ((int)x0 * A.stride[0] + (int)x1);
        const unsigned to = a_tile_addr + 2 * (((px_lane & 7) * 8) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 144) ^ (px_warp_id * 256));
        #pragma unroll
        for (int i = 0; i < 16; i += 8) {
          ptx::cp_async_16(to + 2 * (i >> 3) * 2048, p + (i >> 3) * 64 * A.stride[0], ptx::inside(x0 + (i >> 3) * 64, A.shape[0]) ? (ptx::inside(x1, A.shape[1]) ? 16u : 0u) : 0u);
        }
      }
    }
    // plain_products.py:15: b = px.load(B[n : n + BN, k : k + BK]).T if TB else px.load(B[k : k + BK, n : n + BN])
    {
      {
        const unsigned x0 = (unsigned)k + (px_lane >> 3) + px_warp_id * 4;
        const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
        px_bf16* const p = B.data + ((int)x0 * B.stride[0] + (int)x1);
        const unsigned to = b_tile_addr + 2 * (((px_lane & 7) * 8) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 144) ^ ((px_warp_id & 1) * 288) ^ ((px_warp_id >> 1) * 512));
        ptx::cp_async_16(to, p, ptx::inside(x0, B.shape[0]) ? (ptx::inside(x1, B.shape[1]) ? 16u : 0u) : 0u);
      }
    }
    // plain_products.py:16: acc = px.dot(a, b, acc)
    ptx::cp_async_mbarrier_arrive(dot_came);
    __syncthreads();  // the barrier waits for the copies of all threads
    if (px_one) {
      ptx::mbarrier_arrive_shared_cta(dot_came);
    }
    ptx::mbarrier_wait_parity(dot_came, dot_phase);
    dot_phase = dot_phase ^ 1;
    px_bf16 a[32];
    {
      const int o = ((px_lane & 1) * 4) ^ (((px_lane >> 1) & 1) * 9) ^ (((px_lane >> 2) & 1) * 18) ^ (((px_lane >> 3) & 1) * 32) ^ ((px_lane >> 4)) ^ ((px_warp_id & 3) * 64);
      const unsigned px_address = a_tile_addr;
      unsigned px_words[16];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        ptx::ldmatrix_x4(px_words + 4 * i, px_address + 16 * ((o ^ ((i & 1) * 2)) + (i >> 1) * 256));
      }
      ptx::unpack_words<32>(a, px_words);
    }
    px_bf16 b[32];
    {
      const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ ((px_lane >> 3) * 64) ^ ((px_warp_id >> 2));
      const unsigned px_address = b_tile_addr;
      unsigned px_words[16];
      #pragma unroll
      for (int i = 0; i < 4; ++i) {
        ptx::ldmatrix_x4_trans(px_words + 4 * i, px_address + 16 * (o ^ (i * 2)));
      }
      ptx::unpack_words<32>(b, px_words);
    }
    {
      unsigned px_a[16];
      ptx::pack_words<32>(px_a, a);
      unsigned px_b[16];
      ptx::pack_words<32>(px_b, b);
      #pragma unroll
      for (int px_k = 0; px_k < 2; ++px_k) {
        #pragma unroll
        for (int px_m = 0; px_m < 2; ++px_m) {
          #pragma unroll
          for (int px_n = 0; px_n < 4; ++px_n) {
            ptx::mma_m16n8k16_f32_bf16_bf16(acc_1 + 4 * (4 * px_m + px_n), px_a + 2 * (4 * px_m + 2 * px_k), px_b + 4 * px_n + 2 * px_k);
          }
        }
      }
    }
  }
  // plain_products.py:13: for k in range(0, A.shape[0] if TA else A.shape[1], BK):
  // plain_products.py:17: px.store(C[m : m + BM, n : n + BN], acc.to(C.dtype))
  {
    const unsigned x0 = (unsigned)m + (px_lane >> 2) + (px_warp_id & 3) * 16;
    const unsigned x1 = (unsigned)n + (px_lane & 3) * 2 + (px_warp_id >> 2) * 8;
    float* const p = C.data + ((int)x0 * C.stride[0] + (int)x1);
    #pragma unroll
    for (int i = 0; i < 32; i += 2) {
      ptx::store_vector_if<2>(p + (((i >> 1) & 1) * 8 + (i >> 4) * 64) * C.stride[0] + ((i >> 2) & 3) * 16, acc_1 + i, ptx::inside(x0 + ((i >> 1) & 1) * 8 + (i >> 4) * 64, C.shape[0]) & ptx::inside(x1 + ((i >> 2) & 3) * 16, C.shape[1]));
    }
  }
}
