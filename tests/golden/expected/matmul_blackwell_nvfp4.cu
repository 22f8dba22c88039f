// matmul_blackwell(form=ProductForm(a_by_k=True, b_by_k=True, tma_store=True, bias_kind=None, scale_rows=False, scale_columns=False, activation='relu'), BM=128, BLOCK=16, config=BlackwellConfig(bn=128, bk=256, cluster=(2, 1))) for sm_100a, from matmul_blackwell.py
// 192 threads, 217248 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

typedef unsigned short px_bf16;
typedef unsigned char px_f8e4m3;
template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

struct alignas(128) px_tensor_map { unsigned long long opaque[16]; };

// device functions, as in helpers.cuh:
//   prefetch_tensormap
//   tcgen05_alloc_cta_group_2_512
//   tcgen05_relinquish_alloc_permit_cta_group_2_sync_aligned
//   mbarrier_init_shared_cta
//   cluster_ctarank
//   fence_mbarrier_init_release_cluster
//   barrier_cluster_arrive_relaxed_aligned
//   shift_right
//   wrap_mul
//   barrier_cluster_wait_acquire_aligned
//   griddepcontrol_wait
//   griddepcontrol_launch_dependents
//   wrap_add
//   floor_div
//   minimum
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global_pair
//   mapa_shared_cluster
//   cp_async_bulk_tensor_4d_shared_global_pair
//   elect_sync
//   shift_left
//   tcgen05_fence_after_thread_sync
//   tcgen05_descriptor
//   tcgen05_cp_cta_group_2_32x128b_warpx4
//   tcgen05_mma_cta_group_2_mxf4nvf4_block16
//   tcgen05_commit_cta_group_2_multicast
//   tcgen05_ld_16x256b_x8_float
//   tcgen05_wait_ld_sync_aligned
//   keep_float
//   max_NaN_f32
//   bf16_pair_from_float
//   cp_async_bulk_wait_group_read_0
//   tcgen05_fence_before_thread_sync
//   bar_sync
//   bits
//   pack_words
//   stmatrix_x4
//   fence_proxy_async_shared_cta
//   cp_async_bulk_tensor_2d_global_shared
//   cp_async_bulk_commit_group
//   mbarrier_arrive_shared_cluster
//   cp_async_bulk_wait_group_0
//   barrier_cluster_arrive_release_aligned
//   tcgen05_dealloc_cta_group_2_512
//   shared_address

