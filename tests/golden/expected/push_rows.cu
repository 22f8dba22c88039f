// parts(BM=24, BN=64, R=4, H=32, CLUSTER=(2, 1, 1)) for sm_90a, from cluster_cases.py:40
// 128 threads, 44560 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   mbarrier_init_shared_cta
//   fence_mbarrier_init_release_cluster
//   barrier_cluster_arrive_relaxed_aligned
//   cluster_ctarank
//   wrap_mul
//   wrap_add
//   inside
//   bits
//   unpack
//   load_vector
//   fill_vector
//   barrier_cluster_wait_acquire_aligned
//   store_vector
//   fence_proxy_async_shared_cta
//   mbarrier_arrive_expect_tx_shared_cta
//   shift_left
//   cp_async_bulk_shared_shared
//   mapa_shared_cluster
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   store_vector_if
//   barrier_cluster_arrive_release_aligned
//   elect_sync
//   shared_address

extern "C" __global__ void __launch_bounds__(128, 1) parts_kernel(
    const __grid_constant__ px_array<float, 3> X,
    const __grid_constant__ px_array<float, 3> Y) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned full = px_base + 44544;
  float* const mine = reinterpret_cast<float*>(px_smem);
  const unsigned mine_addr = px_base;
  const unsigned inbox_addr = px_base + 12288;
  float* const inbox = reinterpret_cast<float*>(px_smem + 12288);
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  // cluster_cases.py:45: full = px.barrier()
  if (px_one) {
    ptx::mbarrier_init_shared_cta(full, 1);
    // cluster_cases.py:40: def parts(X, Y, *, CLUSTER, BM=24, BN=64, R=4, H=32):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // cluster_cases.py:43: me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int rank = ptx::cluster_ctarank();
  const int me = ptx::wrap_add(ptx::wrap_mul(cluster, 2), rank);
  const int to = ptx::wrap_add(rank, 1) & 1;
  // cluster_cases.py:47: px.store(mine[half], px.load(X[me, half * BM : half * BM + BM, 0:BN]))
  float t[12];
  {
    const int x1 = (px_lane >> 4) + px_warp_id * 2;
    const int x2 = (px_lane & 15) * 4;
    float* const p = X.data + (me * X.stride[0] + x1 * X.stride[1] + x2);
    #pragma unroll
    for (int i = 0; i < 12; i += 4) {
      if (ptx::inside(me, X.shape[0]) && ptx::inside(x1 + (i >> 2) * 8, X.shape[1]) && ptx::inside(x2, X.shape[2])) ptx::load_vector<4>(t + i, p + (i >> 2) * 8 * X.stride[1]);
      else ptx::fill_vector<4>(t + i, 0.0f);
    }
  }
  // cluster_cases.py:40: def parts(X, Y, *, CLUSTER, BM=24, BN=64, R=4, H=32):
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // cluster_cases.py:47: px.store(mine[half], px.load(X[me, half * BM : half * BM + BM, 0:BN]))
  {
    float* const p = mine + px_lane * 4 + px_warp_id * 128;
    #pragma unroll
    for (int i = 0; i < 12; i += 4) {
      ptx::store_vector<4>(p + (i >> 2) * 512, t + i);
    }
  }
  float t_1[12];
  {
    const int x1 = 24 + (px_lane >> 4) + px_warp_id * 2;
    const int x2 = (px_lane & 15) * 4;
    float* const p = X.data + (me * X.stride[0] + x1 * X.stride[1] + x2);
    #pragma unroll
    for (int i = 0; i < 12; i += 4) {
      if (ptx::inside(me, X.shape[0]) && ptx::inside(x1 + (i >> 2) * 8, X.shape[1]) && ptx::inside(x2, X.shape[2])) ptx::load_vector<4>(t_1 + i, p + (i >> 2) * 8 * X.stride[1]);
      else ptx::fill_vector<4>(t_1 + i, 0.0f);
    }
  }
  {
    float* const p = mine + px_lane * 4 + px_warp_id * 128;
    #pragma unroll
    for (int i = 0; i < 12; i += 4) {
      ptx::store_vector<4>(p + ((((i >> 2) & 1) * 3584) ^ ((i >> 3) * 3072) ^ 1536), t_1 + i);
    }
  }
  // cluster_cases.py:48: px.fence.async_proxy()
  ptx::fence_proxy_async_shared_cta();
  // cluster_cases.py:49: with full.transaction():
  __syncthreads();  // all threads are done with mine at line 47 before the elected thread arrives
  if (px_one) {
    ptx::mbarrier_arrive_expect_tx_shared_cta(full, 6144);
  }
  // cluster_cases.py:50: px.cluster.copy(mine[:, :, 0:H], inbox[1:3, R : R + BM, H : 2 * H], full, cta=to)
  // bulk rows: 48 contiguous runs of 128 bytes
  if (px_warp_id == 0) {
    __syncwarp();
    const unsigned there_bar = ptx::mapa_shared_cluster(full, to);
    const unsigned here = mine_addr;
    const unsigned there = ptx::mapa_shared_cluster(inbox_addr + 12416, to);
    for (int i = px_lane; i < 48; i += 32) {
      ptx::cp_async_bulk_shared_shared(there + (i / 24) * 10752 + (i % 24) * 384, here + (i / 24) * 6144 + (i % 24) * 256, 128, there_bar);
    }
    __syncwarp();
  }
  // cluster_cases.py:51: full.wait(0)
  ptx::mbarrier_wait_parity(full, 0);
  // cluster_cases.py:53: px.store(Y[me, half * BM : half * BM + BM, 0:H], px.load(inbox[1 + half, R : R + BM, H : 2 * H]))
  float t_2[8];
  {
    float* const p = inbox + ((px_lane >> 3) + px_warp_id * 4) * 96 + (px_lane & 7) * 4;
    #pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const int c0 = (px_lane >> 3) + px_warp_id * 4;
      if (c0 + (i >> 2) * 16 < 24) ptx::load_vector<4>(t_2 + i, p + (((i >> 2) * 7680) ^ 3104));
    }
  }
  {
    const int c0 = (px_lane >> 3) + px_warp_id * 4;
    const int x2 = (px_lane & 7) * 4;
    float* const p = Y.data + (me * Y.stride[0] + c0 * Y.stride[1] + x2);
    #pragma unroll
    for (int i = 0; i < 8; i += 4) {
      ptx::store_vector_if<4>(p + (i >> 2) * 16 * Y.stride[1], t_2 + i, (c0 + (i >> 2) * 16 < 24) & ptx::inside(me, Y.shape[0]) & ptx::inside(c0 + (i >> 2) * 16, Y.shape[1]) & ptx::inside(x2, Y.shape[2]));
    }
  }
  float t_3[8];
  {
    float* const p = inbox + ((px_lane >> 3) + px_warp_id * 4) * 96 + (px_lane & 7) * 4;
    #pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const int c0 = (px_lane >> 3) + px_warp_id * 4;
      if (c0 + (i >> 2) * 16 < 24) ptx::load_vector<4>(t_3 + i, p + (((i >> 2) * 2560) ^ 5792));
    }
  }
  {
    const int c0 = (px_lane >> 3) + px_warp_id * 4;
    const int x1 = 24 + c0;
    const int x2 = (px_lane & 7) * 4;
    float* const p = Y.data + (me * Y.stride[0] + x1 * Y.stride[1] + x2);
    #pragma unroll
    for (int i = 0; i < 8; i += 4) {
      ptx::store_vector_if<4>(p + (i >> 2) * 16 * Y.stride[1], t_3 + i, (c0 + (i >> 2) * 16 < 24) & ptx::inside(me, Y.shape[0]) & ptx::inside(x1 + (i >> 2) * 16, Y.shape[1]) & ptx::inside(x2, Y.shape[2]));
    }
  }
  // cluster_cases.py:40: def parts(X, Y, *, CLUSTER, BM=24, BN=64, R=4, H=32):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
