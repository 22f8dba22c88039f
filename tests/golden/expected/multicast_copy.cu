// multicast_copy(BM=64, BN=64, STAGES=2) for sm_90a, from multicast_copy.py:14
// 64 threads, 32800 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

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

extern "C" __global__ void __launch_bounds__(64, 1) multicast_copy_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 3> Y,
    const __grid_constant__ px_tensor_map X_map,
    const __grid_constant__ px_tensor_map Y_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
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
  // multicast_copy.py:18: full = px.barrier(STAGES)
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(full + 8 * px_i, 1);
    // multicast_copy.py:19: empty = px.barrier(STAGES)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(empty + 8 * px_i, 2);
    // multicast_copy.py:14: def multicast_copy(X, Y, *, BM=64, BN=64, STAGES=4):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // multicast_copy.py:15: rank = px.cluster.rank()
  const int rank = ptx::cluster_ctarank();
  // multicast_copy.py:20: across = px.cdiv(X.shape[1], BN)
  const int X_size0 = X.shape[0];
  const int X_size1 = X.shape[1];
  // multicast_copy.py:22: first, step = px.cluster.id(), px.num_blocks(0) // 2
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int blocks_x = (int)gridDim.x;
  // multicast_copy.py:20: across = px.cdiv(X.shape[1], BN)
  const int across = ptx::wrap_add((X_size1 >> 6), ((int)((X_size1 & 63) != 0)));
  // multicast_copy.py:21: tiles = px.cdiv(X.shape[0], BM) * across
  const int t = ptx::wrap_add((X_size0 >> 6), ((int)((X_size0 & 63) != 0)));
  const int tiles = ptx::wrap_mul(t, across);
  // multicast_copy.py:22: first, step = px.cluster.id(), px.num_blocks(0) // 2
  const int step = blocks_x >> 1;
  // multicast_copy.py:14: def multicast_copy(X, Y, *, BM=64, BN=64, STAGES=4):
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // multicast_copy.py:25: with px.warps(0, 1):
  if (px_warp_id == 0) {  // warp 0
    const bool px_one = ptx::elect_sync();
    // multicast_copy.py:26: for tile in range(first, tiles, step):
    int stage = 0;
    int parity = 0;
    #pragma unroll 1
    for (int tile = cluster; tile < tiles; tile += step) {
      // multicast_copy.py:27: m, n = tile // across * BM + rank * half, tile % across * BN
      const int t_1 = ptx::wrap_mul((ptx::floor_div<int>(tile, across)), 64);
      const int m = ptx::wrap_add(t_1, ptx::wrap_mul(rank, 32));
      const int n = ptx::wrap_mul((ptx::floor_mod<int>(tile, across)), 64);
      // multicast_copy.py:28: empty[ring.stage].wait(ring.parity ^ 1)
      ptx::mbarrier_wait_parity(empty + 8 * stage, parity ^ 1);
      // multicast_copy.py:29: with full[ring.stage].transaction():  # expects both halves: one of its own, one from the peer
      __syncwarp();  // all threads have passed the wait at line 28 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(full + 8 * stage, 16384);
        // multicast_copy.py:30: mine = stages[ring.stage][rank * half : rank * half + half]
        // multicast_copy.py:31: px.tma.load(X[m : m + half, n : n + BN], mine, full[ring.stage], multicast=0b11)
        // tensor copy: a box of 32 x 64
        ptx::cp_async_bulk_tensor_2d_shared_global_multicast(stages_addr + stage * 16384 + (ptx::wrap_mul(rank, 32)) * 256, &X_map, n, m, full + 8 * stage, 0x3);
      }
      // multicast_copy.py:32: ring.advance()
      const int t_2 = ptx::wrap_add(stage, 1);
      const bool t_3 = t_2 == 2;
      stage = t_3 ? 0 : t_2;
      parity = parity ^ ((int)t_3);
    }
  } else if (px_warp_id == 1) {  // warp 1
    const bool px_one = ptx::elect_sync();
    // multicast_copy.py:35: for tile in range(first, tiles, step):
    int stage = 0;
    int parity = 0;
    #pragma unroll 1
    for (int tile = cluster; tile < tiles; tile += step) {
      // multicast_copy.py:36: m, n = tile // across * BM, tile % across * BN
      const int m = ptx::wrap_mul((ptx::floor_div<int>(tile, across)), 64);
      const int n = ptx::wrap_mul((ptx::floor_mod<int>(tile, across)), 64);
      // multicast_copy.py:37: full[ring.stage].wait(ring.parity)
      ptx::mbarrier_wait_parity(full + 8 * stage, parity);
      // multicast_copy.py:38: px.tma.store(stages[ring.stage], Y[rank, m : m + BM, n : n + BN])
      if (px_one) {
        // tensor copy: a box of 1 x 64 x 64
        ptx::cp_async_bulk_tensor_3d_global_shared(&Y_map, n, m, rank, stages_addr + stage * 16384);
        // multicast_copy.py:39: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
        // multicast_copy.py:40: px.tma.wait(0, read=True)
        ptx::cp_async_bulk_wait_group_read_0();
      }
      // multicast_copy.py:41: empty[ring.stage].arrive(ctas=0b11)
      __syncwarp();  // all threads have passed the wait at line 37 before the elected thread goes on
      if (px_lane < 2) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(empty + 8 * stage, px_lane));
      // multicast_copy.py:42: ring.advance()
      const int t_1 = ptx::wrap_add(stage, 1);
      const bool t_2 = t_1 == 2;
      stage = t_2 ? 0 : t_1;
      parity = parity ^ ((int)t_2);
    }
    // multicast_copy.py:43: px.tma.wait(0)
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
  }
  // multicast_copy.py:14: def multicast_copy(X, Y, *, BM=64, BN=64, STAGES=4):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
