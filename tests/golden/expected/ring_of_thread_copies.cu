// ring_product(M=64, N=32, K=32, STAGES=3, PRODUCERS=4, CONSUMERS=4, FENCE=True, TMA=True) for sm_120a, from thread_copies.py:33
// 256 threads, 18480 bytes of shared memory

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
//   wrap_add
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   cp_async_4
//   inside
//   bytes_inside_2x2
//   bits
//   bar_sync
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global
//   cp_async_mbarrier_arrive
//   mbarrier_arrive_shared_cta
//   elect_sync
//   fence_proxy_async_shared_cta
//   ldmatrix_x4
//   unpack_words
//   pack_words
//   mma_m16n8k16_f32_bf16_bf16
//   unpack
//   store_vector_if
//   shared_address

extern "C" __global__ void __launch_bounds__(256, 1) ring_product_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<px_bf16, 2> B,
    const __grid_constant__ px_array<float, 2> C,
    const __grid_constant__ px_tensor_map B_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned full = px_base + 18432;
  const unsigned empty = px_base + 18456;
  const unsigned a_addr = px_base;
  px_bf16* const a = reinterpret_cast<px_bf16*>(px_smem);
  const unsigned b_addr = px_base + 12288;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&B_map);
  }
  // thread_copies.py:37: full, empty = px.barrier(STAGES), px.barrier(STAGES)
  if (px_one) {
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(full + 8 * px_i, 2);
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(empty + 8 * px_i, 1);
    // thread_copies.py:33: def ring_product(A, B, C, *, M=64, N=32, K=32, STAGES=3, PRODUCERS=4, CONSUMERS=4, FENCE=True, TMA=False):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // thread_copies.py:35: m = px.block_id(0) * M
  const int block_x = (int)blockIdx.x;
  // thread_copies.py:39: steps = px.cdiv(A.shape[1], K)
  const int A_size1 = A.shape[1];
  // thread_copies.py:35: m = px.block_id(0) * M
  const int m = ptx::wrap_mul(block_x, 64);
  // thread_copies.py:39: steps = px.cdiv(A.shape[1], K)
  const int steps = ptx::wrap_add((A_size1 >> 5), ((int)((A_size1 & 31) != 0)));
  // thread_copies.py:33: def ring_product(A, B, C, *, M=64, N=32, K=32, STAGES=3, PRODUCERS=4, CONSUMERS=4, FENCE=True, TMA=False):
  __syncthreads();  // barriers are initialised before their first use
  // thread_copies.py:40: with px.warps(CONSUMERS, PRODUCERS):
  if (px_warp_id >= 4) {  // warps 4 to 7
    const int px_warp = px_warp_id - 4;
    const bool px_one = px_warp_id == 4 && ptx::elect_sync();
    // thread_copies.py:41: for k in range(steps):
    int stage = 0;
    int parity = 0;
    #pragma unroll 1
    for (int k = 0; k < steps; ++k) {
      // thread_copies.py:43: empty[s].wait(ring.parity ^ 1)
      ptx::mbarrier_wait_parity(empty + 8 * stage, parity ^ 1);
      // thread_copies.py:44: px.cp_async.load(A[m : m + M, k * K : k * K + K], a[s])
      {
        if ((((long long)A.data | A.stride[0] * 2) & 3) == 0) {
          {
            const unsigned x0 = (unsigned)m + (px_lane >> 4) + px_warp * 2;
            const unsigned x1 = (unsigned)ptx::wrap_mul(k, 32) + (px_lane & 15) * 2;
            px_bf16* const p = A.data + ((int)x0 * A.stride[0] + (int)x1);
            const unsigned to = a_addr + 2 * (stage * 2048 + ((px_lane * 2) ^ ((px_warp & 1) * 72) ^ ((px_warp >> 1) * 144)));
            #pragma unroll
            for (int i = 0; i < 16; i += 2) {
              ptx::cp_async_4(to + 2 * (i >> 1) * 256, p + (i >> 1) * 8 * A.stride[0], ptx::inside(x0 + (i >> 1) * 8, A.shape[0]) ? ptx::bytes_inside_2x2(x1, A.shape[1]) : 0u);
            }
          }
        } else {
          {
            const unsigned x0 = (unsigned)m + (px_lane >> 4) + px_warp * 2;
            const unsigned x1 = (unsigned)ptx::wrap_mul(k, 32) + (px_lane & 15) * 2;
            px_bf16* const p = A.data + ((int)x0 * A.stride[0] + (int)x1);
            px_bf16* const to = a + stage * 2048 + ((px_lane * 2) ^ ((px_warp & 1) * 72) ^ ((px_warp >> 1) * 144));
            #pragma unroll
            for (int i = 0; i < 16; ++i) {
              *(to + (i & 1) + (i >> 1) * 256) = ptx::inside(x0 + (i >> 1) * 8, A.shape[0]) && ptx::inside(x1 + (i & 1), A.shape[1]) ? *(p + (i >> 1) * 8 * A.stride[0] + (i & 1)) : ptx::bits<px_bf16>::from(0);
            }
          }
        }
      }
      // thread_copies.py:46: with full[s].transaction():
      ptx::bar_sync<1, 128>();  // all threads have passed the wait at line 43 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(full + 8 * stage, 2048);
        // thread_copies.py:47: px.tma.load(B[0:N, k * K : k * K + K], b[s], full[s])
        // tensor copy: a box of 32 x 32, 64-byte swizzle
        ptx::cp_async_bulk_tensor_2d_shared_global(b_addr + stage * 2048, &B_map, ptx::wrap_mul(k, 32), 0, full + 8 * stage);
      }
      // thread_copies.py:50: px.cp_async.commit(full[s])
      ptx::cp_async_mbarrier_arrive(full + 8 * stage);
      ptx::bar_sync<1, 128>();  // the barrier waits for the copies of all threads
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(full + 8 * stage);
      }
      // thread_copies.py:51: ring.advance()
      const int t = ptx::wrap_add(stage, 1);
      const bool t_1 = t == 3;
      stage = t_1 ? 0 : t;
      parity = parity ^ ((int)t_1);
    }
  } else if (px_warp_id < 4) {  // warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    // thread_copies.py:54: for _ in range(steps):
    int stage = 0;
    int parity = 0;
    // thread_copies.py:53: acc = px.zeros((M, N), px.f32)
    float acc[16];
    #pragma unroll
    for (int i = 0; i < 16; ++i) acc[i] = 0.0f;
    // thread_copies.py:54: for _ in range(steps):
    float acc_1[16];
    #pragma unroll
    for (int px_r = 0; px_r < 16; ++px_r) acc_1[px_r] = acc[px_r];
    #pragma unroll 1
    for (int t = 0; t < steps; ++t) {
      // thread_copies.py:55: full[ring.stage].wait(ring.parity)
      ptx::mbarrier_wait_parity(full + 8 * stage, parity);
      // thread_copies.py:57: px.fence.async_proxy()
      ptx::fence_proxy_async_shared_cta();
      // thread_copies.py:58: acc = px.dot(a[ring.stage], b[ring.stage].T, acc)
      px_bf16 a_1[32];
      {
        const int o = ((px_lane & 1) * 4) ^ (((px_lane >> 1) & 1) * 9) ^ (((px_lane >> 2) & 1) * 18) ^ (((px_lane >> 3) & 1) * 32) ^ ((px_lane >> 4)) ^ ((px_warp_id & 1) * 64);
        const unsigned px_address = a_addr + 16 * stage * 256;
        unsigned px_words[16];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          ptx::ldmatrix_x4(px_words + 4 * i, px_address + 16 * ((o ^ ((i & 1) * 2)) + (i >> 1) * 128));
        }
        ptx::unpack_words<32>(a_1, px_words);
      }
      px_bf16 b[16];
      {
        const unsigned px_address = b_addr + 16 * (stage * 128 + (((px_lane & 1) * 4) ^ (((px_lane >> 1) & 1) * 9) ^ (((px_lane >> 2) & 1) * 18) ^ ((px_lane >> 3)) ^ ((px_warp_id >> 1) * 32)));
        unsigned px_words[8];
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          ptx::ldmatrix_x4(px_words + 4 * i, px_address + 16 * i * 64);
        }
        ptx::unpack_words<16>(b, px_words);
      }
      {
        unsigned px_a[16];
        ptx::pack_words<32>(px_a, a_1);
        unsigned px_b[8];
        ptx::pack_words<16>(px_b, b);
        #pragma unroll
        for (int px_k = 0; px_k < 2; ++px_k) {
          #pragma unroll
          for (int px_m = 0; px_m < 2; ++px_m) {
            #pragma unroll
            for (int px_n = 0; px_n < 2; ++px_n) {
              ptx::mma_m16n8k16_f32_bf16_bf16(acc_1 + 4 * (2 * px_m + px_n), px_a + 2 * (4 * px_m + 2 * px_k), px_b + 4 * px_n + 2 * px_k);
            }
          }
        }
      }
      // thread_copies.py:59: empty[ring.stage].arrive()
      ptx::bar_sync<2, 128>();  // all threads have passed the wait at line 55 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(empty + 8 * stage);
      }
      // thread_copies.py:60: ring.advance()
      const int t_1 = ptx::wrap_add(stage, 1);
      const bool t_2 = t_1 == 3;
      stage = t_2 ? 0 : t_1;
      parity = parity ^ ((int)t_2);
    }
    // thread_copies.py:54: for _ in range(steps):
    // thread_copies.py:61: px.store(C[m : m + M, 0:N], acc)
    {
      const unsigned x0 = (unsigned)m + (px_lane >> 2) + (px_warp_id & 1) * 16;
      const int x1 = (px_lane & 3) * 2 + (px_warp_id >> 1) * 8;
      float* const p = C.data + ((int)x0 * C.stride[0] + x1);
      #pragma unroll
      for (int i = 0; i < 16; i += 2) {
        ptx::store_vector_if<2>(p + (((i >> 1) & 1) * 8 + (i >> 3) * 32) * C.stride[0] + ((i >> 2) & 1) * 16, acc_1 + i, ptx::inside(x0 + ((i >> 1) & 1) * 8 + (i >> 3) * 32, C.shape[0]) & ptx::inside(x1 + ((i >> 2) & 1) * 16, C.shape[1]));
      }
    }
  }
}
