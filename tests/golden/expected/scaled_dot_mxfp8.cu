// scaled_dot(BM=64, BN=64, BK=128, BLOCK=32) for sm_120a, from dots.py:29
// 128 threads, 25616 bytes of shared memory

typedef unsigned short px_bf16;
typedef unsigned char px_f8e4m3;
typedef unsigned char px_f8e8m0;
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
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global
//   inside
//   load_words
//   bits
//   fill_words
//   unpack_words
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   ldmatrix_x4
//   pack_words
//   mma_m16n8k32_mxf8f6f4_1x_e4m3_e4m3_ue8m0
//   scale_word_1
//   bf16_pair_from_float
//   unpack
//   store_vector
//   load_vector
//   store_vector_if
//   elect_sync
//   shared_address

extern "C" __global__ void __launch_bounds__(128, 1) scaled_dot_kernel(
    const __grid_constant__ px_array<px_f8e4m3, 2> A,
    const __grid_constant__ px_array<px_f8e4m3, 2> B,
    const __grid_constant__ px_array<px_f8e8m0, 2> SA,
    const __grid_constant__ px_array<px_f8e8m0, 2> SB,
    const __grid_constant__ px_array<px_bf16, 2> C,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned full = px_base + 25600;
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 8192;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
  }
  // dots.py:33: full = px.barrier()
  if (px_one) {
    ptx::mbarrier_init_shared_cta(full, 1);
    // dots.py:29: def scaled_dot(A, B, SA, SB, C, *, BM=64, BN=64, BK=128, BLOCK=32):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // dots.py:31: m = px.block_id(0) * BM
  const int block_x = (int)blockIdx.x;
  // dots.py:35: for k in range(px.cdiv(A.shape[1], BK)):
  const int A_size1 = A.shape[1];
  // dots.py:31: m = px.block_id(0) * BM
  const int m = ptx::wrap_mul(block_x, 64);
  // dots.py:35: for k in range(px.cdiv(A.shape[1], BK)):
  const int t = ptx::wrap_add((A_size1 >> 7), ((int)((A_size1 & 127) != 0)));
  // dots.py:34: acc = px.zeros((BM, BN), px.f32)
  float acc[32];
  #pragma unroll
  for (int i = 0; i < 32; ++i) acc[i] = 0.0f;
  // dots.py:35: for k in range(px.cdiv(A.shape[1], BK)):
  float acc_1[32];
  #pragma unroll
  for (int px_r = 0; px_r < 32; ++px_r) acc_1[px_r] = acc[px_r];
  // dots.py:29: def scaled_dot(A, B, SA, SB, C, *, BM=64, BN=64, BK=128, BLOCK=32):
  __syncthreads();  // barriers are initialised before their first use
  // dots.py:35: for k in range(px.cdiv(A.shape[1], BK)):
  #pragma unroll 1
  for (int k = 0; k < t; ++k) {
    // dots.py:36: with full.transaction():
    if (px_one) {
      ptx::mbarrier_arrive_expect_tx_shared_cta(full, 16384);
      // dots.py:37: px.tma.load(A[m : m + BM, k * BK : k * BK + BK], a, full)
      // tensor copy: a box of 64 x 128, 128-byte swizzle
      ptx::cp_async_bulk_tensor_2d_shared_global(a_addr, &A_map, ptx::wrap_mul(k, 128), m, full);
      // dots.py:38: px.tma.load(B[0:BN, k * BK : k * BK + BK], b, full)
      // tensor copy: a box of 64 x 128, 128-byte swizzle
      ptx::cp_async_bulk_tensor_2d_shared_global(b_addr, &B_map, ptx::wrap_mul(k, 128), 0, full);
    }
    // dots.py:39: scale = k * (BK // BLOCK)
    const int scale = ptx::wrap_mul(k, 4);
    // dots.py:40: left = px.load(SA[m : m + BM, scale : scale + BK // BLOCK])
    px_f8e8m0 left[8];
    {
      const unsigned x0 = (unsigned)m + (px_lane & 1) * 8 + (px_lane >> 2) + (px_warp_id & 1) * 16;
      const unsigned x1 = (unsigned)scale;
      px_f8e8m0* const p = SA.data + ((int)x0 * SA.stride[0] + (int)x1);
      unsigned words[2];
      #pragma unroll
      for (int i = 0; i < 8; i += 4) {
        if (ptx::inside(x0 + (i >> 2) * 32, SA.shape[0]) && ptx::inside(x1, SA.shape[1])) ptx::load_words<4>(words + i / 4, p + (i >> 2) * 32 * SA.stride[0]);
        else ptx::fill_words<4, px_f8e8m0>(words + i / 4, (px_f8e8m0)0x00);
      }
      ptx::unpack_words<8>(left, words);
    }
    // dots.py:41: right = px.load(SB[0:BN, scale : scale + BK // BLOCK])
    px_f8e8m0 right[16];
    {
      const int x0 = (px_lane >> 2) + (px_warp_id >> 1) * 8;
      const unsigned x1 = (unsigned)scale;
      px_f8e8m0* const p = SB.data + (x0 * SB.stride[0] + (int)x1);
      unsigned words[4];
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        if (ptx::inside(x0 + (i >> 2) * 16, SB.shape[0]) && ptx::inside(x1, SB.shape[1])) ptx::load_words<4>(words + i / 4, p + (i >> 2) * 16 * SB.stride[0]);
        else ptx::fill_words<4, px_f8e8m0>(words + i / 4, (px_f8e8m0)0x00);
      }
      ptx::unpack_words<16>(right, words);
    }
    // dots.py:42: full.wait(k % 2)
    ptx::mbarrier_wait_parity(full, k & 1);
    // dots.py:43: acc = px.dot(a, b.T, acc, scale_a=left, scale_b=right)
    px_f8e4m3 a[128];
    {
      const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ ((px_warp_id & 1) * 128);
      const unsigned px_address = a_addr;
      unsigned px_words[32];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        ptx::ldmatrix_x4(px_words + 4 * i, px_address + 16 * ((o ^ ((i & 3) * 2)) + (i >> 2) * 256));
      }
      ptx::unpack_words<128>(a, px_words);
    }
    px_f8e4m3 b[128];
    {
      const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ ((px_lane >> 3)) ^ ((px_warp_id >> 1) * 64);
      const unsigned px_address = b_addr;
      unsigned px_words[32];
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        ptx::ldmatrix_x4(px_words + 4 * i, px_address + 16 * ((o ^ ((i & 1) * 4)) + (i >> 1) * 128));
      }
      ptx::unpack_words<128>(b, px_words);
    }
    {
      unsigned px_a[32];
      ptx::pack_words<128>(px_a, a);
      unsigned px_b[32];
      ptx::pack_words<128>(px_b, b);
      #pragma unroll
      for (int px_k = 0; px_k < 4; ++px_k) {
        #pragma unroll
        for (int px_m = 0; px_m < 2; ++px_m) {
          #pragma unroll
          for (int px_n = 0; px_n < 4; ++px_n) {
            ptx::mma_m16n8k32_mxf8f6f4_1x_e4m3_e4m3_ue8m0(acc_1 + 4 * (4 * px_m + px_n), px_a + 2 * (8 * px_m + 2 * px_k), px_b + 8 * px_n + 2 * px_k, ptx::scale_word_1(left + 4 * px_m + px_k), ptx::scale_word_1(right + 4 * px_n + px_k));
          }
        }
      }
    }
    // dots.py:44: px.sync()
    __syncthreads();
  }
  // dots.py:35: for k in range(px.cdiv(A.shape[1], BK)):
  // dots.py:45: px.store(C[m : m + BM, 0:BN], acc.to(C.dtype))
  px_bf16 acc_2[32];
  #pragma unroll
  for (int i = 0; i < 32; i += 2) ptx::bf16_pair_from_float(acc_2 + i, acc_1[i], acc_1[i + 1]);
  px_bf16 acc_3[32];
  {
    px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 16384));
    {
      auto* const p = scratch + ((px_lane >> 2) + (px_warp_id & 1) * 16) * 72 + (px_lane & 3) * 2 + (px_warp_id >> 1) * 8;
      #pragma unroll
      for (int i = 0; i < 32; i += 2) {
        ptx::store_vector<2>(p + ((i >> 1) & 1) * 576 + ((i >> 2) & 3) * 16 + (i >> 4) * 2304, acc_2 + (i >> 1) * 2);
      }
    }
    __syncthreads();
    {
      auto* const p = scratch + ((px_lane >> 3) + px_warp_id * 4) * 72 + (px_lane & 7) * 8;
      #pragma unroll
      for (int i = 0; i < 32; i += 8) {
        ptx::load_vector<8>(acc_3 + (i >> 3) * 8, p + ((i >> 3) & 1) * 1152 + (i >> 4) * 2304);
      }
    }
  }
  {
    const unsigned x0 = (unsigned)m + (px_lane >> 3) + px_warp_id * 4;
    const int x1 = (px_lane & 7) * 8;
    px_bf16* const p = C.data + ((int)x0 * C.stride[0] + x1);
    #pragma unroll
    for (int i = 0; i < 32; i += 8) {
      ptx::store_vector_if<8>(p + (i >> 3) * 16 * C.stride[0], acc_3 + i, ptx::inside(x0 + (i >> 3) * 16, C.shape[0]) & ptx::inside(x1, C.shape[1]));
    }
  }
}
