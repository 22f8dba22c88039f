// pipe_copy(CTAS=2, BM=64, BN=64, STAGES=1) for sm_90a, from pipe_copy.py:14
// 64 threads, 16400 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

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
//   barrier_cluster_arrive_relaxed_aligned
//   cluster_ctarank
//   wrap_add
//   wrap_mul
//   barrier_cluster_wait_acquire_aligned
//   floor_div
//   floor_mod
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global_multicast
//   elect_sync
//   cp_async_bulk_tensor_3d_global_shared
//   cp_async_bulk_commit_group
//   cp_async_bulk_wait_group_read_0
//   mbarrier_arrive_shared_cluster
//   mapa_shared_cluster
//   cp_async_bulk_wait_group_0
//   barrier_cluster_arrive_release_aligned
//   shared_address

extern "C" __global__ void __launch_bounds__(64, 1) pipe_copy_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 3> Y,
    const __grid_constant__ px_tensor_map X_map,
    const __grid_constant__ px_tensor_map Y_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned pipe_full = px_base + 16384;
  const unsigned pipe_empty = px_base + 16392;
  const unsigned stages_addr = px_base;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&X_map);
    ptx::prefetch_tensormap(&Y_map);
  }
  // pipe_copy.py:17: pipe = px.pipe(STAGES)
  if (px_one) {
    ptx::mbarrier_init_shared_cta(pipe_full, 1);
    ptx::mbarrier_init_shared_cta(pipe_empty, 2);
    // pipe_copy.py:14: def pipe_copy(X, Y, *, CTAS=2, BM=64, BN=64, STAGES=4):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // pipe_copy.py:15: rank = px.cluster.rank()
  const int rank = ptx::cluster_ctarank();
  // pipe_copy.py:18: across = px.cdiv(X.shape[1], BN)
  const int X_size0 = X.shape[0];
  const int X_size1 = X.shape[1];
  // pipe_copy.py:20: first, step = px.cluster.id(), px.num_blocks(0) // CTAS
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int blocks_x = (int)gridDim.x;
  // pipe_copy.py:18: across = px.cdiv(X.shape[1], BN)
  const int across = ptx::wrap_add((X_size1 >> 6), ((int)((X_size1 & 63) != 0)));
  // pipe_copy.py:19: tiles = px.cdiv(X.shape[0], BM) * across
  const int t = ptx::wrap_add((X_size0 >> 6), ((int)((X_size0 & 63) != 0)));
  const int tiles = ptx::wrap_mul(t, across);
  // pipe_copy.py:20: first, step = px.cluster.id(), px.num_blocks(0) // CTAS
  const int step = blocks_x >> 1;
  // pipe_copy.py:14: def pipe_copy(X, Y, *, CTAS=2, BM=64, BN=64, STAGES=4):
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // pipe_copy.py:22: with px.warps(0, 1):
  if (px_warp_id == 0) {  // warp 0
    const bool px_one = ptx::elect_sync();
    // pipe_copy.py:23: for tile in range(first, tiles, step):
    int filling_parity = 0;
    #pragma unroll 1
    for (int tile = cluster; tile < tiles; tile += step) {
      // pipe_copy.py:24: m, n = tile // across * BM, tile % across * BN
      const int m = ptx::wrap_mul((ptx::floor_div<int>(tile, across)), 64);
      const int n = ptx::wrap_mul((ptx::floor_mod<int>(tile, across)), 64);
      // pipe_copy.py:25: with pipe.produce() as s:  # stage s is free; it expects what the copies inside bring
      ptx::mbarrier_wait_parity(pipe_empty, filling_parity ^ 1);
      __syncwarp();  // all threads have passed the wait at line 25 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(pipe_full, 16384);
      }
      // pipe_copy.py:26: px.cluster.load(X[m : m + BM, n : n + BN], stages[s], pipe.full[s], ctas=(1 << CTAS) - 1)
      const int rank_1 = ptx::cluster_ctarank();
      const int t_1 = ptx::wrap_mul(rank_1, 32);
      if (px_one) {
        // tensor copy: a box of 32 x 64
        ptx::cp_async_bulk_tensor_2d_shared_global_multicast(stages_addr + t_1 * 256, &X_map, n, ptx::wrap_add(m, t_1), pipe_full, 0x3);
      }
      // pipe_copy.py:25: with pipe.produce() as s:  # stage s is free; it expects what the copies inside bring
      filling_parity = filling_parity ^ 1;
    }
  } else if (px_warp_id == 1) {  // warp 1
    const bool px_one = ptx::elect_sync();
    // pipe_copy.py:29: for tile in range(first, tiles, step):
    int taking_parity = 0;
    #pragma unroll 1
    for (int tile = cluster; tile < tiles; tile += step) {
      // pipe_copy.py:30: m, n = tile // across * BM, tile % across * BN
      const int m = ptx::wrap_mul((ptx::floor_div<int>(tile, across)), 64);
      const int n = ptx::wrap_mul((ptx::floor_mod<int>(tile, across)), 64);
      // pipe_copy.py:31: with pipe.consume() as s:  # stage s is full; it is given back at the end of the block
      ptx::mbarrier_wait_parity(pipe_full, taking_parity);
      // pipe_copy.py:32: px.tma.store(stages[s], Y[rank, m : m + BM, n : n + BN])
      if (px_one) {
        // tensor copy: a box of 1 x 64 x 64
        ptx::cp_async_bulk_tensor_3d_global_shared(&Y_map, n, m, rank, stages_addr);
        // pipe_copy.py:33: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
        // pipe_copy.py:34: px.tma.wait(0, read=True)
        ptx::cp_async_bulk_wait_group_read_0();
      }
      // pipe_copy.py:31: with pipe.consume() as s:  # stage s is full; it is given back at the end of the block
      __syncwarp();  // all threads have passed the wait at line 31 before the elected thread goes on
      if (px_lane < 2) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(pipe_empty, px_lane));
      taking_parity = taking_parity ^ 1;
    }
    // pipe_copy.py:35: px.tma.wait(0)
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
  }
  // pipe_copy.py:14: def pipe_copy(X, Y, *, CTAS=2, BM=64, BN=64, STAGES=4):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
