// split(BM=64, BN=32, BK=32, HOW=sync) for sm_90a, from pipelined.py:65
// 160 threads, 28720 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

typedef unsigned short px_bf16;
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
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global
//   barrier_cluster_wait_acquire_aligned
//   elect_sync
//   wgmma_fence_sync_aligned
//   wgmma_descriptor
//   wgmma_m64n32k16_f32_bf16_bf16_x2
//   wgmma_commit_group_sync_aligned
//   wgmma_wait_group_1
//   mbarrier_arrive_shared_cta
//   wgmma_wait_group_0
//   keep_float
//   bar_sync
//   mapa_shared_cluster
//   bits
//   unpack
//   store_remote
//   mbarrier_arrive_release_cluster_shared_cluster
//   mbarrier_try_wait_parity_acquire_cluster_shared_cta
//   mbarrier_wait_parity_acquire_cluster
//   load_vector
//   cp_async_bulk_wait_group_read_0
//   store_vector
//   fence_proxy_async_shared_cta
//   cp_async_bulk_tensor_2d_global_shared
//   cp_async_bulk_commit_group
//   cp_async_bulk_wait_group_0
//   barrier_cluster_arrive_release_aligned
//   shared_address

extern "C" __global__ void __launch_bounds__(160, 1) split_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<px_bf16, 2> B,
    const __grid_constant__ px_array<float, 2> C,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map,
    const __grid_constant__ px_tensor_map C_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned A_B_full = px_base + 28672;
  const unsigned A_B_empty = px_base + 28688;
  const unsigned cluster_barrier = px_base + 28704;
  const unsigned A_ring_addr = px_base + 8192;
  const unsigned B_ring_addr = px_base + 16384;
  const unsigned box_addr = px_base + 20480;
  float* const box = reinterpret_cast<float*>(px_smem + 20480);
  float* const C_out = reinterpret_cast<float*>(px_smem);
  const unsigned C_out_addr = px_base;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
    ptx::prefetch_tensormap(&C_map);
  }
  // pipelined.py:72: acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[0:BN, k : k + BK]).T, acc)
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(A_B_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(A_B_empty + 8 * px_i, 1);
    // pipelined.py:78: px.cluster.sync()
    ptx::mbarrier_init_shared_cta(cluster_barrier, 2);
    // pipelined.py:65: def split(A, B, C, *, BM=64, BN=32, BK=32, HOW="reduce"):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // pipelined.py:67: r, box = px.cluster.rank(), px.shared((BM, BN), px.f32)
  const int rank = ptx::cluster_ctarank();
  // pipelined.py:68: for t in px.persistent(px.cdiv(C.shape[0], BM)):
  const int C_size0 = C.shape[0];
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int clusters = (int)gridDim.x * (int)gridDim.y * (int)gridDim.z / 2;
  // pipelined.py:70: for i in px.pipelined(range(px.cdiv(A.shape[1], 2 * BK)), stages=2):
  const int A_size1 = A.shape[1];
  // pipelined.py:68: for t in px.persistent(px.cdiv(C.shape[0], BM)):
  const int t = ptx::wrap_add((C_size0 >> 6), ((int)((C_size0 & 63) != 0)));
  // pipelined.py:65: def split(A, B, C, *, BM=64, BN=32, BK=32, HOW="reduce"):
  __syncthreads();  // barriers are initialised before their first use
  // pipelined.py:70: for i in px.pipelined(range(px.cdiv(A.shape[1], 2 * BK)), stages=2):
  if (px_warp_id == 4) {  // producer: warp 4
    const bool px_one = ptx::elect_sync();
    int fill_stage = 0;
    int fill_parity = 0;
    // pipelined.py:68: for t in px.persistent(px.cdiv(C.shape[0], BM)):
    #pragma unroll 1
    for (int t_1 = cluster; t_1 < t; t_1 += clusters) {
      // pipelined.py:69: m, acc = t * BM, px.zeros((BM, BN), px.f32)
      const int m = ptx::wrap_mul(t_1, 64);
      // pipelined.py:70: for i in px.pipelined(range(px.cdiv(A.shape[1], 2 * BK)), stages=2):
      const int t_2 = ptx::wrap_add((A_size1 >> 6), ((int)((A_size1 & 63) != 0)));
      #pragma unroll 1
      for (int i = 0; i < t_2; ++i) {
        // pipelined.py:71: k = (2 * i + r) * BK
        const int k = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(2, i), rank)), 32);
        // pipelined.py:72: acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[0:BN, k : k + BK]).T, acc)
        ptx::mbarrier_wait_parity(A_B_empty + 8 * fill_stage, fill_parity ^ 1);
        __syncwarp();  // all threads have passed the wait at line 72 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(A_B_full + 8 * fill_stage, 6144);
          // tensor copy: a box of 64 x 32, 64-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global(A_ring_addr + fill_stage * 4096, &A_map, k, m, A_B_full + 8 * fill_stage);
          // tensor copy: a box of 32 x 32, 64-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global(B_ring_addr + fill_stage * 2048, &B_map, k, 0, A_B_full + 8 * fill_stage);
        }
        const int t_3 = ptx::wrap_add(fill_stage, 1);
        const bool wraps = t_3 == 2;
        fill_parity = fill_parity ^ ((int)wraps);
        fill_stage = wraps ? 0 : t_3;
      }
    }
    // pipelined.py:65: def split(A, B, C, *, BM=64, BN=32, BK=32, HOW="reduce"):
    // barriers are initialised before a peer reaches them
    ptx::barrier_cluster_wait_acquire_aligned();
  } else if (px_warp_id < 4) {  // consumer: warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    // barriers are initialised before a peer reaches them
    ptx::barrier_cluster_wait_acquire_aligned();
    // pipelined.py:78: px.cluster.sync()
    int cluster_parity = 0;
    // pipelined.py:70: for i in px.pipelined(range(px.cdiv(A.shape[1], 2 * BK)), stages=2):
    int take_stage = 0;
    int take_parity = 0;
    // pipelined.py:68: for t in px.persistent(px.cdiv(C.shape[0], BM)):
    #pragma unroll 1
    for (int t_1 = cluster; t_1 < t; t_1 += clusters) {
      float acc[16];
      // pipelined.py:69: m, acc = t * BM, px.zeros((BM, BN), px.f32)
      const int m = ptx::wrap_mul(t_1, 64);
      // pipelined.py:70: for i in px.pipelined(range(px.cdiv(A.shape[1], 2 * BK)), stages=2):
      const int t_2 = ptx::wrap_add((A_size1 >> 6), ((int)((A_size1 & 63) != 0)));
      float acc_1[16];
      float acc_2[16];
      int last_stage = 0;
      const bool ran = 0 < t_2;
      if (ran) {
      } else {
        // pipelined.py:69: m, acc = t * BM, px.zeros((BM, BN), px.f32)
        float acc_3[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) acc_3[i] = 0.0f;
        // pipelined.py:70: for i in px.pipelined(range(px.cdiv(A.shape[1], 2 * BK)), stages=2):
        #pragma unroll
        for (int px_r = 0; px_r < 16; ++px_r) acc_2[px_r] = acc_3[px_r];
      }
      #pragma unroll 1
      for (int i_1 = 0; i_1 < t_2; ++i_1) {
        // pipelined.py:71: k = (2 * i + r) * BK
        // pipelined.py:72: acc = px.dot(px.load(A[m : m + BM, k : k + BK]), px.load(B[0:BN, k : k + BK]).T, acc)
        const int take_stage_1 = take_stage;
        ptx::mbarrier_wait_parity(A_B_full + 8 * take_stage_1, take_parity);
        const int t_3 = ptx::wrap_add(take_stage_1, 1);
        const bool wraps = t_3 == 2;
        take_parity = take_parity ^ ((int)wraps);
        take_stage = wraps ? 0 : t_3;
        const bool later = i_1 != 0;
        ptx::wgmma_fence_sync_aligned();
        {
          const unsigned long long px_a = ptx::wgmma_descriptor(A_ring_addr + take_stage_1 * 4096, 0x8000002000010000ull);
          const unsigned long long px_b = ptx::wgmma_descriptor(B_ring_addr + take_stage_1 * 2048, 0x8000002000010000ull);
          ptx::wgmma_m64n32k16_f32_bf16_bf16_x2<2, 2>(acc_2, px_a, px_b, later);
        }
        ptx::wgmma_commit_group_sync_aligned();
        ptx::wgmma_wait_group_1();
        const bool later_1 = i_1 != 0;
        if (later_1) {
          if (px_one) {
            ptx::mbarrier_arrive_shared_cta(A_B_empty + 8 * last_stage);
          }
        }
        last_stage = take_stage_1;
      }
      // pipelined.py:70: for i in px.pipelined(range(px.cdiv(A.shape[1], 2 * BK)), stages=2):
      ptx::wgmma_wait_group_0();
      ptx::keep_float<16>(acc_2);
      if (ran) {
        ptx::bar_sync<1, 128>();  // all threads have passed the wait at line 81 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(A_B_empty + 8 * last_stage);
        }
      }
      // pipelined.py:76: if r == 1:
      if (rank == 1) {
        // pipelined.py:77: px.store(box.at(0), acc)
        {
          const unsigned a = ptx::mapa_shared_cluster(box_addr, 0) + 4 * (((px_lane & 15) * 2) ^ ((px_lane >> 4) * 36) ^ (px_warp_id * 128));
          #pragma unroll
          for (int i = 0; i < 16; i += 2) {
            ptx::store_remote<2>(a + 4 * (((i >> 1) & 1) * 64 + (i >> 2) * 512), acc_2 + i);
          }
        }
      }
      // pipelined.py:78: px.cluster.sync()
      ptx::bar_sync<1, 128>();  // all threads are done with box at line 77 before the elected thread arrives
      if (px_warp_id == 0 && px_lane < 2) ptx::mbarrier_arrive_release_cluster_shared_cluster(ptx::mapa_shared_cluster(cluster_barrier, px_lane));
      ptx::mbarrier_wait_parity_acquire_cluster(cluster_barrier, cluster_parity);
      cluster_parity = cluster_parity ^ 1;
      // pipelined.py:79: if r == 0:
      if (rank == 0) {
        // pipelined.py:80: acc = acc + px.load(box)
        float t_3[16];
        {
          float* const p = box + (((px_lane & 15) * 2) ^ ((px_lane >> 4) * 36) ^ (px_warp_id * 128));
          #pragma unroll
          for (int i = 0; i < 16; i += 2) {
            ptx::load_vector<2>(t_3 + i, p + ((i >> 1) & 1) * 64 + (i >> 2) * 512);
          }
        }
        float acc_3[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) acc_3[i] = acc_2[i] + t_3[i];
        // pipelined.py:79: if r == 0:
        #pragma unroll
        for (int px_r = 0; px_r < 16; ++px_r) acc[px_r] = acc_3[px_r];
      } else {
        #pragma unroll
        for (int px_r = 0; px_r < 16; ++px_r) acc[px_r] = acc_2[px_r];
      }
      // pipelined.py:81: px.cluster.sync()
      ptx::bar_sync<1, 128>();  // all threads have passed the wait at line 78 before the elected thread goes on
      if (px_warp_id == 0 && px_lane < 2) ptx::mbarrier_arrive_release_cluster_shared_cluster(ptx::mapa_shared_cluster(cluster_barrier, px_lane));
      ptx::mbarrier_wait_parity_acquire_cluster(cluster_barrier, cluster_parity);
      cluster_parity = cluster_parity ^ 1;
      // pipelined.py:82: if r == 0:
      if (rank == 0) {
        // pipelined.py:83: px.store(C[m : m + BM, 0:BN], acc)
        if (px_one) {
          ptx::cp_async_bulk_wait_group_read_0();
        }
        ptx::bar_sync<1, 128>();  // the elected thread is done with C_out at line 83 before C_out is written
        {
          const int o = ((px_lane & 3) * 2) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 144) ^ (px_warp_id * 512);
          #pragma unroll
          for (int i = 0; i < 16; i += 2) {
            ptx::store_vector<2>(C_out + (o ^ ((i >> 2) * 8)) + ((i >> 1) & 1) * 256, acc + i);
          }
        }
        ptx::fence_proxy_async_shared_cta();
        ptx::bar_sync<1, 128>();  // C_out was written at line 83 before C_out is read by a copy
        if (px_one) {
          // tensor copy: a box of 64 x 32, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, 0, m, C_out_addr);
          ptx::cp_async_bulk_commit_group();
        }
      }
    }
    // pipelined.py:68: for t in px.persistent(px.cdiv(C.shape[0], BM)):
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
  }
  // pipelined.py:65: def split(A, B, C, *, BM=64, BN=32, BK=32, HOW="reduce"):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
