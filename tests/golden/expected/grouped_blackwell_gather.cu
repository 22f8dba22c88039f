// grouped_blackwell(config=BlackwellConfig(bn=128, bk=64, stages=3, ctas=1, cluster=(1, 2), accumulators=2, group=1, parts=2), BM=128, GATHER=True, SCATTER=False, BIASED=False, ACTIVATION=None) for sm_100a, from grouped_blackwell.py
// 192 threads, 131168 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

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
//   tcgen05_alloc_cta_group_1_256
//   tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned
//   mbarrier_init_shared_cta
//   fence_mbarrier_init_release_cluster
//   barrier_cluster_arrive_relaxed_aligned
//   cluster_ctarank
//   shift_left
//   barrier_cluster_wait_acquire_aligned
//   griddepcontrol_wait
//   griddepcontrol_launch_dependents
//   inside
//   wrap_add
//   wrap_mul
//   floor_div
//   minimum
//   bits
//   unpack
//   load_vector
//   fill_vector
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_gather4_multicast
//   cp_async_bulk_tensor_3d_shared_global
//   elect_sync
//   tcgen05_fence_after_thread_sync
//   tcgen05_mma_cta_group_1_f16
//   tcgen05_descriptor
//   tcgen05_commit_cta_group_1_multicast
//   tcgen05_commit_cta_group_1
//   tcgen05_ld_16x256b_x8_float
//   cp_async_bulk_wait_group_read_1
//   tcgen05_wait_ld_sync_aligned
//   keep_float
//   bf16_pair_from_float
//   tcgen05_fence_before_thread_sync
//   bar_sync
//   pack_words
//   stmatrix_x4
//   fence_proxy_async_shared_cta
//   cp_async_bulk_tensor_2d_global_shared
//   cp_async_bulk_tensor_2d_scatter4
//   cp_async_bulk_commit_group
//   mbarrier_arrive_shared_cta
//   cp_async_bulk_wait_group_0
//   barrier_cluster_arrive_release_aligned
//   tcgen05_dealloc_cta_group_1_256
//   shared_address

