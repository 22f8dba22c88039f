// three_roles(BM=64, BN=64) for sm_90a, from kernels.py:100
// 384 threads, 32784 bytes of shared memory

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
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global
//   elect_sync
//   setmaxnreg_inc
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   bits
//   unpack
//   load_vector
//   exp2_approx
//   store_vector
//   bar_sync
//   inside
//   store_vector_if
//   shared_address

extern "C" __global__ void __launch_bounds__(384, 1) three_roles_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 2> Y,
    const __grid_constant__ px_tensor_map X_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned full = px_base + 32768;
  const unsigned s_addr = px_base;
  float* const s = reinterpret_cast<float*>(px_smem);
  float* const t_2 = reinterpret_cast<float*>(px_smem + 16384);
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&X_map);
  }
  // kernels.py:104: full = px.barrier(2, count=1)
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(full + 8 * px_i, 1);
    // kernels.py:100: def three_roles(X, Y, *, BM=64, BN=64):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // kernels.py:105: m = px.block_id(0) * BM
  const int block_x = (int)blockIdx.x;
  const int m = ptx::wrap_mul(block_x, 64);
  // kernels.py:100: def three_roles(X, Y, *, BM=64, BN=64):
  __syncthreads();  // barriers are initialised before their first use
  // kernels.py:106: with px.warps(0, 4, regs=40):
  if (px_warp_id < 4) {  // warps 0 to 3
    const bool px_one = ptx::elect_sync();
    ptx::setmaxnreg_dec<40>();
    if (px_warp_id == 0) {
      // kernels.py:107: full[0].arrive_and_expect_tx(s.nbytes)
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(full, 16384);
        // kernels.py:108: px.tma.load(X[m : m + BM, 0:BN], s, full[0])
        // tensor copy: a box of 64 x 64
        ptx::cp_async_bulk_tensor_2d_shared_global(s_addr, &X_map, 0, m, full);
      }
    }
  } else if (px_warp_id >= 4) {  // warps 4 to 11
    const int px_warp = px_warp_id - 4;
    ptx::setmaxnreg_inc<232>();
    // kernels.py:110: full[0].wait(0)
    ptx::mbarrier_wait_parity(full, 0);
    // kernels.py:111: px.store(t, px.exp2(px.load(s)))
    float t[16];
    {
      float* const p = s + px_lane * 4 + px_warp * 128;
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        ptx::load_vector<4>(t + i, p + (i >> 2) * 1024);
      }
    }
    float t_1[16];
    #pragma unroll
    for (int i = 0; i < 16; ++i) t_1[i] = ptx::exp2_approx(t[i]);
    {
      float* const p = t_2 + px_lane * 4 + px_warp * 128;
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        ptx::store_vector<4>(p + (i >> 2) * 1024, t_1 + i);
      }
    }
    // kernels.py:112: px.store(Y[m : m + BM, 0:BN], px.load(t.T).T)
    ptx::bar_sync<1, 256>();  // t was written at line 111 before t is read
    float t_3[16];
    {
      float* const p = t_2 + px_lane * 4 + px_warp * 128;
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        ptx::load_vector<4>(t_3 + i, p + (i >> 2) * 1024);
      }
    }
    float t_4[16];
    #pragma unroll
    for (int i = 0; i < 16; ++i) t_4[i] = t_3[i];
    {
      const unsigned x0 = (unsigned)m + (px_lane >> 4) + px_warp * 2;
      const int x1 = (px_lane & 15) * 4;
      float* const p = Y.data + ((int)x0 * Y.stride[0] + x1);
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        ptx::store_vector_if<4>(p + (i >> 2) * 16 * Y.stride[0], t_4 + i, ptx::inside(x0 + (i >> 2) * 16, Y.shape[0]) & ptx::inside(x1, Y.shape[1]));
      }
    }
  }
}