extern "C" __global__ void __launch_bounds__(192, 1) matmul_blackwell_kernel(
    const __grid_constant__ px_array<unsigned char, 2> A,
    const __grid_constant__ px_array<unsigned char, 2> B,
    const __grid_constant__ px_array<px_bf16, 2> C,
    const float alpha,
    const __grid_constant__ px_array<px_f8e4m3, 4> SCALES_A,
    const __grid_constant__ px_array<px_f8e4m3, 4> SCALES_B,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map,
    const __grid_constant__ px_tensor_map SCALES_A_map,
    const __grid_constant__ px_tensor_map SCALES_B_map,
    const __grid_constant__ px_tensor_map C_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned tmem_address_addr = px_base + 217088;
  const unsigned A_B_SCALES_A_SCALES_B_full = px_base + 217096;
  const unsigned A_B_SCALES_A_SCALES_B_empty = px_base + 217152;
  const unsigned acc_full = px_base + 217208;
  const unsigned acc_empty = px_base + 217224;
  unsigned* const tmem_address = reinterpret_cast<unsigned*>(px_smem + 217088);
  const unsigned A_ring_addr = px_base;
  const unsigned B_ring_addr = px_base + 114688;
  const unsigned SCALES_A_ring_addr = px_base + 188416;
  const unsigned SCALES_B_ring_addr = px_base + 202752;
  const unsigned C_out_addr = px_base + 172032;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
    ptx::prefetch_tensormap(&SCALES_A_map);
    ptx::prefetch_tensormap(&SCALES_B_map);
    ptx::prefetch_tensormap(&C_map);
  }
  // matmul_blackwell.py: acc = px.dot(a, b.T, acc, scale_a=by_a, scale_b=by_b)
  if (px_warp_id == 0) {
    // acc_tmem: accumulator, columns 0 to 255
    // SCALES_A_tmem: scale, columns 256 to 367
    // SCALES_B_tmem: scale, columns 368 to 479
    ptx::tcgen05_alloc_cta_group_2_512(tmem_address_addr);
    ptx::tcgen05_relinquish_alloc_permit_cta_group_2_sync_aligned();
  }
  // matmul_blackwell.py: return px.load(block(X, which, i, k, HEIGHT, DEPTH)) if BY_K else px.load(block(X, which, k, i, DEPTH, HEIGHT)).T  (called at matmul_blackwell.py)
  if (px_one) {
    for (int px_i = 0; px_i < 7; ++px_i) ptx::mbarrier_init_shared_cta(A_B_SCALES_A_SCALES_B_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 7; ++px_i) ptx::mbarrier_init_shared_cta(A_B_SCALES_A_SCALES_B_empty + 8 * px_i, 1);
    // matmul_blackwell.py: for step in px.pipelined(range(steps)):
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(acc_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(acc_empty + 8 * px_i, (0x2 >> ptx::cluster_ctarank() & 1 ? 1 : 2));
    // matmul_blackwell.py: def matmul_blackwell(
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // matmul_blackwell.py: acc = px.dot(a, b.T, acc, scale_a=by_a, scale_b=by_b)
  const int rank = ptx::cluster_ctarank();
  const int release_ctas = (((ptx::shift_right<int>(2, rank)) & 1) != 0) ? 2 : 3;
  // matmul_blackwell.py: BATCH = len(C.shape) == 3
  const int C_size0 = C.shape[0];
  const int C_size1 = C.shape[1];
  // matmul_blackwell.py: steps = px.cdiv(A.shape[len(A.shape) - (1 if form.a_by_k else 2)], BK)
  const int A_size1 = A.shape[1];
  const int A_size1_1 = ptx::wrap_mul(A_size1, 2);
  // matmul_blackwell.py: for tile in px.persistent(rows * columns * (C.shape[0] if BATCH else 1)):
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int clusters = (int)gridDim.x * (int)gridDim.y * (int)gridDim.z / 2;
  // matmul_blackwell.py: m = (i * CM + px.cluster.rank(0)) * BM
  const int rank_x = (int)((unsigned)ptx::cluster_ctarank());
  // matmul_blackwell.py: def matmul_blackwell(
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // matmul_blackwell.py: acc = px.dot(a, b.T, acc, scale_a=by_a, scale_b=by_b)
  __syncthreads();  // the elected thread is done with tmem_address at line 76 before tmem_address is read
  const unsigned px_tmem = *(volatile unsigned*)tmem_address;
  // launches.py: px.wait_prior()  (called at matmul_blackwell.py)
  ptx::griddepcontrol_wait();
  // launches.py: px.launch_dependents()  (called at matmul_blackwell.py)
  ptx::griddepcontrol_launch_dependents();
  // matmul_blackwell.py: rows = px.cdiv(C.shape[axis], CM * BM)
  const int rows = ptx::wrap_add((C_size0 >> 8), ((int)((C_size0 & 255) != 0)));
  // matmul_blackwell.py: columns = px.cdiv(C.shape[axis + 1], CN * BN)
  const int columns = ptx::wrap_add((C_size1 >> 7), ((int)((C_size1 & 127) != 0)));
  // matmul_blackwell.py: steps = px.cdiv(A.shape[len(A.shape) - (1 if form.a_by_k else 2)], BK)
  const int steps = ptx::wrap_add((A_size1_1 >> 8), ((int)((A_size1_1 & 255) != 0)));
  // matmul_blackwell.py: for tile in px.persistent(rows * columns * (C.shape[0] if BATCH else 1)):
  const int t = ptx::wrap_mul(rows, columns);
  // matmul_blackwell.py: for step in px.pipelined(range(steps)):
  __syncthreads();  // all threads are done with tmem_address at line 76 before the elected thread arrives
  if (px_warp_id == 4) {  // producer: warp 4
    const bool px_one = ptx::elect_sync();
    const int rank_1 = ptx::cluster_ctarank();
    const int start = (rank_1 == 1) ? 64 : 0;
    int fill_stage = 0;
    int fill_parity = 0;
    // matmul_blackwell.py: for tile in px.persistent(rows * columns * (C.shape[0] if BATCH else 1)):
    #pragma unroll 1
    for (int tile = cluster; tile < t; tile += clusters) {
      unsigned band;
      // orders.py: tile = px.u32(t)  (called at matmul_blackwell.py)
      const unsigned tile_1 = (unsigned)tile;
      // orders.py: tiles = px.u32(group * columns)  # unsigned: a division costs half of a signed one that rounds down  (called at matmul_blackwell.py)
      const unsigned tiles = (unsigned)ptx::wrap_mul(8, columns);
      // orders.py: if tile >= tiles:  # of few tiles none: one division less before the first copy  (called at matmul_blackwell.py)
      if (tile_1 >= tiles) {
        // orders.py: band = tile // tiles  (called at matmul_blackwell.py)
        // orders.py: if tile >= tiles:  # of few tiles none: one division less before the first copy  (called at matmul_blackwell.py)
        band = ptx::floor_div<unsigned>(tile_1, tiles);
      } else {
        band = 0u;
      }
      // orders.py: rest = tile - band * tiles  (called at matmul_blackwell.py)
      const unsigned rest = tile_1 - (band * tiles);
      // orders.py: height = min(px.u32(group), px.u32(rows) - band * group)  (called at matmul_blackwell.py)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(8u, (rows_1 - (band * 8u)));
      // orders.py: column = rest // height  (called at matmul_blackwell.py)
      const unsigned column = ptx::floor_div<unsigned>(rest, height);
      // orders.py: return px.i32(band * group + rest - column * height), px.i32(column)  (called at matmul_blackwell.py)
      const int i = (int)(((band * 8u) + rest) - (column * height));
      const int column_1 = (int)column;
      // matmul_blackwell.py: m = (i * CM + px.cluster.rank(0)) * BM
      const int m = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(i, 2), rank_x)), 128);
      // matmul_blackwell.py: n = (j * CN + px.cluster.rank(1)) * BN
      const int n = ptx::wrap_mul(column_1, 128);
      // matmul_blackwell.py: for step in px.pipelined(range(steps)):
      #pragma unroll 1
      for (int step = 0; step < steps; ++step) {
        // matmul_blackwell.py: a = operand(A, z, m, step * BK, BM, BK, form.a_by_k)
        // matmul_blackwell.py: b = operand(B, z, n, step * BK, BN, BK, form.b_by_k)
        // matmul_blackwell.py: blocks = px.load(X[i // 128 : i // 128 + high, step * wide : step * wide + wide, 0:32, 0:16])  (called at matmul_blackwell.py)
        // matmul_blackwell.py: return px.load(block(X, which, i, k, HEIGHT, DEPTH)) if BY_K else px.load(block(X, which, k, i, DEPTH, HEIGHT)).T  (called at matmul_blackwell.py)
        ptx::mbarrier_wait_parity(A_B_SCALES_A_SCALES_B_empty + 8 * fill_stage, fill_parity ^ 1);
        const int rank_2 = ptx::cluster_ctarank();
        const int nbytes = (rank_2 == 1) ? 0 : 57344;
        const int rank_3 = ptx::cluster_ctarank();
        if (rank_3 == 0) {
          __syncwarp();  // all threads have passed the wait at line 28 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(A_B_SCALES_A_SCALES_B_full + 8 * fill_stage, nbytes);
          }
        }
        __syncwarp();  // all threads have passed the wait at line 28 before the elected thread goes on
        if (px_one) {
          // tensor copy: a box of 128 x 128, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global_pair(A_ring_addr + fill_stage * 16384, &A_map, ptx::wrap_mul(step, 256) >> 1, m, ptx::mapa_shared_cluster(A_B_SCALES_A_SCALES_B_full + 8 * fill_stage, ptx::cluster_ctarank() & ~1));
          // tensor copy: a box of 64 x 128, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global_pair(B_ring_addr + fill_stage * 8192, &B_map, ptx::wrap_mul(step, 256) >> 1, ptx::wrap_add(n, start), ptx::mapa_shared_cluster(A_B_SCALES_A_SCALES_B_full + 8 * fill_stage, ptx::cluster_ctarank() & ~1));
          // matmul_blackwell.py: blocks = px.load(X[i // 128 : i // 128 + high, step * wide : step * wide + wide, 0:32, 0:16])  (called at matmul_blackwell.py)
          // tensor copy: a box of 1 x 4 x 32 x 16
          ptx::cp_async_bulk_tensor_4d_shared_global_pair(SCALES_A_ring_addr + fill_stage * 2048, &SCALES_A_map, 0, 0, ptx::wrap_mul(step, 4), m >> 7, ptx::mapa_shared_cluster(A_B_SCALES_A_SCALES_B_full + 8 * fill_stage, ptx::cluster_ctarank() & ~1));
          // tensor copy: a box of 1 x 4 x 32 x 16
          ptx::cp_async_bulk_tensor_4d_shared_global_pair(SCALES_B_ring_addr + fill_stage * 2048, &SCALES_B_map, 0, 0, ptx::wrap_mul(step, 4), n >> 7, ptx::mapa_shared_cluster(A_B_SCALES_A_SCALES_B_full + 8 * fill_stage, ptx::cluster_ctarank() & ~1));
        }
        // matmul_blackwell.py: return px.load(block(X, which, i, k, HEIGHT, DEPTH)) if BY_K else px.load(block(X, which, k, i, DEPTH, HEIGHT)).T  (called at matmul_blackwell.py)
        const int t_1 = ptx::wrap_add(fill_stage, 1);
        const bool wraps = t_1 == 7;
        fill_parity = fill_parity ^ ((int)wraps);
        fill_stage = wraps ? 0 : t_1;
      }
    }
  } else if (px_warp_id == 5) {  // multiplier: warp 5
    const bool px_one = ptx::elect_sync();
    // matmul_blackwell.py: for step in px.pipelined(range(steps)):
    const int rank_1 = ptx::cluster_ctarank();
    const bool even = (rank_1 & 1) == 0;
    if (even) {
      const int t_1 = rank_1 ^ 1;
      const int t_2 = ptx::shift_left<int>(3, rank_1);
      int take_stage = 0;
      int take_parity = 0;
      int sum_fill_stage = 0;
      int sum_fill_parity = 0;
      // matmul_blackwell.py: for tile in px.persistent(rows * columns * (C.shape[0] if BATCH else 1)):
      #pragma unroll 1
      for (int tile = cluster; tile < t; tile += clusters) {
        // matmul_blackwell.py: for step in px.pipelined(range(steps)):
        const bool ran = 0 < steps;
        if (ran) {
          ptx::mbarrier_wait_parity(acc_empty + 8 * sum_fill_stage, sum_fill_parity ^ 1);
          #pragma unroll 1
          for (int step = 0; step < steps; ++step) {
            // matmul_blackwell.py: return px.load(block(X, which, i, k, HEIGHT, DEPTH)) if BY_K else px.load(block(X, which, k, i, DEPTH, HEIGHT)).T  (called at matmul_blackwell.py)
            const int take_stage_1 = take_stage;
            ptx::mbarrier_wait_parity(A_B_SCALES_A_SCALES_B_full + 8 * take_stage_1, take_parity);
            const int t_3 = ptx::wrap_add(take_stage_1, 1);
            const bool wraps = t_3 == 7;
            take_parity = take_parity ^ ((int)wraps);
            take_stage = wraps ? 0 : t_3;
            // matmul_blackwell.py: acc = px.dot(a, b.T, acc, scale_a=by_a, scale_b=by_b)
            const bool later = step != 0;
            ptx::tcgen05_fence_after_thread_sync();
            if (px_one) {
              {
                const unsigned long long px_s = ptx::tcgen05_descriptor(SCALES_A_ring_addr + take_stage_1 * 2048, 0x400800000000ull);
                const unsigned px_d = px_tmem + 256 + take_stage_1 * 16;
                ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d, px_s);
                ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 4, px_s + 32);
                ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 8, px_s + 64);
                ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 12, px_s + 96);
              }
              {
                const unsigned long long px_s = ptx::tcgen05_descriptor(SCALES_B_ring_addr + take_stage_1 * 2048, 0x400800000000ull);
                const unsigned px_d = px_tmem + 368 + take_stage_1 * 16;
                ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d, px_s);
                ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 4, px_s + 32);
                ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 8, px_s + 64);
                ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 12, px_s + 96);
              }
              {
                const unsigned long long px_a = ptx::tcgen05_descriptor(A_ring_addr + take_stage_1 * 16384, 0x4000404000010000ull);
                const unsigned long long px_b = ptx::tcgen05_descriptor(B_ring_addr + take_stage_1 * 8192, 0x4000404000010000ull);
                const unsigned px_d = px_tmem + sum_fill_stage * 128;
                const unsigned px_sa = px_tmem + 256 + take_stage_1 * 16;
                const unsigned px_sb = px_tmem + 368 + take_stage_1 * 16;
                ptx::tcgen05_mma_cta_group_2_mxf4nvf4_block16(px_d, px_a, px_b, 0x10200480u, px_sa, px_sb, later);
                ptx::tcgen05_mma_cta_group_2_mxf4nvf4_block16(px_d, px_a + 2, px_b + 2, 0x10200480u, px_sa + 4, px_sb + 4, true);
                ptx::tcgen05_mma_cta_group_2_mxf4nvf4_block16(px_d, px_a + 4, px_b + 4, 0x10200480u, px_sa + 8, px_sb + 8, true);
                ptx::tcgen05_mma_cta_group_2_mxf4nvf4_block16(px_d, px_a + 6, px_b + 6, 0x10200480u, px_sa + 12, px_sb + 12, true);
              }
            }
            __syncwarp();  // all threads have passed the wait at line 28 before the elected thread goes on
            if (px_one) {
              ptx::tcgen05_commit_cta_group_2_multicast(A_B_SCALES_A_SCALES_B_empty + 8 * take_stage_1, (unsigned short)release_ctas);
            }
          }
          // matmul_blackwell.py: for step in px.pipelined(range(steps)):
          __syncwarp();  // all threads have passed the wait at line 70 before the elected thread goes on
          if (px_one) {
            ptx::tcgen05_commit_cta_group_2_multicast(acc_full + 8 * sum_fill_stage, (unsigned short)t_2);
          }
          const int t_3 = ptx::wrap_add(sum_fill_stage, 1);
          const bool wraps = t_3 == 2;
          sum_fill_parity = sum_fill_parity ^ ((int)wraps);
          sum_fill_stage = wraps ? 0 : t_3;
        }
      }
    }
  } else if (px_warp_id < 4) {  // consumer: warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    int sum_take_stage = 0;
    int sum_take_parity = 0;
    const int rank_1 = ptx::cluster_ctarank();
    const int t_1 = ptx::shift_left<int>(1, (rank_1 & (-2)));
    // matmul_blackwell.py: for tile in px.persistent(rows * columns * (C.shape[0] if BATCH else 1)):
    #pragma unroll 1
    for (int tile = cluster; tile < t; tile += clusters) {
      unsigned band;
      float acc[64];
      float acc_1[64];
      // orders.py: tile = px.u32(t)  (called at matmul_blackwell.py)
      const unsigned tile_1 = (unsigned)tile;
      // orders.py: tiles = px.u32(group * columns)  # unsigned: a division costs half of a signed one that rounds down  (called at matmul_blackwell.py)
      const unsigned tiles = (unsigned)ptx::wrap_mul(8, columns);
      // orders.py: if tile >= tiles:  # of few tiles none: one division less before the first copy  (called at matmul_blackwell.py)
      if (tile_1 >= tiles) {
        // orders.py: band = tile // tiles  (called at matmul_blackwell.py)
        // orders.py: if tile >= tiles:  # of few tiles none: one division less before the first copy  (called at matmul_blackwell.py)
        band = ptx::floor_div<unsigned>(tile_1, tiles);
      } else {
        band = 0u;
      }
      // orders.py: rest = tile - band * tiles  (called at matmul_blackwell.py)
      const unsigned rest = tile_1 - (band * tiles);
      // orders.py: height = min(px.u32(group), px.u32(rows) - band * group)  (called at matmul_blackwell.py)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(8u, (rows_1 - (band * 8u)));
      // orders.py: column = rest // height  (called at matmul_blackwell.py)
      const unsigned column = ptx::floor_div<unsigned>(rest, height);
      // orders.py: return px.i32(band * group + rest - column * height), px.i32(column)  (called at matmul_blackwell.py)
      const int i = (int)(((band * 8u) + rest) - (column * height));
      const int column_1 = (int)column;
      // matmul_blackwell.py: m = (i * CM + px.cluster.rank(0)) * BM
      const int m = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(i, 2), rank_x)), 128);
      // matmul_blackwell.py: n = (j * CN + px.cluster.rank(1)) * BN
      const int n = ptx::wrap_mul(column_1, 128);
      // matmul_blackwell.py: for step in px.pipelined(range(steps)):
      const bool ran = 0 < steps;
      const int sum_take_stage_1 = sum_take_stage;
      if (ran) {
        ptx::mbarrier_wait_parity(acc_full + 8 * sum_take_stage_1, sum_take_parity);
      }
      if (ran) {
        ptx::tcgen05_fence_after_thread_sync();
        float acc_2[64];
        // 16x256b: 2 of each warp
        {
          const unsigned px_at = px_tmem + sum_take_stage_1 * 128 + (px_warp_id << 21);
          ptx::tcgen05_ld_16x256b_x8_float(acc_2, px_at);
          ptx::tcgen05_ld_16x256b_x8_float(acc_2 + 32, px_at + 1048576);
        }
        ptx::tcgen05_wait_ld_sync_aligned();
        ptx::keep_float<64>(acc_2);
        #pragma unroll
        for (int px_r = 0; px_r < 64; ++px_r) acc[px_r] = acc_2[px_r];
      } else {
        // matmul_blackwell.py: acc = px.zeros((BM, BN), px.f32)
        float acc_2[64];
        #pragma unroll
        for (int i_1 = 0; i_1 < 64; ++i_1) acc_2[i_1] = 0.0f;
        // matmul_blackwell.py: for step in px.pipelined(range(steps)):
        #pragma unroll
        for (int px_r = 0; px_r < 64; ++px_r) acc[px_r] = acc_2[px_r];
      }
      // epilogue.py: y = y * self.factor  (called at matmul_blackwell.py)
      float y[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; ++i_1) y[i_1] = acc[i_1] * alpha;
      // activations.py: return px.maximum(x, 0.0)  (called at epilogue.py)
      float result[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; ++i_1) result[i_1] = ptx::max_NaN_f32(y[i_1], 0.0f);
      // matmul_blackwell.py: px.store(block(C, z, m, n, BM, BN), result.to(C.dtype))
      px_bf16 result_1[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(result_1 + i_1, result[i_1], result[i_1 + 1]);
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_0();
      }
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // the elected thread is done with C_out at line 82 before C_out is written
      {
        const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 256);
        const unsigned a = C_out_addr;
        #pragma unroll
        for (int i_1 = 0; i_1 < 8; ++i_1) {
          unsigned words[4];
          ptx::pack_words<8>(words, result_1 + 8 * i_1);
          ptx::stmatrix_x4(a + 16 * ((o ^ ((i_1 & 3) * 2)) + (i_1 >> 2) * 128), words);
        }
      }
      ptx::fence_proxy_async_shared_cta();
      ptx::bar_sync<1, 128>();  // C_out was written at line 82 before C_out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, n, m, C_out_addr);
        ptx::cp_async_bulk_commit_group();
      }
      // matmul_blackwell.py: for step in px.pipelined(range(steps)):
      if (ran) {
        ptx::tcgen05_fence_after_thread_sync();
        float acc_2[64];
        // 16x256b: 2 of each warp
        {
          const unsigned px_at = px_tmem + sum_take_stage_1 * 128 + 64 + (px_warp_id << 21);
          ptx::tcgen05_ld_16x256b_x8_float(acc_2, px_at);
          ptx::tcgen05_ld_16x256b_x8_float(acc_2 + 32, px_at + 1048576);
        }
        ptx::tcgen05_wait_ld_sync_aligned();
        ptx::keep_float<64>(acc_2);
        #pragma unroll
        for (int px_r = 0; px_r < 64; ++px_r) acc_1[px_r] = acc_2[px_r];
        ptx::tcgen05_fence_before_thread_sync();
        ptx::bar_sync<1, 128>();  // all threads are done with acc_tmem at line 70 before the elected thread arrives
        if (px_warp_id == 0 && ((unsigned)t_1 >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(acc_empty + 8 * sum_take_stage_1, px_lane));
      } else {
        // matmul_blackwell.py: acc = px.zeros((BM, BN), px.f32)
        float acc_2[64];
        #pragma unroll
        for (int i_1 = 0; i_1 < 64; ++i_1) acc_2[i_1] = 0.0f;
        // matmul_blackwell.py: for step in px.pipelined(range(steps)):
        #pragma unroll
        for (int px_r = 0; px_r < 64; ++px_r) acc_1[px_r] = acc_2[px_r];
      }
      // epilogue.py: y = y * self.factor  (called at matmul_blackwell.py)
      float y_1[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; ++i_1) y_1[i_1] = acc_1[i_1] * alpha;
      // activations.py: return px.maximum(x, 0.0)  (called at epilogue.py)
      float result_2[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; ++i_1) result_2[i_1] = ptx::max_NaN_f32(y_1[i_1], 0.0f);
      // matmul_blackwell.py: px.store(block(C, z, m, n, BM, BN), result.to(C.dtype))
      px_bf16 result_3[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(result_3 + i_1, result_2[i_1], result_2[i_1 + 1]);
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_0();
      }
      ptx::bar_sync<1, 128>();  // the elected thread is done with C_out at line 82 before C_out is written
      {
        const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 256);
        const unsigned a = C_out_addr;
        #pragma unroll
        for (int i_1 = 0; i_1 < 8; ++i_1) {
          unsigned words[4];
          ptx::pack_words<8>(words, result_3 + 8 * i_1);
          ptx::stmatrix_x4(a + 16 * ((o ^ ((i_1 & 3) * 2)) + (i_1 >> 2) * 128), words);
        }
      }
      ptx::fence_proxy_async_shared_cta();
      ptx::bar_sync<1, 128>();  // C_out was written at line 82 before C_out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, ptx::wrap_add(n, 64), m, C_out_addr);
        ptx::cp_async_bulk_commit_group();
      }
      // matmul_blackwell.py: for step in px.pipelined(range(steps)):
      if (ran) {
        const int t_2 = ptx::wrap_add(sum_take_stage_1, 1);
        const bool wraps = t_2 == 2;
        sum_take_parity = sum_take_parity ^ ((int)wraps);
        sum_take_stage = wraps ? 0 : t_2;
      }
    }
    // matmul_blackwell.py: for tile in px.persistent(rows * columns * (C.shape[0] if BATCH else 1)):
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
    // matmul_blackwell.py: for step in px.pipelined(range(steps)):
    ptx::tcgen05_fence_before_thread_sync();
  }
  // matmul_blackwell.py: def matmul_blackwell(
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // matmul_blackwell.py: acc = px.dot(a, b.T, acc, scale_a=by_a, scale_b=by_b)
  ptx::tcgen05_fence_after_thread_sync();
  if (px_warp_id == 0) {
    ptx::tcgen05_dealloc_cta_group_2_512(px_tmem);
  }
}
