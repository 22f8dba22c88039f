// scale_reduce(BM=32, BN=128) for sm_90a, from kernels.py:69
// 128 threads, 16400 bytes of shared memory

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
//   cp_async_bulk_prefetch_tensor_2d_L2_global_tile
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global_cache_hint
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   bits
//   unpack
//   load_vector
//   store_vector
//   fence_proxy_async_shared_cta
//   cp_reduce_async_bulk_tensor_2d_global_shared_add
//   cp_async_bulk_commit_group
//   cp_async_bulk_wait_group_0
//   elect_sync
//   shared_address

extern "C" __global__ void __launch_bounds__(128, 1) scale_reduce_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 2> Y,
    const float alpha,
    const __grid_constant__ px_tensor_map X_map,
    const __grid_constant__ px_tensor_map Y_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned ready = px_base + 16384;
  const unsigned s_addr = px_base;
  float* const s = reinterpret_cast<float*>(px_smem);
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&X_map);
    ptx::prefetch_tensormap(&Y_map);
  }
  // kernels.py:74: ready = px.barrier()
  if (px_one) {
    ptx::mbarrier_init_shared_cta(ready, 1);
    // kernels.py:69: def scale_reduce(X, Y, alpha, *, BM=32, BN=128):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // kernels.py:71: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int block_x = (int)blockIdx.x;
  const int block_y = (int)blockIdx.y;
  const int m = ptx::wrap_mul(block_x, 32);
  const int n = ptx::wrap_mul(block_y, 128);
  // kernels.py:72: px.tma.prefetch(X[m : m + BM, n : n + BN])
  if (px_one) {
    // tensor prefetch: a box of 32 x 128
    ptx::cp_async_bulk_prefetch_tensor_2d_L2_global_tile(&X_map, n, m);
  }
  // kernels.py:69: def scale_reduce(X, Y, alpha, *, BM=32, BN=128):
  __syncthreads();  // barriers are initialised before their first use
  // kernels.py:75: with ready.transaction():
  if (px_one) {
    ptx::mbarrier_arrive_expect_tx_shared_cta(ready, 16384);
    // kernels.py:76: px.tma.load(X[m : m + BM, n : n + BN], s, ready, cache="evict_first")
    // tensor copy: a box of 32 x 128
    ptx::cp_async_bulk_tensor_2d_shared_global_cache_hint(s_addr, &X_map, n, m, ready, 0x12f0000000000000ull);
  }
  // kernels.py:77: ready.wait(0)
  ptx::mbarrier_wait_parity(ready, 0);
  // kernels.py:78: px.store(s, px.load(s) * alpha)
  float t[32];
  {
    float* const p = s + px_lane * 4 + px_warp_id * 128;
    #pragma unroll
    for (int i = 0; i < 32; i += 4) {
      ptx::load_vector<4>(t + i, p + (i >> 2) * 512);
    }
  }
  float t_1[32];
  #pragma unroll
  for (int i = 0; i < 32; ++i) t_1[i] = t[i] * alpha;
  __syncthreads();  // s was read at line 78 before s is written
  {
    float* const p = s + px_lane * 4 + px_warp_id * 128;
    #pragma unroll
    for (int i = 0; i < 32; i += 4) {
      ptx::store_vector<4>(p + (i >> 2) * 512, t_1 + i);
    }
  }
  // kernels.py:79: px.fence.async_proxy()
  ptx::fence_proxy_async_shared_cta();
  // kernels.py:80: px.tma.reduce(s, Y[m : m + BM, n : n + BN], "add")
  __syncthreads();  // s was written at line 78 before s is read by a copy
  if (px_one) {
    // tensor copy: a box of 32 x 128
    ptx::cp_reduce_async_bulk_tensor_2d_global_shared_add(&Y_map, n, m, s_addr);
    // kernels.py:81: px.tma.commit()
    ptx::cp_async_bulk_commit_group();
    // kernels.py:82: px.tma.wait(0)
    ptx::cp_async_bulk_wait_group_0();
  }
}
