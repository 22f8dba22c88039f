// clc_scale(CTAS=1, BM=32, BN=64) for sm_100a, from clc_scale.py:13
// 160 threads, 144 bytes of shared memory

template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   mbarrier_init_shared_cta
//   fence_mbarrier_init_release_cluster
//   wrap_add
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   clusterlaunchcontrol_try_cancel
//   clusterlaunchcontrol_query_cancel
//   fence_proxy_async_shared_cta
//   mbarrier_arrive_shared_cluster
//   mapa_shared_cluster
//   elect_sync
//   floor_div
//   wrap_mul
//   floor_mod
//   inside
//   bits
//   unpack
//   load_vector
//   fill_vector
//   store_vector_if
//   bar_sync
//   shared_address

extern "C" __global__ void __launch_bounds__(160, 1) clc_scale_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 2> Y,
    const float alpha) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned full = px_base + 128;
  const unsigned empty = px_base + 136;
  const unsigned result_addr = px_base;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  // clc_scale.py:16: full, empty = px.barrier(), px.barrier()
  if (px_one) {
    ptx::mbarrier_init_shared_cta(full, 1);
    ptx::mbarrier_init_shared_cta(empty, 2);
    // clc_scale.py:13: def clc_scale(X, Y, alpha, *, CTAS=1, BM=32, BN=64):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // clc_scale.py:14: across = px.cdiv(X.shape[1], BN)
  const int X_size1 = X.shape[1];
  // clc_scale.py:31: turn, more, block = px.ring(1), True, px.block_id(0)
  const int block_x = (int)blockIdx.x;
  // clc_scale.py:14: across = px.cdiv(X.shape[1], BN)
  const int across = ptx::wrap_add((X_size1 >> 6), ((int)((X_size1 & 63) != 0)));
  // clc_scale.py:13: def clc_scale(X, Y, alpha, *, CTAS=1, BM=32, BN=64):
  __syncthreads();  // barriers are initialised before their first use
  // clc_scale.py:18: with px.warps(0, 1):  # asks for the next block while the others work on this one
  if (px_warp_id == 0) {  // warp 0
    const bool px_one = ptx::elect_sync();
    // clc_scale.py:20: while more:
    int parity = 0;
    bool more = true;
    while (more) {
      // clc_scale.py:22: empty.wait(turn.parity ^ 1)  # every role of every CTA has read the answer before
      ptx::mbarrier_wait_parity(empty, parity ^ 1);
      // clc_scale.py:23: with full.transaction():  # each CTA expects its own 16 bytes
      __syncwarp();  // all threads have passed the wait at line 22 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(full, 16);
        // clc_scale.py:24: px.clc.try_cancel(result, full)
        ptx::clusterlaunchcontrol_try_cancel(result_addr, full);
      }
      // clc_scale.py:25: full.wait(turn.parity)
      ptx::mbarrier_wait_parity(full, parity);
      // clc_scale.py:26: more, _ = px.clc.query(result)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(result_addr, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      // clc_scale.py:27: empty.arrive(ctas=0b1)
      __syncwarp();  // all threads have passed the wait at line 25 before the elected thread goes on
      if (px_lane < 1) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(empty, px_lane));
      // clc_scale.py:28: turn.advance()
      parity = parity ^ 1;
      more = granted;
    }
  } else if (px_warp_id >= 1) {  // warps 1 to 4
    const int px_warp = px_warp_id - 1;
    // clc_scale.py:32: while more:
    bool more = true;
    int parity = 0;
    int block = block_x;
    while (more) {
      // clc_scale.py:33: m, n = block // across * BM, block % across * BN
      const int m = ptx::wrap_mul((ptx::floor_div<int>(block, across)), 32);
      const int n = ptx::wrap_mul((ptx::floor_mod<int>(block, across)), 64);
      // clc_scale.py:34: px.store(Y[m : m + BM, n : n + BN], px.load(X[m : m + BM, n : n + BN]) * alpha)
      float t[16];
      {
        const unsigned x0 = (unsigned)m + (px_lane >> 4) + px_warp * 2;
        const unsigned x1 = (unsigned)n + (px_lane & 15) * 4;
        float* const p = X.data + ((int)x0 * X.stride[0] + (int)x1);
        #pragma unroll
        for (int i = 0; i < 16; i += 4) {
          if (ptx::inside(x0 + (i >> 2) * 8, X.shape[0]) && ptx::inside(x1, X.shape[1])) ptx::load_vector<4>(t + i, p + (i >> 2) * 8 * X.stride[0]);
          else ptx::fill_vector<4>(t + i, 0.0f);
        }
      }
      float t_1[16];
      #pragma unroll
      for (int i = 0; i < 16; ++i) t_1[i] = t[i] * alpha;
      {
        const unsigned x0 = (unsigned)m + (px_lane >> 4) + px_warp * 2;
        const unsigned x1 = (unsigned)n + (px_lane & 15) * 4;
        float* const p = Y.data + ((int)x0 * Y.stride[0] + (int)x1);
        #pragma unroll
        for (int i = 0; i < 16; i += 4) {
          ptx::store_vector_if<4>(p + (i >> 2) * 8 * Y.stride[0], t_1 + i, ptx::inside(x0 + (i >> 2) * 8, Y.shape[0]) & ptx::inside(x1, Y.shape[1]));
        }
      }
      // clc_scale.py:35: full.wait(turn.parity)
      ptx::mbarrier_wait_parity(full, parity);
      // clc_scale.py:36: more, block = px.clc.query(result)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(result_addr, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      const int block_1 = granted ? first_x + (int)gridDim.x * (first_y + (int)gridDim.y * first_z) : -1;
      // clc_scale.py:37: empty.arrive(ctas=0b1)
      ptx::bar_sync<1, 128>();  // all threads are done with Y at line 34 before the elected thread arrives
      if (px_warp_id == 1 && px_lane < 1) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(empty, px_lane));
      // clc_scale.py:38: turn.advance()
      more = granted;
      parity = parity ^ 1;
      block = block_1;
    }
  }
}
