// reduce_to_first(N=128) for sm_90a, from kernels.py:141
// 128 threads, 512 bytes of shared memory, clusters of 2 x 2 x 1 (set at launch)

template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   cluster_ctarank
//   barrier_cluster_arrive_release_aligned
//   barrier_cluster_wait_acquire_aligned
//   wrap_mul
//   wrap_add
//   inside
//   reduce_add_f32_remote
//   mapa_shared_cluster
//   shared_address

extern "C" __global__ void __launch_bounds__(128, 1) reduce_to_first_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 2> Y) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  float* const total = reinterpret_cast<float*>(px_smem);
  const unsigned total_addr = px_base;
  // kernels.py:143: rank = px.cluster.rank()
  const int rank = ptx::cluster_ctarank();
  // kernels.py:148: px.atomic_add(total.at(0), px.load(X[px.cluster.id(0) * 2 + px.cluster.rank(0), 0:N]))
  const int cluster_x = (int)blockIdx.x / 2;
  const int rank_x = (int)((unsigned)ptx::cluster_ctarank() % 2u);
  // kernels.py:152: px.store(Y[px.cluster.id(), 0:N], px.load(total))
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * (((int)blockIdx.y / 2) + ((int)gridDim.y / 2) * (int)blockIdx.z);
  // kernels.py:145: if rank == 0:
  if (rank == 0) {
    // kernels.py:146: px.store(total, px.zeros((N,), px.f32))
    float t[1];
    t[0] = 0.0f;
    {
      float* const p = total + px_lane + px_warp_id * 32;
      *(p) = t[0];
    }
  }
  // kernels.py:147: px.cluster.sync()
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // kernels.py:148: px.atomic_add(total.at(0), px.load(X[px.cluster.id(0) * 2 + px.cluster.rank(0), 0:N]))
  const int t = ptx::wrap_add(ptx::wrap_mul(cluster_x, 2), rank_x);
  float t_1[1];
  {
    const int x1 = px_lane + px_warp_id * 32;
    float* const p = X.data + (t * X.stride[0] + x1);
    t_1[0] = ptx::inside(t, X.shape[0]) && ptx::inside(x1, X.shape[1]) ? *(p) : 0.0f;
  }
  {
    const unsigned a = ptx::mapa_shared_cluster(total_addr, 0) + 4 * (px_lane + px_warp_id * 32);
    ptx::reduce_add_f32_remote(a, t_1[0]);
  }
  // kernels.py:149: px.cluster.arrive()
  ptx::barrier_cluster_arrive_release_aligned();
  // kernels.py:150: px.cluster.wait()
  ptx::barrier_cluster_wait_acquire_aligned();
  // kernels.py:151: if rank == 0:
  if (rank == 0) {
    // kernels.py:152: px.store(Y[px.cluster.id(), 0:N], px.load(total))
    float t_2[1];
    {
      float* const p = total + px_lane + px_warp_id * 32;
      t_2[0] = *(p);
    }
    {
      const int x1 = px_lane + px_warp_id * 32;
      float* const p = Y.data + (cluster * Y.stride[0] + x1);
      if (ptx::inside(cluster, Y.shape[0]) && ptx::inside(x1, Y.shape[1])) *(p) = t_2[0];
    }
  }
  // kernels.py:141: def reduce_to_first(X, Y, *, N=128):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