extern "C" __global__ void __launch_bounds__(192, 1) grouped_blackwell_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<int, 1> I,
    const __grid_constant__ px_array<px_bf16, 3> W,
    const __grid_constant__ px_array<px_bf16, 2> Y,
    const __grid_constant__ px_array<int, 2> TABLE,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map W_map,
    const __grid_constant__ px_tensor_map Y_map,
    const __grid_constant__ px_tensor_map Y_map_1) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned tmem_address_addr = px_base + 131072;
  const unsigned full = px_base + 131080;
  const unsigned empty = px_base + 131104;
  const unsigned ready = px_base + 131128;
  const unsigned drained = px_base + 131144;
  unsigned* const tmem_address = reinterpret_cast<unsigned*>(px_smem + 131072);
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 49152;
  const unsigned out_addr = px_base + 98304;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&W_map);
    ptx::prefetch_tensormap(&Y_map);
    ptx::prefetch_tensormap(&Y_map_1);
  }
  // grouped_blackwell.py: acc = px.tmem((ACCS, BM, BN), px.f32)
  if (px_warp_id == 0) {
    // acc: accumulator, columns 0 to 255
    ptx::tcgen05_alloc_cta_group_1_256(tmem_address_addr);
    ptx::tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned();
  }
  // grouped_blackwell.py: full = px.barrier(STAGES)
  if (px_one) {
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(full + 8 * px_i, 1);
    // grouped_blackwell.py: empty = px.barrier(STAGES)
    for (int px_i = 0; px_i < 3; ++px_i) ptx::mbarrier_init_shared_cta(empty + 8 * px_i, 2);
    // grouped_blackwell.py: ready = px.barrier(ACCS)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(ready + 8 * px_i, 1);
    // grouped_blackwell.py: drained = px.barrier(ACCS)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(drained + 8 * px_i, 1);
    // grouped_blackwell.py: def grouped_blackwell(
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // grouped_blackwell.py: rank = px.cluster.rank()
  const int rank = ptx::cluster_ctarank();
  // grouped_blackwell.py: columns = px.cdiv(W.shape[1], CN * BN)
  const int W_size1 = W.shape[1];
  // grouped_blackwell.py: half, x, y, row, column, fillers, px.cdiv(A.shape[1], BK), rows, columns, px.cluster.id(), rows * columns,
  const int A_size1 = A.shape[1];
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  // grouped_blackwell.py: px.num_blocks(0) // (CTAS * CN), BM, BN, BK, CTAS, CM, CN, config.group, False,
  const int blocks_x = (int)gridDim.x;
  // matmul_blackwell.py: column = column | (1 << (half + CTAS * (other + CM * y)))  (called at grouped_blackwell.py)
  const int column = 0 | (ptx::shift_left<int>(1, rank));
  // matmul_blackwell.py: fillers = fillers | ((row | column) >> half << other)  (called at grouped_blackwell.py)
  const int fillers = 0 | (3 | column);
  // grouped_blackwell.py: def grouped_blackwell(
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // grouped_blackwell.py: acc = px.tmem((ACCS, BM, BN), px.f32)
  __syncthreads();  // the elected thread is done with tmem_address at line 115 before tmem_address is read
  const unsigned px_tmem = *(volatile unsigned*)tmem_address;
  // launches.py: px.wait_prior()  (called at grouped_blackwell.py)
  ptx::griddepcontrol_wait();
  // launches.py: px.launch_dependents()  (called at grouped_blackwell.py)
  ptx::griddepcontrol_launch_dependents();
  // grouped_blackwell.py: rows = px.load(TABLE[3, 0])
  const int rows = ptx::inside(3, TABLE.shape[0]) && ptx::inside(0, TABLE.shape[1]) ? *(TABLE.data + 3 * TABLE.stride[0]) : 0;
  // grouped_blackwell.py: columns = px.cdiv(W.shape[1], CN * BN)
  const int columns = ptx::wrap_add((W_size1 >> 8), ((int)((W_size1 & 255) != 0)));
  // grouped_blackwell.py: half, x, y, row, column, fillers, px.cdiv(A.shape[1], BK), rows, columns, px.cluster.id(), rows * columns,
  const int t = ptx::wrap_add((A_size1 >> 6), ((int)((A_size1 & 63) != 0)));
  const int t_1 = ptx::wrap_mul(rows, columns);
  // grouped_blackwell.py: px.num_blocks(0) // (CTAS * CN), BM, BN, BK, CTAS, CM, CN, config.group, False,
  const int t_2 = blocks_x >> 1;
  // grouped_blackwell.py: with px.warps(FETCHING_WARP, 1):
  __syncthreads();  // all threads are done with tmem_address at line 115 before the elected thread arrives
  if (px_warp_id == 4) {  // warp 4
    const int px_warp = px_warp_id - 4;
    const bool px_one = ptx::elect_sync();
    // grouped_blackwell.py: first = unit.y * high  (called at grouped_blackwell.py)
    const int first = ptx::wrap_mul(rank, 64);
    // grouped_blackwell.py: for tile in range(unit.first, unit.count, unit.step):  (called at grouped_blackwell.py)
    int stage = 0;
    int parity = 0;
    #pragma unroll 1
    for (int tile = cluster; tile < t_1; tile += t_2) {
      unsigned band;
      // orders.py: tile = px.u32(t)  (called at grouped_blackwell.py)
      const unsigned tile_1 = (unsigned)tile;
      // orders.py: tiles = px.u32(group * columns)  # unsigned: a division costs half of a signed one that rounds down  (called at grouped_blackwell.py)
      const unsigned columns_1 = (unsigned)columns;
      // orders.py: if tile >= tiles:  # of few tiles none: one division less before the first copy  (called at grouped_blackwell.py)
      if (tile_1 >= columns_1) {
        // orders.py: band = tile // tiles  (called at grouped_blackwell.py)
        // orders.py: if tile >= tiles:  # of few tiles none: one division less before the first copy  (called at grouped_blackwell.py)
        band = ptx::floor_div<unsigned>(tile_1, columns_1);
      } else {
        band = 0u;
      }
      // orders.py: rest = tile - band * tiles  (called at grouped_blackwell.py)
      const unsigned rest = tile_1 - (band * columns_1);
      // orders.py: height = min(px.u32(group), px.u32(rows) - band * group)  (called at grouped_blackwell.py)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(1u, (rows_1 - band));
      // orders.py: column = rest // height  (called at grouped_blackwell.py)
      const unsigned column_1 = ptx::floor_div<unsigned>(rest, height);
      // orders.py: return px.i32(band * group + rest - column * height), px.i32(column)  (called at grouped_blackwell.py)
      const int t_3 = (int)((band + rest) - (column_1 * height));
      const int column_2 = (int)column_1;
      // grouped_blackwell.py: group = px.load(TABLE[0, t])  (called at grouped_blackwell.py)
      const int group = ptx::inside(0, TABLE.shape[0]) && ptx::inside(t_3, TABLE.shape[1]) ? *(TABLE.data + t_3) : 0;
      // grouped_blackwell.py: m = px.load(TABLE[1, t]) + unit.half * unit.BM + first  (called at grouped_blackwell.py)
      const int t_4 = ptx::inside(1, TABLE.shape[0]) && ptx::inside(t_3, TABLE.shape[1]) ? *(TABLE.data + TABLE.stride[0] + t_3) : 0;
      const int m = ptx::wrap_add(t_4, first);
      // grouped_blackwell.py: n = (j * unit.CN + unit.y) * unit.BN + unit.half * wide  (called at grouped_blackwell.py)
      const int n = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(column_2, 2), rank)), 128);
      // grouped_blackwell.py: rows = px.load(I[m : m + high], fill=-1)  (called at grouped_blackwell.py)
      int rows_2[4];
      {
        const unsigned x0 = (unsigned)m + (px_lane & 15) * 4;
        int* const p = I.data + ((int)x0);
        if (m % 4 == 0) {
          if (ptx::inside(x0, I.shape[0])) ptx::load_vector<4>(rows_2, p);
          else ptx::fill_vector<4>(rows_2, (-1));
        } else {
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            rows_2[i] = ptx::inside(x0 + i, I.shape[0]) ? *(p + i) : (-1);
          }
        }
      }
      // grouped_blackwell.py: for k in range(0, unit.steps * unit.BK, unit.BK):  (called at grouped_blackwell.py)
      int stage_1 = stage;
      int parity_1 = parity;
      #pragma unroll 1
      for (int k = 0; k < ptx::wrap_mul(t, 64); k += 64) {
        // grouped_blackwell.py: ring.empty[s].wait(ring.turn.parity ^ 1)  (called at grouped_blackwell.py)
        ptx::mbarrier_wait_parity(empty + 8 * stage_1, parity_1 ^ 1);
        // grouped_blackwell.py: with ring.full[s].transaction():  (called at grouped_blackwell.py)
        __syncwarp();  // all threads have passed the wait at line 53 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(full + 8 * stage_1, 32768);
        }
        // grouped_blackwell.py: px.tma.gather(A, rows, k, mine, ring.full[s], multicast=unit.row if unit.CN > 1 else None)  (called at grouped_blackwell.py)
        {
          __syncwarp();  // all that the elected lane did is done
          // four rows: gather4 of a box of 1 x 64, 128-byte swizzle
          if (px_lane < 16) {
            ptx::cp_async_bulk_tensor_2d_gather4_multicast(a_addr + stage_1 * 16384 + first * 128 + (px_lane * 4) * 128, &A_map, k, rows_2[0], rows_2[1], rows_2[2], rows_2[3], full + 8 * stage_1, 0x3);
          }
        }
        // grouped_blackwell.py: px.tma.load(W[group, n : n + wide, k : k + unit.BK], ring.b[s], ring.full[s], two_cta=unit.CTAS == 2)  (called at grouped_blackwell.py)
        if (px_one) {
          // tensor copy: a box of 1 x 128 x 64, 128-byte swizzle
          ptx::cp_async_bulk_tensor_3d_shared_global(b_addr + stage_1 * 16384, &W_map, k, n, group, full + 8 * stage_1);
        }
        // grouped_blackwell.py: ring.turn.advance()  (called at grouped_blackwell.py)
        const int t_5 = ptx::wrap_add(stage_1, 1);
        const bool t_6 = t_5 == 3;
        stage_1 = t_6 ? 0 : t_5;
        parity_1 = parity_1 ^ ((int)t_6);
      }
      // grouped_blackwell.py: for k in range(0, unit.steps * unit.BK, unit.BK):  (called at grouped_blackwell.py)
      stage = stage_1;
      parity = parity_1;
    }
  } else if (px_warp_id == 5) {  // warp 5
    const bool px_one = ptx::elect_sync();
    // matmul_blackwell.py: for _ in range(unit.first, unit.count, unit.step):  (called at grouped_blackwell.py)
    int stage = 0;
    int parity = 0;
    int stage_1 = 0;
    int parity_1 = 0;
    #pragma unroll 1
    for (int t_3 = cluster; t_3 < t_1; t_3 += t_2) {
      // matmul_blackwell.py: drained[t].wait(held.parity ^ 1)  (called at grouped_blackwell.py)
      ptx::mbarrier_wait_parity(drained + 8 * stage_1, parity_1 ^ 1);
      // matmul_blackwell.py: for k in range(unit.steps):  (called at grouped_blackwell.py)
      int stage_2 = stage;
      int parity_2 = parity;
      #pragma unroll 1
      for (int k = 0; k < t; ++k) {
        // matmul_blackwell.py: self.full[s].wait(self.turn.parity)  (called at grouped_blackwell.py)
        ptx::mbarrier_wait_parity(full + 8 * stage_2, parity_2);
        // matmul_blackwell.py: left, right, acc[t], accumulate=k > 0, scale_a=scale_a, scale_b=scale_b, two_cta=unit.CTAS == 2  (called at grouped_blackwell.py)
        // matmul_blackwell.py: px.tcgen05.mma(  (called at grouped_blackwell.py)
        ptx::tcgen05_fence_after_thread_sync();
        if (px_one) {
          {
            const unsigned long long px_a = ptx::tcgen05_descriptor(a_addr + stage_2 * 16384, 0x4000404000010000ull);
            const unsigned long long px_b = ptx::tcgen05_descriptor(b_addr + stage_2 * 16384, 0x4000404000010000ull);
            const unsigned px_d = px_tmem + stage_1 * 128;
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a, px_b, 0x8200490u, k > 0);
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 2, px_b + 2, 0x8200490u, true);
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 4, px_b + 4, 0x8200490u, true);
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 6, px_b + 6, 0x8200490u, true);
          }
        }
        // matmul_blackwell.py: px.tcgen05.commit(  (called at grouped_blackwell.py)
        __syncwarp();  // all threads have passed the wait at line 181 before the elected thread goes on
        if (px_one) {
          ptx::tcgen05_commit_cta_group_1_multicast(empty + 8 * stage_2, (unsigned short)fillers);
        }
        // matmul_blackwell.py: self.turn.advance()  (called at grouped_blackwell.py)
        const int t_4 = ptx::wrap_add(stage_2, 1);
        const bool t_5 = t_4 == 3;
        stage_2 = t_5 ? 0 : t_4;
        parity_2 = parity_2 ^ ((int)t_5);
      }
      // matmul_blackwell.py: for k in range(unit.steps):  (called at grouped_blackwell.py)
      // matmul_blackwell.py: px.tcgen05.commit(  (called at grouped_blackwell.py)
      __syncwarp();  // all threads have passed the wait at line 181 before the elected thread goes on
      if (px_one) {
        ptx::tcgen05_commit_cta_group_1(ready + 8 * stage_1);
      }
      // matmul_blackwell.py: held.advance()  (called at grouped_blackwell.py)
      const int t_4 = ptx::wrap_add(stage_1, 1);
      const bool t_5 = t_4 == 2;
      stage = stage_2;
      parity = parity_2;
      stage_1 = t_5 ? 0 : t_4;
      parity_1 = parity_1 ^ ((int)t_5);
    }
  } else if (px_warp_id < 4) {  // warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    // grouped_blackwell.py: for tile in range(unit.first, unit.count, unit.step):
    int stage = 0;
    int parity = 0;
    #pragma unroll 1
    for (int tile = cluster; tile < t_1; tile += t_2) {
      unsigned band;
      // orders.py: tile = px.u32(t)  (called at grouped_blackwell.py)
      const unsigned tile_1 = (unsigned)tile;
      // orders.py: tiles = px.u32(group * columns)  # unsigned: a division costs half of a signed one that rounds down  (called at grouped_blackwell.py)
      const unsigned columns_1 = (unsigned)columns;
      // orders.py: if tile >= tiles:  # of few tiles none: one division less before the first copy  (called at grouped_blackwell.py)
      if (tile_1 >= columns_1) {
        // orders.py: band = tile // tiles  (called at grouped_blackwell.py)
        // orders.py: if tile >= tiles:  # of few tiles none: one division less before the first copy  (called at grouped_blackwell.py)
        band = ptx::floor_div<unsigned>(tile_1, columns_1);
      } else {
        band = 0u;
      }
      // orders.py: rest = tile - band * tiles  (called at grouped_blackwell.py)
      const unsigned rest = tile_1 - (band * columns_1);
      // orders.py: height = min(px.u32(group), px.u32(rows) - band * group)  (called at grouped_blackwell.py)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(1u, (rows_1 - band));
      // orders.py: column = rest // height  (called at grouped_blackwell.py)
      const unsigned column_1 = ptx::floor_div<unsigned>(rest, height);
      // orders.py: return px.i32(band * group + rest - column * height), px.i32(column)  (called at grouped_blackwell.py)
      const int i_1 = (int)((band + rest) - (column_1 * height));
      const int column_2 = (int)column_1;
      // grouped_blackwell.py: m = px.load(TABLE[1, i]) + half * BM
      const int m = ptx::inside(1, TABLE.shape[0]) && ptx::inside(i_1, TABLE.shape[1]) ? *(TABLE.data + TABLE.stride[0] + i_1) : 0;
      // grouped_blackwell.py: n = (j * CN + y) * BN
      const int n = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(column_2, 2), rank)), 128);
      // grouped_blackwell.py: end = px.load(TABLE[2, i])
      const int end = ptx::inside(2, TABLE.shape[0]) && ptx::inside(i_1, TABLE.shape[1]) ? *(TABLE.data + 2 * TABLE.stride[0] + i_1) : 0;
      // grouped_blackwell.py: ready[t].wait(held.parity)
      ptx::mbarrier_wait_parity(ready + 8 * stage, parity);
      // grouped_blackwell.py: sums = px.tcgen05.load(acc[t][:, part * width : part * width + width])
      ptx::tcgen05_fence_after_thread_sync();
      float t_3[64];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + stage * 128 + (px_warp_id << 21);
        ptx::tcgen05_ld_16x256b_x8_float(t_3, px_at);
        ptx::tcgen05_ld_16x256b_x8_float(t_3 + 32, px_at + 1048576);
      }
      // grouped_blackwell.py: px.tma.wait(out_buffers(PARTS) - 1, read=True)  # the buffer's last part has left it
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // grouped_blackwell.py: sums = px.tcgen05.load(acc[t][:, part * width : part * width + width])
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_3);
      // grouped_blackwell.py: px.store(buffer, sums.to(Y.dtype))  (called at grouped_blackwell.py)
      px_bf16 sums[64];
      #pragma unroll
      for (int i = 0; i < 64; i += 2) ptx::bf16_pair_from_float(sums + i, t_3[i], t_3[i + 1]);
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 164 before out is written
      {
        const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 256);
        const unsigned a = out_addr;
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
          unsigned words[4];
          ptx::pack_words<8>(words, sums + 8 * i);
          ptx::stmatrix_x4(a + 16 * ((o ^ ((i & 3) * 2)) + (i >> 2) * 128), words);
        }
      }
      // grouped_blackwell.py: px.fence.async_proxy()  (called at grouped_blackwell.py)
      ptx::fence_proxy_async_shared_cta();
      // grouped_blackwell.py: if m + BM <= end:  (called at grouped_blackwell.py)
      if (ptx::wrap_add(m, 128) <= end) {
        // grouped_blackwell.py: px.tma.store(buffer, Y[m : m + BM, n : n + WIDTH])  (called at grouped_blackwell.py)
        ptx::bar_sync<1, 128>();  // out was written at line 80 before out is read by a copy
        if (px_one) {
          // tensor copy: a box of 128 x 64, 128-byte swizzle
          if (m >= 0) {
            ptx::cp_async_bulk_tensor_2d_global_shared(&Y_map, n, m, out_addr);
          } else {
            #pragma unroll 1
            for (int px_0 = 0; px_0 < 128; ++px_0)
            #pragma unroll 1
            for (int px_1 = 0; px_1 < 64; ++px_1)
            {
              const unsigned px_at0 = (unsigned)m + px_0;
              const unsigned px_at1 = (unsigned)n + px_1;
              const unsigned px_byte = px_0 * 128 + px_1 * 2;
              if (ptx::inside(px_at0, Y.shape[0]) && ptx::inside(px_at1, Y.shape[1]))
                Y.data[px_at0 * Y.stride[0] + px_at1 * Y.stride[1]] = *reinterpret_cast<const px_bf16*>(px_smem + 98304 + (px_byte ^ ((px_byte >> 3) & 112)));
            }
          }
        }
      } else {
        // grouped_blackwell.py: px.tma.scatter(buffer, px.where(place < end, place, -1), n, Y)  (called at grouped_blackwell.py)
        ptx::bar_sync<1, 128>();  // out was written at line 80 before out is read by a copy
        // grouped_blackwell.py: place = m + px.arange(BM)  (called at grouped_blackwell.py)
        int t_4[4];
        {
          const int c0 = px_lane * 4;
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            t_4[i] = c0 + i;
          }
        }
        int place[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) place[i] = ptx::wrap_add(m, t_4[i]);
        // grouped_blackwell.py: px.tma.scatter(buffer, px.where(place < end, place, -1), n, Y)  (called at grouped_blackwell.py)
        bool t_5[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_5[i] = place[i] < end;
        int t_6[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_6[i] = t_5[i] ? place[i] : (-1);
        if (px_warp_id == 0) {
          // four rows: scatter4 of a box of 1 x 64, 128-byte swizzle
          for (int px_q = 0; px_q < 32; ++px_q) {
            const int px_r0 = __shfl_sync(0xffffffffu, t_6[0], px_q);
            const int px_r1 = __shfl_sync(0xffffffffu, t_6[1], px_q);
            const int px_r2 = __shfl_sync(0xffffffffu, t_6[2], px_q);
            const int px_r3 = __shfl_sync(0xffffffffu, t_6[3], px_q);
            if (px_one) {
              ptx::cp_async_bulk_tensor_2d_scatter4(&Y_map_1, n, px_r0 < 0 ? 0x7fffffff : px_r0, px_r1 < 0 ? 0x7fffffff : px_r1, px_r2 < 0 ? 0x7fffffff : px_r2, px_r3 < 0 ? 0x7fffffff : px_r3, out_addr + (px_q * 4) * 128);
            }
          }
        }
      }
      // grouped_blackwell.py: px.tma.commit()  (called at grouped_blackwell.py)
      if (px_one) {
        ptx::cp_async_bulk_commit_group();
      }
      // grouped_blackwell.py: sums = px.tcgen05.load(acc[t][:, part * width : part * width + width])
      ptx::tcgen05_fence_after_thread_sync();
      float t_4[64];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + stage * 128 + 64 + (px_warp_id << 21);
        ptx::tcgen05_ld_16x256b_x8_float(t_4, px_at);
        ptx::tcgen05_ld_16x256b_x8_float(t_4 + 32, px_at + 1048576);
      }
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_4);
      // grouped_blackwell.py: drained[t].arrive(ctas=leader)
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // all threads are done with acc at line 153 before the elected thread arrives
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(drained + 8 * stage);
        // grouped_blackwell.py: px.tma.wait(out_buffers(PARTS) - 1, read=True)  # the buffer's last part has left it
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // grouped_blackwell.py: store_rows(sums, out[part % out_buffers(PARTS)], Y, m, n + part * width, end, BM, width)
      const int t_5 = ptx::wrap_add(n, 64);
      // grouped_blackwell.py: px.store(buffer, sums.to(Y.dtype))  (called at grouped_blackwell.py)
      px_bf16 sums_1[64];
      #pragma unroll
      for (int i = 0; i < 64; i += 2) ptx::bf16_pair_from_float(sums_1 + i, t_4[i], t_4[i + 1]);
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 164 before out is written
      {
        const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 256);
        const unsigned a = out_addr;
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
          unsigned words[4];
          ptx::pack_words<8>(words, sums_1 + 8 * i);
          ptx::stmatrix_x4(a + 16 * ((o ^ ((i & 3) * 2)) + (i >> 2) * 128 + 1024), words);
        }
      }
      // grouped_blackwell.py: px.fence.async_proxy()  (called at grouped_blackwell.py)
      ptx::fence_proxy_async_shared_cta();
      // grouped_blackwell.py: if m + BM <= end:  (called at grouped_blackwell.py)
      if (ptx::wrap_add(m, 128) <= end) {
        // grouped_blackwell.py: px.tma.store(buffer, Y[m : m + BM, n : n + WIDTH])  (called at grouped_blackwell.py)
        ptx::bar_sync<1, 128>();  // out was written at line 80 before out is read by a copy
        if (px_one) {
          // tensor copy: a box of 128 x 64, 128-byte swizzle
          if (m >= 0) {
            ptx::cp_async_bulk_tensor_2d_global_shared(&Y_map, t_5, m, out_addr + 16384);
          } else {
            #pragma unroll 1
            for (int px_0 = 0; px_0 < 128; ++px_0)
            #pragma unroll 1
            for (int px_1 = 0; px_1 < 64; ++px_1)
            {
              const unsigned px_at0 = (unsigned)m + px_0;
              const unsigned px_at1 = (unsigned)t_5 + px_1;
              const unsigned px_byte = px_0 * 128 + px_1 * 2 + 16384;
              if (ptx::inside(px_at0, Y.shape[0]) && ptx::inside(px_at1, Y.shape[1]))
                Y.data[px_at0 * Y.stride[0] + px_at1 * Y.stride[1]] = *reinterpret_cast<const px_bf16*>(px_smem + 98304 + (px_byte ^ ((px_byte >> 3) & 112)));
            }
          }
        }
      } else {
        // grouped_blackwell.py: px.tma.scatter(buffer, px.where(place < end, place, -1), n, Y)  (called at grouped_blackwell.py)
        ptx::bar_sync<1, 128>();  // out was written at line 80 before out is read by a copy
        // grouped_blackwell.py: place = m + px.arange(BM)  (called at grouped_blackwell.py)
        int t_6[4];
        {
          const int c0 = px_lane * 4;
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            t_6[i] = c0 + i;
          }
        }
        int place[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) place[i] = ptx::wrap_add(m, t_6[i]);
        // grouped_blackwell.py: px.tma.scatter(buffer, px.where(place < end, place, -1), n, Y)  (called at grouped_blackwell.py)
        bool t_7[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_7[i] = place[i] < end;
        int t_8[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_8[i] = t_7[i] ? place[i] : (-1);
        if (px_warp_id == 0) {
          // four rows: scatter4 of a box of 1 x 64, 128-byte swizzle
          for (int px_q = 0; px_q < 32; ++px_q) {
            const int px_r0 = __shfl_sync(0xffffffffu, t_8[0], px_q);
            const int px_r1 = __shfl_sync(0xffffffffu, t_8[1], px_q);
            const int px_r2 = __shfl_sync(0xffffffffu, t_8[2], px_q);
            const int px_r3 = __shfl_sync(0xffffffffu, t_8[3], px_q);
            if (px_one) {
              ptx::cp_async_bulk_tensor_2d_scatter4(&Y_map_1, t_5, px_r0 < 0 ? 0x7fffffff : px_r0, px_r1 < 0 ? 0x7fffffff : px_r1, px_r2 < 0 ? 0x7fffffff : px_r2, px_r3 < 0 ? 0x7fffffff : px_r3, out_addr + 16384 + (px_q * 4) * 128);
            }
          }
        }
      }
      // grouped_blackwell.py: px.tma.commit()  (called at grouped_blackwell.py)
      if (px_one) {
        ptx::cp_async_bulk_commit_group();
      }
      // grouped_blackwell.py: held.advance()
      const int t_6 = ptx::wrap_add(stage, 1);
      const bool t_7 = t_6 == 2;
      stage = t_7 ? 0 : t_6;
      parity = parity ^ ((int)t_7);
    }
    // grouped_blackwell.py: px.tma.wait(0)
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
    // grouped_blackwell.py: with px.warps(0, EPILOGUE_WARPS):
    ptx::tcgen05_fence_before_thread_sync();
  }
  // grouped_blackwell.py: def grouped_blackwell(
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // grouped_blackwell.py: acc = px.tmem((ACCS, BM, BN), px.f32)
  ptx::tcgen05_fence_after_thread_sync();
  if (px_warp_id == 0) {
    ptx::tcgen05_dealloc_cta_group_1_256(px_tmem);
  }
}
