// exchange(BM=32, BN=64) for sm_90a, from cluster_exchange.py:10
// 128 threads, 8192 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   cluster_ctarank
//   wrap_mul
//   inside
//   barrier_cluster_arrive_release_aligned
//   barrier_cluster_wait_acquire_aligned
//   mapa_shared_cluster
//   bits
//   unpack
//   store_remote
//   shared_address

extern "C" __global__ void __launch_bounds__(128, 1) exchange_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 2> Y) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned inbox_addr = px_base;
  float* const inbox = reinterpret_cast<float*>(px_smem);
  // cluster_exchange.py:11: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int block_x = (int)blockIdx.x;
  const int block_y = (int)blockIdx.y;
  // cluster_exchange.py:12: rank = px.cluster.rank()
  const int rank = ptx::cluster_ctarank();
  // cluster_exchange.py:11: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int m = ptx::wrap_mul(block_x, 32);
  const int n = ptx::wrap_mul(block_y, 64);
  // cluster_exchange.py:14: mine = px.load(X[m : m + BM, n : n + BN])
  float mine[16];
  {
    const unsigned x0 = (unsigned)m + px_warp_id;
    const unsigned x1 = (unsigned)n + px_lane;
    float* const p = X.data + ((int)x0 * X.stride[0] + (int)x1);
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
      mine[i] = ptx::inside(x0 + (i >> 1) * 4, X.shape[0]) && ptx::inside(x1 + (i & 1) * 32, X.shape[1]) ? *(p + (i >> 1) * 4 * X.stride[0] + (i & 1) * 32) : 0.0f;
    }
  }
  // cluster_exchange.py:15: px.cluster.sync()  # the neighbour has started: its shared memory exists
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // cluster_exchange.py:16: px.store(inbox.at(rank ^ 1), mine)
  {
    const unsigned a = ptx::mapa_shared_cluster(inbox_addr, (rank ^ 1)) + 4 * (px_lane + px_warp_id * 64);
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
      ptx::store_remote<1>(a + 4 * ((i & 1) * 32 + (i >> 1) * 256), mine + i);
    }
  }
  // cluster_exchange.py:17: px.cluster.sync()  # both tiles have arrived
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // cluster_exchange.py:18: theirs = px.load(inbox)
  float theirs[16];
  {
    float* const p = inbox + px_lane + px_warp_id * 64;
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
      theirs[i] = *(p + (i & 1) * 32 + (i >> 1) * 256);
    }
  }
  // cluster_exchange.py:19: px.store(Y[m : m + BM, n : n + BN], mine + theirs)
  float t[16];
  #pragma unroll
  for (int i = 0; i < 16; ++i) t[i] = mine[i] + theirs[i];
  {
    const unsigned x0 = (unsigned)m + px_warp_id;
    const unsigned x1 = (unsigned)n + px_lane;
    float* const p = Y.data + ((int)x0 * Y.stride[0] + (int)x1);
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
      if (ptx::inside(x0 + (i >> 1) * 4, Y.shape[0]) && ptx::inside(x1 + (i & 1) * 32, Y.shape[1])) *(p + (i >> 1) * 4 * Y.stride[0] + (i & 1) * 32) = t[i];
    }
  }
  // cluster_exchange.py:10: def exchange(X, Y, *, BM=32, BN=64):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
