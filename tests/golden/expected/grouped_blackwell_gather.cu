// grouped_blackwell(config=BlackwellConfig(bn=128, bk=64, cluster=(2, 1)), BM=128, GATHER=True, SCATTER=False, BIASED=False, ACTIVATION=None) for sm_100a, from grouped_blackwell.py
// 192 threads, 215328 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

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
//   tcgen05_alloc_cta_group_2_256
//   tcgen05_relinquish_alloc_permit_cta_group_2_sync_aligned
//   mbarrier_init_shared_cta
//   cluster_ctarank
//   fence_mbarrier_init_release_cluster
//   barrier_cluster_arrive_relaxed_aligned
//   shift_right
//   barrier_cluster_wait_acquire_aligned
//   griddepcontrol_wait
//   griddepcontrol_launch_dependents
//   wrap_add
//   inside
//   wrap_mul
//   floor_div
//   floor_mod
//   bits
//   unpack
//   load_vector
//   fill_vector
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   mapa_shared_cluster
//   cp_async_bulk_tensor_2d_gather4_pair
//   cp_async_bulk_tensor_3d_shared_global_pair
//   elect_sync
//   shift_left
//   tcgen05_fence_after_thread_sync
//   tcgen05_mma_cta_group_2_f16
//   tcgen05_descriptor
//   tcgen05_commit_cta_group_2_multicast
//   tcgen05_ld_32x32b_x64_float
//   tcgen05_wait_ld_sync_aligned
//   keep_float
//   bf16_pair_from_float
//   tcgen05_fence_before_thread_sync
//   bar_sync
//   store_vector
//   store_vector_if
//   mbarrier_arrive_shared_cluster
//   barrier_cluster_arrive_release_aligned
//   tcgen05_dealloc_cta_group_2_256
//   shared_address

