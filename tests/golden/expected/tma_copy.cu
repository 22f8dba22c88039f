// tma_copy(BM=64, BN=64) for sm_90a, from tma_copy.py:13
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
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   cp_async_bulk_tensor_2d_global_shared
//   cp_async_bulk_commit_group
//   cp_async_bulk_wait_group_0
//   elect_sync
//   shared_address

extern "C" __global__ void __launch_bounds__(128, 1) tma_copy_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 2> Y,
    const __grid_constant__ px_tensor_map X_map,
    const __grid_constant__ px_tensor_map Y_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned arrived = px_base + 16384;
  const unsigned s_addr = px_base;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&X_map);
    ptx::prefetch_tensormap(&Y_map);
  }
  // tma_copy.py:16: arrived = px.barrier()
  if (px_one) {
    ptx::mbarrier_init_shared_cta(arrived, 1);
    // tma_copy.py:13: def tma_copy(X, Y, *, BM=64, BN=64):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // tma_copy.py:14: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int block_x = (int)blockIdx.x;
  const int block_y = (int)blockIdx.y;
  const int m = ptx::wrap_mul(block_x, 64);
  const int n = ptx::wrap_mul(block_y, 64);
  // tma_copy.py:13: def tma_copy(X, Y, *, BM=64, BN=64):
  __syncthreads();  // barriers are initialised before their first use
  // tma_copy.py:17: arrived.arrive_and_expect_tx(s.nbytes)  # whoever waits is armed first: the copy completes bytes, it never arrives
  if (px_one) {
    ptx::mbarrier_arrive_expect_tx_shared_cta(arrived, 16384);
    // tma_copy.py:18: px.tma.load(X[m : m + BM, n : n + BN], s, arrived)
    // tensor copy: a box of 64 x 64
    ptx::cp_async_bulk_tensor_2d_shared_global(s_addr, &X_map, n, m, arrived);
  }
  // tma_copy.py:19: arrived.wait(0)
  ptx::mbarrier_wait_parity(arrived, 0);
  // tma_copy.py:20: px.tma.store(s, Y[m : m + BM, n : n + BN])
  if (px_one) {
    // tensor copy: a box of 64 x 64
    ptx::cp_async_bulk_tensor_2d_global_shared(&Y_map, n, m, s_addr);
    // tma_copy.py:21: px.tma.commit()
    ptx::cp_async_bulk_commit_group();
    // tma_copy.py:22: px.tma.wait(0)
    ptx::cp_async_bulk_wait_group_0();
  }
}
