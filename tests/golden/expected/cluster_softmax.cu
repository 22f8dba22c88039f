// softmax(N=256, ROWS=3, CLUSTER=(4, 1, 1)) for sm_90a, from cluster_reduction_cases.py:17
// 128 threads, 176 bytes of shared memory, clusters of 4 x 1 x 1 (set at launch)

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
//   barrier_cluster_wait_acquire_aligned
//   inside
//   bits
//   unpack
//   load_vector
//   fill_vector
//   max_NaN_f32
//   warp_max
//   mbarrier_arrive_expect_tx_shared_cta
//   mapa_shared_cluster
//   st_async
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   shuffle_xor
//   store_vector
//   elect_sync
//   shared_address

extern "C" __global__ void __launch_bounds__(128, 1) softmax_kernel(
    const __grid_constant__ px_array<float, 3> X,
    const __grid_constant__ px_array<float, 3> Y) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned reduce_full = px_base + 160;
  unsigned turn = 0;  // exchanges over the cluster so far
  const unsigned reduce_inbox_addr = px_base;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  // cluster_reduction_cases.py:23: top = px.cluster.reduce(px.max(x), "max")
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(reduce_full + 8 * px_i, 1);
    // cluster_reduction_cases.py:17: def softmax(X, Y, *, CLUSTER, N=256, ROWS=3):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // cluster_reduction_cases.py:20: me = px.cluster.id() * size + px.cluster.rank()
  const int cluster = (int)blockIdx.x / 4 + ((int)gridDim.x / 4) * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int rank = ptx::cluster_ctarank();
  const int me = ptx::wrap_add(ptx::wrap_mul(cluster, 4), rank);
  // cluster_reduction_cases.py:17: def softmax(X, Y, *, CLUSTER, N=256, ROWS=3):
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // cluster_reduction_cases.py:21: for row in range(ROWS):
  #pragma unroll 1
  for (int row = 0; row < 3; ++row) {
    // cluster_reduction_cases.py:22: x = px.load(X[me, row, 0:N])
    float x[2];
    {
      const int x2 = px_lane * 2 + px_warp_id * 64;
      float* const p = X.data + (me * X.stride[0] + row * X.stride[1] + x2);
      if (ptx::inside(me, X.shape[0]) && ptx::inside(row, X.shape[1]) && ptx::inside(x2, X.shape[2])) ptx::load_vector<2>(x, p);
      else ptx::fill_vector<2>(x, 0.0f);
    }
    // cluster_reduction_cases.py:23: top = px.cluster.reduce(px.max(x), "max")
    float x_max[1];
    {
      x_max[0] = x[0];
      x_max[0] = ptx::max_NaN_f32(x_max[0], x[1]);
      x_max[0] = ptx::warp_max(x_max[0]);
    }
    const float t = x_max[0];
    float top;
    {
      // max over the cluster: each warp sends its partial result to every CTA
      const unsigned inbox_bar = reduce_full + 8 * (turn & 1);
      const unsigned inbox = reduce_inbox_addr + 80 * (turn & 1);
      __syncwarp();  // this warp has read its inboxes of the turn before
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(inbox_bar, 64);
      }
      if (px_lane < 4) {
        const float value = t;
        ptx::st_async<1>(ptx::mapa_shared_cluster(inbox + ptx::cluster_ctarank() * 16 + px_warp_id * 4, px_lane), &value, ptx::mapa_shared_cluster(inbox_bar, px_lane));
      }
      ptx::mbarrier_wait_parity(inbox_bar, turn >> 1 & 1);
      const unsigned char* const received = px_smem + (inbox - px_base);
      float parts[16];
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        ptx::load_vector<4>(parts + i, (reinterpret_cast<const float*>(received)) + i);
      }
      float total = parts[0];
      #pragma unroll
      for (int j = 1; j < 16; ++j) total = ptx::max_NaN_f32(total, parts[j]);
      top = total;
      ++turn;
    }
    // cluster_reduction_cases.py:24: e = px.exp(x - top)
    float t_1[2];
    t_1[0] = x[0] - top;
    t_1[1] = x[1] - top;
    float e[2];
    e[0] = expf(t_1[0]);
    e[1] = expf(t_1[1]);
    // cluster_reduction_cases.py:25: px.store(Y[me, row, 0:N], e / px.cluster.reduce(px.sum(e), "sum"))
    float e_sum[1];
    {
      e_sum[0] = e[0];
      e_sum[0] = e_sum[0] + e[1];
      #pragma unroll
      for (int mask = 1; mask <= 16; mask *= 2) {
        e_sum[0] = e_sum[0] + ptx::shuffle_xor(e_sum[0], mask);
      }
    }
    const float t_2 = e_sum[0];
    float t_3;
    {
      // sum over the cluster: each warp sends its partial result to every CTA
      const unsigned inbox_bar = reduce_full + 8 * (turn & 1);
      const unsigned inbox = reduce_inbox_addr + 80 * (turn & 1);
      __syncwarp();  // this warp has read its inboxes of the turn before
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(inbox_bar, 64);
      }
      if (px_lane < 4) {
        const float value = t_2;
        ptx::st_async<1>(ptx::mapa_shared_cluster(inbox + ptx::cluster_ctarank() * 16 + px_warp_id * 4, px_lane), &value, ptx::mapa_shared_cluster(inbox_bar, px_lane));
      }
      ptx::mbarrier_wait_parity(inbox_bar, turn >> 1 & 1);
      const unsigned char* const received = px_smem + (inbox - px_base);
      float parts[16];
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        ptx::load_vector<4>(parts + i, (reinterpret_cast<const float*>(received)) + i);
      }
      float total = parts[0];
      #pragma unroll
      for (int j = 1; j < 16; ++j) total = total + parts[j];
      t_3 = total;
      ++turn;
    }
    float t_4[2];
    t_4[0] = e[0] / t_3;
    t_4[1] = e[1] / t_3;
    {
      const int x2 = px_lane * 2 + px_warp_id * 64;
      float* const p = Y.data + (me * Y.stride[0] + row * Y.stride[1] + x2);
      if (ptx::inside(me, Y.shape[0]) && ptx::inside(row, Y.shape[1]) && ptx::inside(x2, Y.shape[2])) ptx::store_vector<2>(p, t_4);
    }
  }
  // cluster_reduction_cases.py:17: def softmax(X, Y, *, CLUSTER, N=256, ROWS=3):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_relaxed_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
