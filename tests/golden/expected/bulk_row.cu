// bulk_row(N=4096) for sm_90a, from kernels.py:86
// 32 threads, 8208 bytes of shared memory

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
//   mbarrier_arrive_expect_tx_shared_cta
//   shared_address
//   cp_async_bulk_shared_global
//   px_inside
//   bulk_zeros
//   fence_proxy_async_shared_cta
//   mbarrier_complete_tx_relaxed_cta_shared_cta
//   bulk_load
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   cp_async_bulk_global_shared
//   bulk_store
//   cp_async_bulk_commit_group
//   cp_async_bulk_wait_group_0
//   elect_sync

extern "C" __global__ void __launch_bounds__(32, 1) bulk_row_kernel(
    const __grid_constant__ px_array<px_bf16, 2> X,
    const __grid_constant__ px_array<px_bf16, 2> Y) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned ready = px_base + 8192;
  px_bf16* const s = reinterpret_cast<px_bf16*>(px_smem);
  const bool px_one = ptx::elect_sync();
  // kernels.py:89: ready = px.barrier()
  if (px_one) {
    ptx::mbarrier_init_shared_cta(ready, 1);
    // kernels.py:86: def bulk_row(X, Y, *, N=4096):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // kernels.py:90: row = px.block_id(0)
  const int block_x = (int)blockIdx.x;
  // kernels.py:86: def bulk_row(X, Y, *, N=4096):
  __syncwarp();  // barriers are initialised before their first use
  // kernels.py:91: ready.arrive_and_expect_tx(s.nbytes)
  if (px_one) {
    ptx::mbarrier_arrive_expect_tx_shared_cta(ready, 8192);
    // kernels.py:92: px.tma.load(X[row, 0:N], s, ready)
    // bulk copy: one contiguous run of 8192 bytes from a multiple of 16 bytes
    ptx::bulk_load(s, X.data + (long long)block_x * X.stride[0], 0, ((unsigned)block_x < (unsigned)X.shape[0] ? X.shape[1] : 0), 4096, ready);
  }
  // kernels.py:93: ready.wait(0)
  ptx::mbarrier_wait_parity(ready, 0);
  // kernels.py:94: px.tma.store(s, Y[row, 0:N])
  if (px_one) {
    // bulk copy: one contiguous run of 8192 bytes from a multiple of 16 bytes
    ptx::bulk_store(Y.data + (long long)block_x * Y.stride[0], 0, ((unsigned)block_x < (unsigned)Y.shape[0] ? Y.shape[1] : 0), 4096, s);
    // kernels.py:95: px.tma.commit()
    ptx::cp_async_bulk_commit_group();
    // kernels.py:96: px.tma.wait(0)
    ptx::cp_async_bulk_wait_group_0();
  }
}