extern "C" __global__ void __launch_bounds__(192, 1) grouped_blackwell_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<int, 1> I,
    const __grid_constant__ px_array<px_bf16, 3> W,
    const __grid_constant__ px_array<px_bf16, 2> Y,
    const __grid_constant__ px_array<int, 2> TABLE,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map W_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned tmem_address_addr = px_base + 196608;
  const unsigned A_W_full = px_base + 215168;
  const unsigned A_W_empty = px_base + 215232;
  const unsigned acc_full = px_base + 215296;
  const unsigned acc_empty = px_base + 215312;
  unsigned* const tmem_address = reinterpret_cast<unsigned*>(px_smem + 196608);
  const unsigned A_ring_addr = px_base;
  const unsigned W_ring_addr = px_base + 131072;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&W_map);
  }
  // grouped_blackwell.py: acc = px.dot(a, px.load(W[group, n : n + BN, k : k + BK]).T, acc)
  if (px_warp_id == 0) {
    // acc_tmem: accumulator, columns 0 to 255
    ptx::tcgen05_alloc_cta_group_2_256(tmem_address_addr);
    ptx::tcgen05_relinquish_alloc_permit_cta_group_2_sync_aligned();
  }
  // grouped_blackwell.py: a = px.load(A[rows, k : k + BK]) if GATHER else px.load(A[m : m + BM, k : k + BK])
  if (px_one) {
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(A_W_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(A_W_empty + 8 * px_i, 1);
    // grouped_blackwell.py: for k in px.pipelined(range(0, A.shape[1], BK)):
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(acc_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(acc_empty + 8 * px_i, (0x2 >> ptx::cluster_ctarank() & 1 ? 1 : 2));
    // grouped_blackwell.py: def grouped_blackwell(
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // grouped_blackwell.py: acc = px.dot(a, px.load(W[group, n : n + BN, k : k + BK]).T, acc)
  const int rank = ptx::cluster_ctarank();
  const int release_ctas = (((ptx::shift_right<int>(2, rank)) & 1) != 0) ? 2 : 3;
  // grouped_blackwell.py: columns = px.cdiv(W.shape[1], config.cluster[1] * BN)
  const int W_size1 = W.shape[1];
  // grouped_blackwell.py: for tile in px.persistent(px.load(TABLE[3, 0]) * columns):
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int clusters = (int)gridDim.x * (int)gridDim.y * (int)gridDim.z / 2;
  // grouped_blackwell.py: m = px.load(TABLE[1, t]) + px.cluster.rank(0) * BM
  const int rank_x = (int)((unsigned)ptx::cluster_ctarank());
  // grouped_blackwell.py: for k in px.pipelined(range(0, A.shape[1], BK)):
  const int A_size1 = A.shape[1];
  // grouped_blackwell.py: def grouped_blackwell(
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // grouped_blackwell.py: acc = px.dot(a, px.load(W[group, n : n + BN, k : k + BK]).T, acc)
  __syncthreads();  // the elected thread is done with tmem_address at line 48 before tmem_address is read
  const unsigned px_tmem = *(volatile unsigned*)tmem_address;
  // launches.py: px.wait_prior()  (called at grouped_blackwell.py)
  ptx::griddepcontrol_wait();
  // launches.py: px.launch_dependents()  (called at grouped_blackwell.py)
  ptx::griddepcontrol_launch_dependents();
  // grouped_blackwell.py: columns = px.cdiv(W.shape[1], config.cluster[1] * BN)
  const int columns = ptx::wrap_add((W_size1 >> 7), ((int)((W_size1 & 127) != 0)));
  // grouped_blackwell.py: for k in px.pipelined(range(0, A.shape[1], BK)):
  __syncthreads();  // all threads are done with tmem_address at line 48 before the elected thread arrives
  if (px_warp_id == 4) {  // producer: warp 4
    const int px_warp = px_warp_id - 4;
    const bool px_one = ptx::elect_sync();
    const int rank_1 = ptx::cluster_ctarank();
    const int start = (rank_1 == 1) ? 64 : 0;
    int fill_stage = 0;
    int fill_parity = 0;
    // grouped_blackwell.py: for tile in px.persistent(px.load(TABLE[3, 0]) * columns):
    const int t = ptx::inside(3, TABLE.shape[0]) && ptx::inside(0, TABLE.shape[1]) ? *(TABLE.data + 3 * TABLE.stride[0]) : 0;
    #pragma unroll 1
    for (int tile = cluster; tile < ptx::wrap_mul(t, columns); tile += clusters) {
      // grouped_blackwell.py: t = tile // columns
      const int t_1 = ptx::floor_div<int>(tile, columns);
      // grouped_blackwell.py: group = px.load(TABLE[0, t])
      const int group = ptx::inside(0, TABLE.shape[0]) && ptx::inside(t_1, TABLE.shape[1]) ? *(TABLE.data + t_1) : 0;
      // grouped_blackwell.py: m = px.load(TABLE[1, t]) + px.cluster.rank(0) * BM
      const int t_2 = ptx::inside(1, TABLE.shape[0]) && ptx::inside(t_1, TABLE.shape[1]) ? *(TABLE.data + TABLE.stride[0] + t_1) : 0;
      const int m = ptx::wrap_add(t_2, ptx::wrap_mul(rank_x, 128));
      // grouped_blackwell.py: n = (tile % columns * config.cluster[1] + px.cluster.rank(1)) * BN
      const int n = ptx::wrap_mul((ptx::floor_mod<int>(tile, columns)), 128);
      // grouped_blackwell.py: rows = px.load(I[m : m + BM], fill=-1) if GATHER else m
      int rows[4];
      {
        const unsigned x0 = (unsigned)m + px_lane * 4;
        int* const p = I.data + ((int)x0);
        if (m % 4 == 0) {
          if (ptx::inside(x0, I.shape[0])) ptx::load_vector<4>(rows, p);
          else ptx::fill_vector<4>(rows, (-1));
        } else {
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            rows[i] = ptx::inside(x0 + i, I.shape[0]) ? *(p + i) : (-1);
          }
        }
      }
      // grouped_blackwell.py: for k in px.pipelined(range(0, A.shape[1], BK)):
      #pragma unroll 1
      for (int k = 0; k < A_size1; k += 64) {
        // grouped_blackwell.py: a = px.load(A[rows, k : k + BK]) if GATHER else px.load(A[m : m + BM, k : k + BK])
        ptx::mbarrier_wait_parity(A_W_empty + 8 * fill_stage, fill_parity ^ 1);
        const int rank_2 = ptx::cluster_ctarank();
        const int nbytes = (rank_2 == 1) ? 0 : 49152;
        const int rank_3 = ptx::cluster_ctarank();
        if (rank_3 == 0) {
          __syncwarp();  // all threads have passed the wait at line 47 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(A_W_full + 8 * fill_stage, nbytes);
          }
        }
        __syncwarp();  // all threads have passed the wait at line 47 before the elected thread goes on
        {
          __syncwarp();  // all that the elected lane did is done
          // four rows: gather4 of a box of 1 x 64, 128-byte swizzle
          {
            ptx::cp_async_bulk_tensor_2d_gather4_pair(A_ring_addr + fill_stage * 16384 + (px_lane * 4) * 128, &A_map, k, rows[0], rows[1], rows[2], rows[3], ptx::mapa_shared_cluster(A_W_full + 8 * fill_stage, ptx::cluster_ctarank() & ~1));
          }
        }
        // grouped_blackwell.py: acc = px.dot(a, px.load(W[group, n : n + BN, k : k + BK]).T, acc)
        if (px_one) {
          // tensor copy: a box of 1 x 64 x 64, 128-byte swizzle
          ptx::cp_async_bulk_tensor_3d_shared_global_pair(W_ring_addr + fill_stage * 8192, &W_map, k, ptx::wrap_add(n, start), group, ptx::mapa_shared_cluster(A_W_full + 8 * fill_stage, ptx::cluster_ctarank() & ~1));
        }
        // grouped_blackwell.py: a = px.load(A[rows, k : k + BK]) if GATHER else px.load(A[m : m + BM, k : k + BK])
        const int t_3 = ptx::wrap_add(fill_stage, 1);
        const bool wraps = t_3 == 8;
        fill_parity = fill_parity ^ ((int)wraps);
        fill_stage = wraps ? 0 : t_3;
      }
    }
  } else if (px_warp_id == 5) {  // multiplier: warp 5
    const bool px_one = ptx::elect_sync();
    // grouped_blackwell.py: for k in px.pipelined(range(0, A.shape[1], BK)):
    const int rank_1 = ptx::cluster_ctarank();
    const bool even = (rank_1 & 1) == 0;
    if (even) {
      const int t = rank_1 ^ 1;
      const int t_1 = ptx::shift_left<int>(3, rank_1);
      int take_stage = 0;
      int take_parity = 0;
      int sum_fill_stage = 0;
      int sum_fill_parity = 0;
      // grouped_blackwell.py: for tile in px.persistent(px.load(TABLE[3, 0]) * columns):
      const int t_2 = ptx::inside(3, TABLE.shape[0]) && ptx::inside(0, TABLE.shape[1]) ? *(TABLE.data + 3 * TABLE.stride[0]) : 0;
      #pragma unroll 1
      for (int tile = cluster; tile < ptx::wrap_mul(t_2, columns); tile += clusters) {
        // grouped_blackwell.py: for k in px.pipelined(range(0, A.shape[1], BK)):
        const bool ran = 0 < A_size1;
        if (ran) {
          ptx::mbarrier_wait_parity(acc_empty + 8 * sum_fill_stage, sum_fill_parity ^ 1);
          #pragma unroll 1
          for (int k = 0; k < A_size1; k += 64) {
            // grouped_blackwell.py: a = px.load(A[rows, k : k + BK]) if GATHER else px.load(A[m : m + BM, k : k + BK])
            const int take_stage_1 = take_stage;
            ptx::mbarrier_wait_parity(A_W_full + 8 * take_stage_1, take_parity);
            const int t_3 = ptx::wrap_add(take_stage_1, 1);
            const bool wraps = t_3 == 8;
            take_parity = take_parity ^ ((int)wraps);
            take_stage = wraps ? 0 : t_3;
            // grouped_blackwell.py: acc = px.dot(a, px.load(W[group, n : n + BN, k : k + BK]).T, acc)
            const bool later = k != 0;
            ptx::tcgen05_fence_after_thread_sync();
            if (px_one) {
              {
                const unsigned long long px_a = ptx::tcgen05_descriptor(A_ring_addr + take_stage_1 * 16384, 0x4000404000010000ull);
                const unsigned long long px_b = ptx::tcgen05_descriptor(W_ring_addr + take_stage_1 * 8192, 0x4000404000010000ull);
                const unsigned px_d = px_tmem + sum_fill_stage * 128;
                ptx::tcgen05_mma_cta_group_2_f16(px_d, px_a, px_b, 0x10200490u, later);
                ptx::tcgen05_mma_cta_group_2_f16(px_d, px_a + 2, px_b + 2, 0x10200490u, true);
                ptx::tcgen05_mma_cta_group_2_f16(px_d, px_a + 4, px_b + 4, 0x10200490u, true);
                ptx::tcgen05_mma_cta_group_2_f16(px_d, px_a + 6, px_b + 6, 0x10200490u, true);
              }
            }
            __syncwarp();  // all threads have passed the wait at line 46 before the elected thread goes on
            if (px_one) {
              ptx::tcgen05_commit_cta_group_2_multicast(A_W_empty + 8 * take_stage_1, (unsigned short)release_ctas);
            }
          }
          // grouped_blackwell.py: for k in px.pipelined(range(0, A.shape[1], BK)):
          __syncwarp();  // all threads have passed the wait at line 46 before the elected thread goes on
          if (px_one) {
            ptx::tcgen05_commit_cta_group_2_multicast(acc_full + 8 * sum_fill_stage, (unsigned short)t_1);
          }
          const int t_3 = ptx::wrap_add(sum_fill_stage, 1);
          const bool wraps = t_3 == 2;
          sum_fill_parity = sum_fill_parity ^ ((int)wraps);
          sum_fill_stage = wraps ? 0 : t_3;
        }
      }
    }
  } else if (px_warp_id < 4) {  // consumer: warps 0 to 3
    int sum_take_stage = 0;
    int sum_take_parity = 0;
    const int rank_1 = ptx::cluster_ctarank();
    const int t = ptx::shift_left<int>(1, (rank_1 & (-2)));
    // grouped_blackwell.py: for tile in px.persistent(px.load(TABLE[3, 0]) * columns):
    const int t_1 = ptx::inside(3, TABLE.shape[0]) && ptx::inside(0, TABLE.shape[1]) ? *(TABLE.data + 3 * TABLE.stride[0]) : 0;
    #pragma unroll 1
    for (int tile = cluster; tile < ptx::wrap_mul(t_1, columns); tile += clusters) {
      float acc[64];
      float acc_1[64];
      // grouped_blackwell.py: t = tile // columns
      const int t_2 = ptx::floor_div<int>(tile, columns);
      // grouped_blackwell.py: group = px.load(TABLE[0, t])
      const int group = ptx::inside(0, TABLE.shape[0]) && ptx::inside(t_2, TABLE.shape[1]) ? *(TABLE.data + t_2) : 0;
      // grouped_blackwell.py: m = px.load(TABLE[1, t]) + px.cluster.rank(0) * BM
      const int t_3 = ptx::inside(1, TABLE.shape[0]) && ptx::inside(t_2, TABLE.shape[1]) ? *(TABLE.data + TABLE.stride[0] + t_2) : 0;
      const int m = ptx::wrap_add(t_3, ptx::wrap_mul(rank_x, 128));
      // grouped_blackwell.py: n = (tile % columns * config.cluster[1] + px.cluster.rank(1)) * BN
      const int n = ptx::wrap_mul((ptx::floor_mod<int>(tile, columns)), 128);
      // grouped_blackwell.py: rows = px.load(I[m : m + BM], fill=-1) if GATHER else m
      int rows[1];
      {
        const unsigned x0 = (unsigned)m + px_lane + px_warp_id * 32;
        int* const p = I.data + ((int)x0);
        rows[0] = ptx::inside(x0, I.shape[0]) ? *(p) : (-1);
      }
      // grouped_blackwell.py: mine = place < px.load(TABLE[2, t])  # the next group's rows are not this tile's to write
      const int t_4 = ptx::inside(2, TABLE.shape[0]) && ptx::inside(t_2, TABLE.shape[1]) ? *(TABLE.data + 2 * TABLE.stride[0] + t_2) : 0;
      // grouped_blackwell.py: for k in px.pipelined(range(0, A.shape[1], BK)):
      const bool ran = 0 < A_size1;
      const int sum_take_stage_1 = sum_take_stage;
      if (ran) {
        ptx::mbarrier_wait_parity(acc_full + 8 * sum_take_stage_1, sum_take_parity);
      }
      if (ran) {
        ptx::tcgen05_fence_after_thread_sync();
        float acc_2[64];
        // 32x32b: 1 of each warp
        {
          const unsigned px_at = px_tmem + sum_take_stage_1 * 128 + (px_warp_id << 21);
          ptx::tcgen05_ld_32x32b_x64_float(acc_2, px_at);
        }
        ptx::tcgen05_wait_ld_sync_aligned();
        ptx::keep_float<64>(acc_2);
        #pragma unroll
        for (int px_r = 0; px_r < 64; ++px_r) acc[px_r] = acc_2[px_r];
      } else {
        // grouped_blackwell.py: acc = px.zeros((BM, BN), px.f32)
        float acc_2[64];
        #pragma unroll
        for (int i = 0; i < 64; ++i) acc_2[i] = 0.0f;
        // grouped_blackwell.py: for k in px.pipelined(range(0, A.shape[1], BK)):
        #pragma unroll
        for (int px_r = 0; px_r < 64; ++px_r) acc[px_r] = acc_2[px_r];
      }
      // grouped_blackwell.py: px.store(Y[px.where(mine, place, -1), n : n + BN], result.to(Y.dtype))
      px_bf16 acc_2[64];
      #pragma unroll
      for (int i = 0; i < 64; i += 2) ptx::bf16_pair_from_float(acc_2 + i, acc[i], acc[i + 1]);
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // Y was written at line 61 before Y is written
      px_bf16 acc_3[64];
      {
        px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 196736));
        ptx::bar_sync<1, 128>();  // scratch memory is free
        {
          auto* const p = scratch + (px_lane + px_warp_id * 32) * 72;
          #pragma unroll
          for (int i = 0; i < 64; i += 8) {
            ptx::store_vector<8>(p + (i >> 3) * 8, acc_2 + (i >> 3) * 8);
          }
        }
        ptx::bar_sync<1, 128>();
        {
          auto* const p = scratch + ((px_lane >> 3) + px_warp_id * 4) * 72 + (px_lane & 7) * 8;
          #pragma unroll
          for (int i = 0; i < 64; i += 8) {
            ptx::load_vector<8>(acc_3 + (i >> 3) * 8, p + ((i >> 3) & 1) * 1152 + ((i >> 4) & 1) * 2304 + (i >> 5) * 4608);
          }
        }
      }
      // grouped_blackwell.py: place = m + px.arange(BM)
      int t_5[8];
      {
        const int c0 = (px_lane >> 3) + px_warp_id * 4;
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
          t_5[i] = c0 + i * 16;
        }
      }
      int place[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) place[i] = ptx::wrap_add(m, t_5[i]);
      // grouped_blackwell.py: mine = place < px.load(TABLE[2, t])  # the next group's rows are not this tile's to write
      bool mine[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) mine[i] = place[i] < t_4;
      // grouped_blackwell.py: px.store(Y[px.where(mine, place, -1), n : n + BN], result.to(Y.dtype))
      int t_6[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_6[i] = mine[i] ? place[i] : (-1);
      {
        const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
        px_bf16* const p = Y.data + ((int)x1);
        #pragma unroll
        for (int i = 0; i < 64; i += 8) {
          ptx::store_vector_if<8>(p + t_6[i >> 3] * Y.stride[0], acc_3 + i, ptx::inside(t_6[i >> 3], Y.shape[0]) & ptx::inside(x1, Y.shape[1]));
        }
      }
      // grouped_blackwell.py: for k in px.pipelined(range(0, A.shape[1], BK)):
      if (ran) {
        ptx::tcgen05_fence_after_thread_sync();
        float acc_4[64];
        // 32x32b: 1 of each warp
        {
          const unsigned px_at = px_tmem + sum_take_stage_1 * 128 + 64 + (px_warp_id << 21);
          ptx::tcgen05_ld_32x32b_x64_float(acc_4, px_at);
        }
        ptx::tcgen05_wait_ld_sync_aligned();
        ptx::keep_float<64>(acc_4);
        #pragma unroll
        for (int px_r = 0; px_r < 64; ++px_r) acc_1[px_r] = acc_4[px_r];
        ptx::tcgen05_fence_before_thread_sync();
        ptx::bar_sync<1, 128>();  // all threads are done with acc_tmem at line 46 before the elected thread arrives
        if (px_warp_id == 0 && ((unsigned)t >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(acc_empty + 8 * sum_take_stage_1, px_lane));
      } else {
        // grouped_blackwell.py: acc = px.zeros((BM, BN), px.f32)
        float acc_4[64];
        #pragma unroll
        for (int i = 0; i < 64; ++i) acc_4[i] = 0.0f;
        // grouped_blackwell.py: for k in px.pipelined(range(0, A.shape[1], BK)):
        #pragma unroll
        for (int px_r = 0; px_r < 64; ++px_r) acc_1[px_r] = acc_4[px_r];
      }
      // grouped_blackwell.py: px.store(Y[px.where(mine, place, -1), n : n + BN], result.to(Y.dtype))
      px_bf16 acc_4[64];
      #pragma unroll
      for (int i = 0; i < 64; i += 2) ptx::bf16_pair_from_float(acc_4 + i, acc_1[i], acc_1[i + 1]);
      // grouped_blackwell.py: for k in px.pipelined(range(0, A.shape[1], BK)):
      // grouped_blackwell.py: px.store(Y[px.where(mine, place, -1), n : n + BN], result.to(Y.dtype))
      px_bf16 acc_5[64];
      {
        px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 196736));
        ptx::bar_sync<1, 128>();  // scratch memory is free
        {
          auto* const p = scratch + (px_lane + px_warp_id * 32) * 72;
          #pragma unroll
          for (int i = 0; i < 64; i += 8) {
            ptx::store_vector<8>(p + (i >> 3) * 8, acc_4 + (i >> 3) * 8);
          }
        }
        ptx::bar_sync<1, 128>();
        {
          auto* const p = scratch + ((px_lane >> 3) + px_warp_id * 4) * 72 + (px_lane & 7) * 8;
          #pragma unroll
          for (int i = 0; i < 64; i += 8) {
            ptx::load_vector<8>(acc_5 + (i >> 3) * 8, p + ((i >> 3) & 1) * 1152 + ((i >> 4) & 1) * 2304 + (i >> 5) * 4608);
          }
        }
      }
      {
        const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
        px_bf16* const p = (Y.data + ((int)x1)) + (64);
        #pragma unroll
        for (int i = 0; i < 64; i += 8) {
          ptx::store_vector_if<8>(p + t_6[i >> 3] * Y.stride[0], acc_5 + i, ptx::inside(t_6[i >> 3], Y.shape[0]) & ptx::inside(x1 + 64, Y.shape[1]));
        }
      }
      // grouped_blackwell.py: for k in px.pipelined(range(0, A.shape[1], BK)):
      if (ran) {
        const int t_7 = ptx::wrap_add(sum_take_stage_1, 1);
        const bool wraps = t_7 == 2;
        sum_take_parity = sum_take_parity ^ ((int)wraps);
        sum_take_stage = wraps ? 0 : t_7;
      }
    }
    ptx::tcgen05_fence_before_thread_sync();
  }
  // grouped_blackwell.py: def grouped_blackwell(
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // grouped_blackwell.py: acc = px.dot(a, px.load(W[group, n : n + BN, k : k + BK]).T, acc)
  ptx::tcgen05_fence_after_thread_sync();
  if (px_warp_id == 0) {
    ptx::tcgen05_dealloc_cta_group_2_256(px_tmem);
  }
}
