// ring_copy(BM=64, BN=64, STAGES=2) for sm_90a, from ring_copy.py:14
// 64 threads, 32800 bytes of shared memory

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
//   wrap_add
//   wrap_mul
//   floor_div
//   floor_mod
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global
//   elect_sync
//   cp_async_bulk_tensor_2d_global_shared
//   cp_async_bulk_commit_group
//   cp_async_bulk_wait_group_read_0
//   mbarrier_arrive_shared_cta
//   cp_async_bulk_wait_group_0
//   shared_address

extern "C" __global__ void __launch_bounds__(64, 1) ring_copy_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 2> Y,
    const __grid_constant__ px_tensor_map X_map,
    const __grid_constant__ px_tensor_map Y_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned full = px_base + 32768;
  const unsigned empty = px_base + 32784;
  const unsigned stages_addr = px_base;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&X_map);
    ptx::prefetch_tensormap(&Y_map);
  }
  // ring_copy.py:16: full = px.barrier(STAGES)
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(full + 8 * px_i, 1);
    // ring_copy.py:17: empty = px.barrier(STAGES)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(empty + 8 * px_i, 1);
    // ring_copy.py:14: def ring_copy(X, Y, *, BM=64, BN=64, STAGES=4):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // ring_copy.py:18: across = px.cdiv(X.shape[1], BN)
  const int X_size0 = X.shape[0];
  const int X_size1 = X.shape[1];
  // ring_copy.py:23: for tile in range(px.block_id(0), tiles, px.num_blocks(0)):
  const int block_x = (int)blockIdx.x;
  const int blocks_x = (int)gridDim.x;
  // ring_copy.py:18: across = px.cdiv(X.shape[1], BN)
  const int across = ptx::wrap_add((X_size1 >> 6), ((int)((X_size1 & 63) != 0)));
  // ring_copy.py:19: tiles = px.cdiv(X.shape[0], BM) * across
  const int t = ptx::wrap_add((X_size0 >> 6), ((int)((X_size0 & 63) != 0)));
  const int tiles = ptx::wrap_mul(t, across);
  // ring_copy.py:14: def ring_copy(X, Y, *, BM=64, BN=64, STAGES=4):
  __syncthreads();  // barriers are initialised before their first use
  // ring_copy.py:22: with px.warps(0, 1):
  if (px_warp_id == 0) {  // warp 0
    const bool px_one = ptx::elect_sync();
    // ring_copy.py:23: for tile in range(px.block_id(0), tiles, px.num_blocks(0)):
    int stage = 0;
    int parity = 0;
    #pragma unroll 1
    for (int tile = block_x; tile < tiles; tile += blocks_x) {
      // ring_copy.py:24: m, n = tile // across * BM, tile % across * BN
      const int m = ptx::wrap_mul((ptx::floor_div<int>(tile, across)), 64);
      const int n = ptx::wrap_mul((ptx::floor_mod<int>(tile, across)), 64);
      // ring_copy.py:25: empty[ring.stage].wait(ring.parity ^ 1)
      ptx::mbarrier_wait_parity(empty + 8 * stage, parity ^ 1);
      // ring_copy.py:26: with full[ring.stage].transaction():
      __syncwarp();  // all threads have passed the wait at line 25 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(full + 8 * stage, 16384);
        // ring_copy.py:27: px.tma.load(X[m : m + BM, n : n + BN], stages[ring.stage], full[ring.stage])
        // tensor copy: a box of 64 x 64
        ptx::cp_async_bulk_tensor_2d_shared_global(stages_addr + stage * 16384, &X_map, n, m, full + 8 * stage);
      }
      // ring_copy.py:28: ring.advance()
      const int t_1 = ptx::wrap_add(stage, 1);
      const bool t_2 = t_1 == 2;
      stage = t_2 ? 0 : t_1;
      parity = parity ^ ((int)t_2);
    }
  } else if (px_warp_id == 1) {  // warp 1
    const bool px_one = ptx::elect_sync();
    // ring_copy.py:31: for tile in range(px.block_id(0), tiles, px.num_blocks(0)):
    int stage = 0;
    int parity = 0;
    #pragma unroll 1
    for (int tile = block_x; tile < tiles; tile += blocks_x) {
      // ring_copy.py:32: m, n = tile // across * BM, tile % across * BN
      const int m = ptx::wrap_mul((ptx::floor_div<int>(tile, across)), 64);
      const int n = ptx::wrap_mul((ptx::floor_mod<int>(tile, across)), 64);
      // ring_copy.py:33: full[ring.stage].wait(ring.parity)
      ptx::mbarrier_wait_parity(full + 8 * stage, parity);
      // ring_copy.py:34: px.tma.store(stages[ring.stage], Y[m : m + BM, n : n + BN])
      if (px_one) {
        // tensor copy: a box of 64 x 64
        ptx::cp_async_bulk_tensor_2d_global_shared(&Y_map, n, m, stages_addr + stage * 16384);
        // ring_copy.py:35: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
        // ring_copy.py:36: px.tma.wait(0, read=True)  # the engine has read the stage
        ptx::cp_async_bulk_wait_group_read_0();
      }
      // ring_copy.py:37: empty[ring.stage].arrive()
      __syncwarp();  // all threads have passed the wait at line 33 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(empty + 8 * stage);
      }
      // ring_copy.py:38: ring.advance()
      const int t_1 = ptx::wrap_add(stage, 1);
      const bool t_2 = t_1 == 2;
      stage = t_2 ? 0 : t_1;
      parity = parity ^ ((int)t_2);
    }
    // ring_copy.py:39: px.tma.wait(0)
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
  }
}
