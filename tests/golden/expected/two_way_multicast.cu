// piped_2d(BM=16, BN=16, K=5, STAGES=2, CLUSTER=(2, 2, 1)) for sm_90a, from collective_cases.py:60
// 96 threads, 4128 bytes of shared memory, clusters of 2 x 2 x 1 (set at launch)

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
//   cluster_ctarank
//   fence_mbarrier_init_release_cluster
//   barrier_cluster_arrive_relaxed_aligned
//   shift_right
//   wrap_mul
//   shift_left
//   wrap_add
//   barrier_cluster_wait_acquire_aligned
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global_multicast
//   elect_sync
//   bits
//   unpack
//   load_vector
//   bar_sync
//   mbarrier_arrive_shared_cluster
//   mapa_shared_cluster
//   inside
//   store_vector
//   barrier_cluster_arrive_release_aligned
//   shared_address

extern "C" __global__ void __launch_bounds__(96, 1) piped_2d_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 3> Y,
    const __grid_constant__ px_array<float, 2> Z,
    const __grid_constant__ px_tensor_map X_map,
    const __grid_constant__ px_tensor_map Z_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned pipe_full = px_base + 4096;
  const unsigned pipe_empty = px_base + 4112;
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 2048;
  float* const a = reinterpret_cast<float*>(px_smem);
  float* const b = reinterpret_cast<float*>(px_smem + 2048);
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&X_map);
    ptx::prefetch_tensormap(&Z_map);
  }
  // collective_cases.py:69: pipe = px.pipe(STAGES)
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(pipe_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(pipe_empty + 8 * px_i, (0x8 >> ptx::cluster_ctarank() & 1 ? 1 : (0x1 >> ptx::cluster_ctarank() & 1 ? 3 : 2)));
    // collective_cases.py:60: def piped_2d(X, Y, Z, *, CLUSTER, BM=16, BN=16, K=5, STAGES=2):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // collective_cases.py:81: pipe.release()
  const int rank = ptx::cluster_ctarank();
  const int release_ctas = (((ptx::shift_right<int>(2, rank)) & 1) != 0) ? 3 : 1;
  const int release_ctas_1 = (((ptx::shift_right<int>(4, rank)) & 1) != 0) ? 5 : release_ctas;
  const int release_ctas_2 = (((ptx::shift_right<int>(8, rank)) & 1) != 0) ? 14 : release_ctas_1;
  // collective_cases.py:63: x, y = px.cluster.rank(0), px.cluster.rank(1)
  const int rank_x = (int)((unsigned)ptx::cluster_ctarank() % 2u);
  const int rank_y = (int)((unsigned)ptx::cluster_ctarank() / 2u);
  // collective_cases.py:82: number = px.cluster.id() * px.cluster.size() + px.cluster.rank()
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * (((int)blockIdx.y / 2) + ((int)gridDim.y / 2) * (int)blockIdx.z);
  const int rank_1 = ptx::cluster_ctarank();
  // collective_cases.py:65: across = ((1 << wide) - 1) << (wide * y)
  const int across = ptx::shift_left<int>(3, ptx::wrap_mul(2, rank_y));
  // collective_cases.py:68: down = down | 1 << (wide * row + x)
  const int down = 0 | (ptx::shift_left<int>(1, rank_x));
  const int t = ptx::shift_left<int>(1, ptx::wrap_add(2, rank_x));
  const int down_1 = down | t;
  // collective_cases.py:60: def piped_2d(X, Y, Z, *, CLUSTER, BM=16, BN=16, K=5, STAGES=2):
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // collective_cases.py:70: with px.warps(0, 1):
  if (px_warp_id == 0) {  // warp 0
    const bool px_one = ptx::elect_sync();
    // collective_cases.py:71: for k in range(K):
    int filling = 0;
    int filling_parity = 0;
    #pragma unroll 1
    for (int k = 0; k < 5; ++k) {
      // collective_cases.py:72: with pipe.produce() as s:
      ptx::mbarrier_wait_parity(pipe_empty + 8 * filling, filling_parity ^ 1);
      __syncwarp();  // all threads have passed the wait at line 72 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(pipe_full + 8 * filling, 2048);
      }
      // collective_cases.py:73: if x == 0:
      if (rank_x == 0) {
        // collective_cases.py:74: px.tma.load(X[y * BM : y * BM + BM, k * BN : k * BN + BN], a[s], pipe.full[s], multicast=across)
        if (px_one) {
          // tensor copy: a box of 16 x 16
          ptx::cp_async_bulk_tensor_2d_shared_global_multicast(a_addr + filling * 1024, &X_map, ptx::wrap_mul(k, 16), ptx::wrap_mul(rank_y, 16), pipe_full + 8 * filling, (unsigned short)across);
        }
      }
      // collective_cases.py:75: if y == 0:
      if (rank_y == 0) {
        // collective_cases.py:76: px.tma.load(Z[x * BM : x * BM + BM, k * BN : k * BN + BN], b[s], pipe.full[s], multicast=down)
        if (px_one) {
          // tensor copy: a box of 16 x 16
          ptx::cp_async_bulk_tensor_2d_shared_global_multicast(b_addr + filling * 1024, &Z_map, ptx::wrap_mul(k, 16), ptx::wrap_mul(rank_x, 16), pipe_full + 8 * filling, (unsigned short)down_1);
        }
      }
      // collective_cases.py:72: with pipe.produce() as s:
      const int t_1 = ptx::wrap_add(filling, 1);
      const bool t_2 = t_1 == 2;
      filling = t_2 ? 0 : t_1;
      filling_parity = filling_parity ^ ((int)t_2);
    }
  } else if (px_warp_id >= 1) {  // warps 1 to 2
    const int px_warp = px_warp_id - 1;
    // collective_cases.py:78: for k in range(K):
    int taking = 0;
    int taking_parity = 0;
    #pragma unroll 1
    for (int k = 0; k < 5; ++k) {
      // collective_cases.py:79: s = pipe.wait()
      ptx::mbarrier_wait_parity(pipe_full + 8 * taking, taking_parity);
      // collective_cases.py:80: tile = px.load(a[s]) + px.load(b[s])
      float t_1[4];
      {
        float* const p = a + taking * 256 + px_lane * 4 + px_warp * 128;
        ptx::load_vector<4>(t_1, p);
      }
      float t_2[4];
      {
        float* const p = b + taking * 256 + px_lane * 4 + px_warp * 128;
        ptx::load_vector<4>(t_2, p);
      }
      float tile[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) tile[i] = t_1[i] + t_2[i];
      // collective_cases.py:81: pipe.release()
      ptx::bar_sync<1, 64>();  // all threads have passed the wait at line 79 before the elected thread goes on
      if (px_warp_id == 1 && ((unsigned)release_ctas_2 >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(pipe_empty + 8 * taking, px_lane));
      const int t_3 = ptx::wrap_add(taking, 1);
      const bool t_4 = t_3 == 2;
      // collective_cases.py:82: number = px.cluster.id() * px.cluster.size() + px.cluster.rank()
      const int number = ptx::wrap_add(ptx::wrap_mul(cluster, 4), rank_1);
      // collective_cases.py:83: px.store(Y[number, 0:BM, k * BN : k * BN + BN], tile)
      {
        const int x1 = (px_lane >> 2) + px_warp * 8;
        const int x2 = ptx::wrap_mul(k, 16) + (px_lane & 3) * 4;
        float* const p = Y.data + (number * Y.stride[0] + x1 * Y.stride[1] + x2);
        if (ptx::inside(number, Y.shape[0]) && ptx::inside(x1, Y.shape[1]) && ptx::inside(x2, Y.shape[2])) ptx::store_vector<4>(p, tile);
      }
      taking = t_4 ? 0 : t_3;
      taking_parity = taking_parity ^ ((int)t_4);
    }
  }
  // collective_cases.py:60: def piped_2d(X, Y, Z, *, CLUSTER, BM=16, BN=16, K=5, STAGES=2):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
