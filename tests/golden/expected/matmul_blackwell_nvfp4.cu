// matmul_blackwell(form=ProductForm(a_by_k=True, b_by_k=True, tma_store=True, bias_kind=None, scale_rows=False, scale_columns=False, activation='relu'), BM=128, BLOCK=16, config=BlackwellConfig(bn=128, bk=256, stages=3, ctas=2, cluster=(1, 1), accumulators=2, group=8, parts=2)) for sm_100a, from matmul_blackwell.py
// 192 threads, 118880 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

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
//   wrap_mul
//   shift_left
//   shift_right
//   wrap_add
//   barrier_cluster_wait_acquire_aligned
//   griddepcontrol_wait
//   griddepcontrol_launch_dependents
//   floor_div
//   minimum
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global_pair
//   mapa_shared_cluster
//   cp_async_bulk_tensor_4d_shared_global_pair
//   elect_sync
//   tcgen05_fence_after_thread_sync
//   tcgen05_descriptor
//   tcgen05_cp_cta_group_2_32x128b_warpx4
//   tcgen05_mma_cta_group_2_mxf4nvf4_block16
//   tcgen05_commit_cta_group_2_multicast
//   tcgen05_ld_16x256b_x8_float
//   cp_async_bulk_wait_group_read_1
//   tcgen05_wait_ld_sync_aligned
//   keep_float
//   max_NaN_f32
//   bf16_pair_from_float
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
  const unsigned tmem_address_addr = px_base + 118784;
  const unsigned full = px_base + 118792;
  const unsigned empty = px_base + 118816;
  const unsigned ready = px_base + 118840;
  const unsigned drained = px_base + 118856;
  unsigned* const tmem_address = reinterpret_cast<unsigned*>(px_smem + 118784);
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 49152;
  const unsigned scales_a_addr = px_base + 106496;
  const unsigned scales_b_addr = px_base + 112640;
  const unsigned out_addr = px_base + 73728;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
    ptx::prefetch_tensormap(&SCALES_A_map);
    ptx::prefetch_tensormap(&SCALES_B_map);
    ptx::prefetch_tensormap(&C_map);
  }
  // matmul_blackwell.py: acc = px.tmem((ACCS, BM, BN), px.f32)
  if (px_warp_id == 0) {
    // acc: accumulator, columns 0 to 255
    // tensor_a: scale, columns 256 to 303
    // tensor_b: scale, columns 304 to 351
    ptx::tcgen05_alloc_cta_group_2_512(tmem_address_addr);
    ptx::tcgen05_relinquish_alloc_permit_cta_group_2_sync_aligned();
  }
  // matmul_blackwell.py: full = px.barrier(STAGES)
  if (px_one) {
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(full + 8 * px_i, 1);
    // matmul_blackwell.py: empty = px.barrier(STAGES)
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(empty + 8 * px_i, 1);
    // matmul_blackwell.py: ready = px.barrier(ACCS)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(ready + 8 * px_i, 1);
    // matmul_blackwell.py: drained = px.barrier(ACCS)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(drained + 8 * px_i, (0x2 >> ptx::cluster_ctarank() & 1 ? 1 : 2));
    // matmul_blackwell.py: def matmul_blackwell(
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // matmul_blackwell.py: rank = px.cluster.rank()
  const int rank = ptx::cluster_ctarank();
  // matmul_blackwell.py: A_BATCH = len(A.shape) == 3
  const int A_size1 = A.shape[1];
  const int A_size1_1 = ptx::wrap_mul(A_size1, 2);
  // matmul_blackwell.py: BATCH = len(C.shape) == 3
  const int C_size0 = C.shape[0];
  const int C_size1 = C.shape[1];
  // matmul_blackwell.py: first = px.cluster.id()
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  // matmul_blackwell.py: step = px.num_blocks(0) // (CTAS * CM * CN)
  const int blocks_x = (int)gridDim.x;
  // matmul_blackwell.py: half = rank % CTAS if CTAS > 1 else 0  (called at matmul_blackwell.py)
  const int half = rank & 1;
  // matmul_blackwell.py: row = row | (1 << (half + CTAS * (x + CM * other)))  (called at matmul_blackwell.py)
  const int row = 0 | (ptx::shift_left<int>(1, half));
  // matmul_blackwell.py: column = column | (1 << (half + CTAS * (other + CM * y)))  (called at matmul_blackwell.py)
  const int column = 0 | (ptx::shift_left<int>(1, half));
  // matmul_blackwell.py: fillers = fillers | ((row | column) >> half << other)  (called at matmul_blackwell.py)
  const int fillers = 0 | (ptx::shift_right<int>((row | column), half));
  const int t = (int)((unsigned)(ptx::shift_right<int>((row | column), half)) << 1);
  const int fillers_1 = fillers | t;
  // matmul_blackwell.py: steps = px.cdiv(A.shape[(1 if A_BATCH else 0) + (1 if A_BY_K else 0)], BK)
  const int steps = ptx::wrap_add((A_size1_1 >> 8), ((int)((A_size1_1 & 255) != 0)));
  // matmul_blackwell.py: rows = px.cdiv(C.shape[axis], CTAS * CM * BM)
  const int rows = ptx::wrap_add((C_size0 >> 8), ((int)((C_size0 & 255) != 0)));
  // matmul_blackwell.py: columns = px.cdiv(C.shape[axis + 1], CN * BN)
  const int columns = ptx::wrap_add((C_size1 >> 7), ((int)((C_size1 & 127) != 0)));
  // matmul_blackwell.py: tiles = rows * columns * (C.shape[0] if BATCH else 1)
  const int tiles = ptx::wrap_mul(rows, columns);
  // matmul_blackwell.py: step = px.num_blocks(0) // (CTAS * CM * CN)
  const int step = blocks_x >> 1;
  // matmul_blackwell.py: def matmul_blackwell(
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // matmul_blackwell.py: acc = px.tmem((ACCS, BM, BN), px.f32)
  __syncthreads();  // the elected thread is done with tmem_address at line 272 before tmem_address is read
  const unsigned px_tmem = *(volatile unsigned*)tmem_address;
  // launches.py: px.wait_prior()  (called at matmul_blackwell.py)
  ptx::griddepcontrol_wait();
  // launches.py: px.launch_dependents()  (called at matmul_blackwell.py)
  ptx::griddepcontrol_launch_dependents();
  // matmul_blackwell.py: with px.warps(FETCHING_WARP, 1):
  __syncthreads();  // all threads are done with tmem_address at line 272 before the elected thread arrives
  if (px_warp_id == 4) {  // warp 4
    const bool px_one = ptx::elect_sync();
    // matmul_blackwell.py: for tile in range(unit.first, unit.count, unit.step):  (called at matmul_blackwell.py)
    int stage = 0;
    int parity = 0;
    #pragma unroll 1
    for (int tile = cluster; tile < tiles; tile += step) {
      unsigned band;
      // orders.py: tile = px.u32(t)  (called at matmul_blackwell.py)
      const unsigned tile_1 = (unsigned)tile;
      // orders.py: tiles = px.u32(group * columns)  # unsigned: a division costs half of a signed one that rounds down  (called at matmul_blackwell.py)
      const unsigned tiles_1 = (unsigned)ptx::wrap_mul(8, columns);
      // orders.py: if tile >= tiles:  # of few tiles none: one division less before the first copy  (called at matmul_blackwell.py)
      if (tile_1 >= tiles_1) {
        // orders.py: band = tile // tiles  (called at matmul_blackwell.py)
        // orders.py: if tile >= tiles:  # of few tiles none: one division less before the first copy  (called at matmul_blackwell.py)
        band = ptx::floor_div<unsigned>(tile_1, tiles_1);
      } else {
        band = 0u;
      }
      // orders.py: rest = tile - band * tiles  (called at matmul_blackwell.py)
      const unsigned rest = tile_1 - (band * tiles_1);
      // orders.py: height = min(px.u32(group), px.u32(rows) - band * group)  (called at matmul_blackwell.py)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(8u, (rows_1 - (band * 8u)));
      // orders.py: column = rest // height  (called at matmul_blackwell.py)
      const unsigned column_1 = ptx::floor_div<unsigned>(rest, height);
      // orders.py: return px.i32(band * group + rest - column * height), px.i32(column)  (called at matmul_blackwell.py)
      const int i = (int)(((band * 8u) + rest) - (column_1 * height));
      const int column_2 = (int)column_1;
      // matmul_blackwell.py: return z, ((i * self.CM + self.x) * self.CTAS + self.half) * self.BM, (j * self.CN + self.y) * self.BN  (called at matmul_blackwell.py)
      const int m = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(i, 2), half)), 128);
      const int n = ptx::wrap_mul(column_2, 128);
      // matmul_blackwell.py: for k in range(unit.steps):  (called at matmul_blackwell.py)
      int stage_1 = stage;
      int parity_1 = parity;
      #pragma unroll 1
      for (int k = 0; k < steps; ++k) {
        // matmul_blackwell.py: self.empty[s].wait(self.turn.parity ^ 1)  (called at matmul_blackwell.py)
        ptx::mbarrier_wait_parity(empty + 8 * stage_1, parity_1 ^ 1);
        // matmul_blackwell.py: with self.full[s].transaction():  (called at matmul_blackwell.py)
        const int rank_1 = ptx::cluster_ctarank();
        const int nbytes = (rank_1 == 1) ? 0 : 57344;
        const int rank_2 = ptx::cluster_ctarank();
        if (rank_2 == 0) {
          __syncwarp();  // all threads have passed the wait at line 127 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(full + 8 * stage_1, nbytes);
          }
        }
        // matmul_blackwell.py: self.fetch_rows(unit, A, z, m + unit.y * high, k * unit.BK, s, high)  (called at matmul_blackwell.py)
        // matmul_blackwell.py: px.tma.load(  (called at matmul_blackwell.py)
        __syncwarp();  // all threads have passed the wait at line 127 before the elected thread goes on
        if (px_one) {
          // tensor copy: a box of 128 x 128, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global_pair(a_addr + stage_1 * 16384, &A_map, ptx::wrap_mul(k, 256) >> 1, m, ptx::mapa_shared_cluster(full + 8 * stage_1, ptx::cluster_ctarank() & ~1));
          // matmul_blackwell.py: self.fetch_columns(unit, B, z, n + unit.half * half + unit.x * wide, k * unit.BK, s, wide)  (called at matmul_blackwell.py)
          // matmul_blackwell.py: px.tma.load(  (called at matmul_blackwell.py)
          // tensor copy: a box of 64 x 128, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global_pair(b_addr + stage_1 * 8192, &B_map, ptx::wrap_mul(k, 256) >> 1, ptx::wrap_add(n, ptx::wrap_mul(half, 64)), ptx::mapa_shared_cluster(full + 8 * stage_1, ptx::cluster_ctarank() & ~1));
        }
        // matmul_blackwell.py: first = row // 128  (called at matmul_blackwell.py)
        const int first = m >> 7;
        // matmul_blackwell.py: SCALES[first : first + high, k * deep : k * deep + deep, 0:32, 0:16], scales[s], self.full[s],  (called at matmul_blackwell.py)
        // matmul_blackwell.py: px.tma.load(  (called at matmul_blackwell.py)
        if (px_one) {
          // tensor copy: a box of 1 x 4 x 32 x 16
          ptx::cp_async_bulk_tensor_4d_shared_global_pair(scales_a_addr + stage_1 * 2048, &SCALES_A_map, 0, 0, ptx::wrap_mul(k, 4), first, ptx::mapa_shared_cluster(full + 8 * stage_1, ptx::cluster_ctarank() & ~1));
        }
        // matmul_blackwell.py: first = row // 128  (called at matmul_blackwell.py)
        const int first_1 = n >> 7;
        // matmul_blackwell.py: SCALES[first : first + high, k * deep : k * deep + deep, 0:32, 0:16], scales[s], self.full[s],  (called at matmul_blackwell.py)
        // matmul_blackwell.py: px.tma.load(  (called at matmul_blackwell.py)
        if (px_one) {
          // tensor copy: a box of 1 x 4 x 32 x 16
          ptx::cp_async_bulk_tensor_4d_shared_global_pair(scales_b_addr + stage_1 * 2048, &SCALES_B_map, 0, 0, ptx::wrap_mul(k, 4), first_1, ptx::mapa_shared_cluster(full + 8 * stage_1, ptx::cluster_ctarank() & ~1));
        }
        // matmul_blackwell.py: self.turn.advance()  (called at matmul_blackwell.py)
        const int t_1 = ptx::wrap_add(stage_1, 1);
        const bool t_2 = t_1 == 3;
        stage_1 = t_2 ? 0 : t_1;
        parity_1 = parity_1 ^ ((int)t_2);
      }
      // matmul_blackwell.py: for k in range(unit.steps):  (called at matmul_blackwell.py)
      stage = stage_1;
      parity = parity_1;
    }
  } else if (px_warp_id == 5) {  // warp 5
    const bool px_one = ptx::elect_sync();
    // matmul_blackwell.py: if half == 0:
    if (half == 0) {
      // matmul_blackwell.py: for _ in range(unit.first, unit.count, unit.step):  (called at matmul_blackwell.py)
      int stage = 0;
      int parity = 0;
      int stage_1 = 0;
      int parity_1 = 0;
      #pragma unroll 1
      for (int t_1 = cluster; t_1 < tiles; t_1 += step) {
        // matmul_blackwell.py: drained[t].wait(held.parity ^ 1)  (called at matmul_blackwell.py)
        ptx::mbarrier_wait_parity(drained + 8 * stage_1, parity_1 ^ 1);
        // matmul_blackwell.py: for k in range(unit.steps):  (called at matmul_blackwell.py)
        int stage_2 = stage;
        int parity_2 = parity;
        #pragma unroll 1
        for (int k = 0; k < steps; ++k) {
          // matmul_blackwell.py: self.full[s].wait(self.turn.parity)  (called at matmul_blackwell.py)
          ptx::mbarrier_wait_parity(full + 8 * stage_2, parity_2);
          // matmul_blackwell.py: px.tcgen05.copy(self.scales_a[s], scale_a, two_cta=unit.CTAS == 2)  (called at matmul_blackwell.py)
          ptx::tcgen05_fence_after_thread_sync();
          if (px_one) {
            {
              const unsigned long long px_s = ptx::tcgen05_descriptor(scales_a_addr + stage_2 * 2048, 0x400800000000ull);
              const unsigned px_d = px_tmem + 256 + stage_2 * 16;
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d, px_s);
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 4, px_s + 32);
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 8, px_s + 64);
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 12, px_s + 96);
            }
            // matmul_blackwell.py: px.tcgen05.copy(self.scales_b[s], scale_b, two_cta=unit.CTAS == 2)  (called at matmul_blackwell.py)
            {
              const unsigned long long px_s = ptx::tcgen05_descriptor(scales_b_addr + stage_2 * 2048, 0x400800000000ull);
              const unsigned px_d = px_tmem + 304 + stage_2 * 16;
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d, px_s);
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 4, px_s + 32);
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 8, px_s + 64);
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 12, px_s + 96);
            }
            // matmul_blackwell.py: left, right, acc[t], accumulate=k > 0, scale_a=scale_a, scale_b=scale_b, two_cta=unit.CTAS == 2  (called at matmul_blackwell.py)
            // matmul_blackwell.py: px.tcgen05.mma(  (called at matmul_blackwell.py)
            {
              const unsigned long long px_a = ptx::tcgen05_descriptor(a_addr + stage_2 * 16384, 0x4000404000010000ull);
              const unsigned long long px_b = ptx::tcgen05_descriptor(b_addr + stage_2 * 8192, 0x4000404000010000ull);
              const unsigned px_d = px_tmem + stage_1 * 128;
              const unsigned px_sa = px_tmem + 256 + stage_2 * 16;
              const unsigned px_sb = px_tmem + 304 + stage_2 * 16;
              ptx::tcgen05_mma_cta_group_2_mxf4nvf4_block16(px_d, px_a, px_b, 0x10200480u, px_sa, px_sb, k > 0);
              ptx::tcgen05_mma_cta_group_2_mxf4nvf4_block16(px_d, px_a + 2, px_b + 2, 0x10200480u, px_sa + 4, px_sb + 4, true);
              ptx::tcgen05_mma_cta_group_2_mxf4nvf4_block16(px_d, px_a + 4, px_b + 4, 0x10200480u, px_sa + 8, px_sb + 8, true);
              ptx::tcgen05_mma_cta_group_2_mxf4nvf4_block16(px_d, px_a + 6, px_b + 6, 0x10200480u, px_sa + 12, px_sb + 12, true);
            }
          }
          // matmul_blackwell.py: px.tcgen05.commit(  (called at matmul_blackwell.py)
          __syncwarp();  // all threads have passed the wait at line 181 before the elected thread goes on
          if (px_one) {
            ptx::tcgen05_commit_cta_group_2_multicast(empty + 8 * stage_2, (unsigned short)fillers_1);
          }
          // matmul_blackwell.py: self.turn.advance()  (called at matmul_blackwell.py)
          const int t_2 = ptx::wrap_add(stage_2, 1);
          const bool t_3 = t_2 == 3;
          stage_2 = t_3 ? 0 : t_2;
          parity_2 = parity_2 ^ ((int)t_3);
        }
        // matmul_blackwell.py: for k in range(unit.steps):  (called at matmul_blackwell.py)
        // matmul_blackwell.py: ready[t], multicast=0b11 << (px.cluster.rank() & ~1) if unit.CTAS == 2 else None, two_cta=unit.CTAS == 2  (called at matmul_blackwell.py)
        // matmul_blackwell.py: px.tcgen05.commit(  (called at matmul_blackwell.py)
        __syncwarp();  // all threads have passed the wait at line 181 before the elected thread goes on
        if (px_one) {
          ptx::tcgen05_commit_cta_group_2_multicast(ready + 8 * stage_1, (unsigned short)(ptx::shift_left<int>(3, (rank & (-2)))));
        }
        // matmul_blackwell.py: held.advance()  (called at matmul_blackwell.py)
        const int t_2 = ptx::wrap_add(stage_1, 1);
        const bool t_3 = t_2 == 2;
        stage = stage_2;
        parity = parity_2;
        stage_1 = t_3 ? 0 : t_2;
        parity_1 = parity_1 ^ ((int)t_3);
      }
    }
  } else if (px_warp_id < 4) {  // warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    // matmul_blackwell.py: leader = 1 << (rank & ~1) if CTAS == 2 else None
    const int leader = ptx::shift_left<int>(1, (rank & (-2)));
    // matmul_blackwell.py: for tile in range(first, tiles, step):
    int stage = 0;
    int parity = 0;
    #pragma unroll 1
    for (int tile = cluster; tile < tiles; tile += step) {
      unsigned band;
      // orders.py: tile = px.u32(t)  (called at matmul_blackwell.py)
      const unsigned tile_1 = (unsigned)tile;
      // orders.py: tiles = px.u32(group * columns)  # unsigned: a division costs half of a signed one that rounds down  (called at matmul_blackwell.py)
      const unsigned tiles_1 = (unsigned)ptx::wrap_mul(8, columns);
      // orders.py: if tile >= tiles:  # of few tiles none: one division less before the first copy  (called at matmul_blackwell.py)
      if (tile_1 >= tiles_1) {
        // orders.py: band = tile // tiles  (called at matmul_blackwell.py)
        // orders.py: if tile >= tiles:  # of few tiles none: one division less before the first copy  (called at matmul_blackwell.py)
        band = ptx::floor_div<unsigned>(tile_1, tiles_1);
      } else {
        band = 0u;
      }
      // orders.py: rest = tile - band * tiles  (called at matmul_blackwell.py)
      const unsigned rest = tile_1 - (band * tiles_1);
      // orders.py: height = min(px.u32(group), px.u32(rows) - band * group)  (called at matmul_blackwell.py)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(8u, (rows_1 - (band * 8u)));
      // orders.py: column = rest // height  (called at matmul_blackwell.py)
      const unsigned column_1 = ptx::floor_div<unsigned>(rest, height);
      // orders.py: return px.i32(band * group + rest - column * height), px.i32(column)  (called at matmul_blackwell.py)
      const int i = (int)(((band * 8u) + rest) - (column_1 * height));
      const int column_2 = (int)column_1;
      // matmul_blackwell.py: return z, ((i * self.CM + self.x) * self.CTAS + self.half) * self.BM, (j * self.CN + self.y) * self.BN  (called at matmul_blackwell.py)
      const int m = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(i, 2), half)), 128);
      const int n = ptx::wrap_mul(column_2, 128);
      // matmul_blackwell.py: ready[t].wait(held.parity)
      ptx::mbarrier_wait_parity(ready + 8 * stage, parity);
      // matmul_blackwell.py: sums = px.tcgen05.load(acc[:, part : part + width])  (called at matmul_blackwell.py)
      ptx::tcgen05_fence_after_thread_sync();
      float t_1[64];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + stage * 128 + (px_warp_id << 21);
        ptx::tcgen05_ld_16x256b_x8_float(t_1, px_at);
        ptx::tcgen05_ld_16x256b_x8_float(t_1 + 32, px_at + 1048576);
      }
      // matmul_blackwell.py: px.tma.wait(BUFFERS - 1, read=True)  # the buffer's last part has left it  (called at matmul_blackwell.py)
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // matmul_blackwell.py: sums = px.tcgen05.load(acc[:, part : part + width])  (called at matmul_blackwell.py)
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_1);
      // epilogue.py: y = y * self.factor  (called at matmul_blackwell.py)
      float y[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; ++i_1) y[i_1] = t_1[i_1] * alpha;
      // activations.py: return px.maximum(x, 0.0)  (called at epilogue.py)
      float t_2[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; ++i_1) t_2[i_1] = ptx::max_NaN_f32(y[i_1], 0.0f);
      // matmul_blackwell.py: result = epilogue.finish(sums, by_row, by_column, bias).to(epilogue.C.dtype)  (called at matmul_blackwell.py)
      px_bf16 result[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(result + i_1, t_2[i_1], t_2[i_1 + 1]);
      // matmul_blackwell.py: px.store(buffer, result)  (called at matmul_blackwell.py)
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 222 before out is written
      {
        const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 256);
        const unsigned a = out_addr;
        #pragma unroll
        for (int i_1 = 0; i_1 < 8; ++i_1) {
          unsigned words[4];
          ptx::pack_words<8>(words, result + 8 * i_1);
          ptx::stmatrix_x4(a + 16 * ((o ^ ((i_1 & 3) * 2)) + (i_1 >> 2) * 128), words);
        }
      }
      // matmul_blackwell.py: px.fence.async_proxy()  (called at matmul_blackwell.py)
      ptx::fence_proxy_async_shared_cta();
      // matmul_blackwell.py: px.tma.store(buffer, block(epilogue.C, z, m, n + part, epilogue.height, width))  (called at matmul_blackwell.py)
      ptx::bar_sync<1, 128>();  // out was written at line 236 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, n, m, out_addr);
        // matmul_blackwell.py: px.tma.commit()  (called at matmul_blackwell.py)
        ptx::cp_async_bulk_commit_group();
      }
      // matmul_blackwell.py: sums = px.tcgen05.load(acc[:, part : part + width])  (called at matmul_blackwell.py)
      ptx::tcgen05_fence_after_thread_sync();
      float t_3[64];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + stage * 128 + 64 + (px_warp_id << 21);
        ptx::tcgen05_ld_16x256b_x8_float(t_3, px_at);
        ptx::tcgen05_ld_16x256b_x8_float(t_3 + 32, px_at + 1048576);
      }
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_3);
      // matmul_blackwell.py: drained.arrive(ctas=leader)  (called at matmul_blackwell.py)
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // all threads are done with acc at line 218 before the elected thread arrives
      if (px_warp_id == 0 && ((unsigned)leader >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(drained + 8 * stage, px_lane));
      // matmul_blackwell.py: px.tma.wait(BUFFERS - 1, read=True)  # the buffer's last part has left it  (called at matmul_blackwell.py)
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // epilogue.py: y = y * self.factor  (called at matmul_blackwell.py)
      float y_1[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; ++i_1) y_1[i_1] = t_3[i_1] * alpha;
      // activations.py: return px.maximum(x, 0.0)  (called at epilogue.py)
      float t_4[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; ++i_1) t_4[i_1] = ptx::max_NaN_f32(y_1[i_1], 0.0f);
      // matmul_blackwell.py: result = epilogue.finish(sums, by_row, by_column, bias).to(epilogue.C.dtype)  (called at matmul_blackwell.py)
      px_bf16 result_1[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(result_1 + i_1, t_4[i_1], t_4[i_1 + 1]);
      // matmul_blackwell.py: px.store(buffer, result)  (called at matmul_blackwell.py)
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 222 before out is written
      {
        const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 256);
        const unsigned a = out_addr;
        #pragma unroll
        for (int i_1 = 0; i_1 < 8; ++i_1) {
          unsigned words[4];
          ptx::pack_words<8>(words, result_1 + 8 * i_1);
          ptx::stmatrix_x4(a + 16 * ((o ^ ((i_1 & 3) * 2)) + (i_1 >> 2) * 128 + 1024), words);
        }
      }
      // matmul_blackwell.py: px.fence.async_proxy()  (called at matmul_blackwell.py)
      ptx::fence_proxy_async_shared_cta();
      // matmul_blackwell.py: px.tma.store(buffer, block(epilogue.C, z, m, n + part, epilogue.height, width))  (called at matmul_blackwell.py)
      ptx::bar_sync<1, 128>();  // out was written at line 236 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, ptx::wrap_add(n, 64), m, out_addr + 16384);
        // matmul_blackwell.py: px.tma.commit()  (called at matmul_blackwell.py)
        ptx::cp_async_bulk_commit_group();
      }
      // matmul_blackwell.py: held.advance()
      const int t_5 = ptx::wrap_add(stage, 1);
      const bool t_6 = t_5 == 2;
      stage = t_6 ? 0 : t_5;
      parity = parity ^ ((int)t_6);
    }
    // matmul_blackwell.py: px.tma.wait(0)
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
    // matmul_blackwell.py: with px.warps(0, EPILOGUE_WARPS):
    ptx::tcgen05_fence_before_thread_sync();
  }
  // matmul_blackwell.py: def matmul_blackwell(
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // matmul_blackwell.py: acc = px.tmem((ACCS, BM, BN), px.f32)
  ptx::tcgen05_fence_after_thread_sync();
  if (px_warp_id == 0) {
    ptx::tcgen05_dealloc_cta_group_2_512(px_tmem);
  }
}
