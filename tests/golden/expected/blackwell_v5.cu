// blackwell_v5(BM=128, BN=256, BK=64, STAGES=6, GROUP=8, PART=64) for sm_100a, from v5.py:16
// 224 threads, 229680 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

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
//   tcgen05_alloc_cta_group_2_512
//   tcgen05_relinquish_alloc_permit_cta_group_2_sync_aligned
//   mbarrier_init_shared_cta
//   cluster_ctarank
//   fence_mbarrier_init_release_cluster
//   barrier_cluster_arrive_relaxed_aligned
//   shift_right
//   wrap_add
//   barrier_cluster_wait_acquire_aligned
//   wrap_mul
//   floor_div
//   minimum
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global_pair
//   mapa_shared_cluster
//   clusterlaunchcontrol_query_cancel
//   fence_proxy_async_shared_cta
//   cluster_ctaid_x
//   mbarrier_arrive_shared_cluster
//   elect_sync
//   tcgen05_fence_after_thread_sync
//   tcgen05_mma_cta_group_2_f16
//   tcgen05_descriptor
//   tcgen05_commit_cta_group_2_multicast
//   shift_left
//   clusterlaunchcontrol_try_cancel_multicast
//   tcgen05_ld_16x256b_x8_float
//   cp_async_bulk_wait_group_read_1
//   tcgen05_wait_ld_sync_aligned
//   keep_float
//   bf16_pair_from_float
//   tcgen05_fence_before_thread_sync
//   bar_sync
//   bits
//   pack_words
//   stmatrix_x4
//   cp_async_bulk_tensor_2d_global_shared
//   cp_async_bulk_commit_group
//   cp_async_bulk_wait_group_0
//   barrier_cluster_arrive_release_aligned
//   tcgen05_dealloc_cta_group_2_512
//   shared_address

extern "C" __global__ void __launch_bounds__(224, 1) blackwell_v5_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<px_bf16, 2> B,
    const __grid_constant__ px_array<px_bf16, 2> C,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map,
    const __grid_constant__ px_tensor_map C_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned tmem_address_addr = px_base + 229504;
  const unsigned pipe_full = px_base + 229512;
  const unsigned pipe_empty = px_base + 229560;
  const unsigned accs_full = px_base + 229608;
  const unsigned accs_empty = px_base + 229624;
  const unsigned tiles_full = px_base + 229640;
  const unsigned tiles_empty = px_base + 229656;
  unsigned* const tmem_address = reinterpret_cast<unsigned*>(px_smem + 229504);
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 98304;
  const unsigned answers_addr = px_base + 229376;
  const unsigned out_addr = px_base + 196608;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
    ptx::prefetch_tensormap(&C_map);
  }
  // v5.py:22: acc = px.tmem((2, BM, BN), px.f32)
  if (px_warp_id == 0) {
    // acc: accumulator, columns 0 to 511
    ptx::tcgen05_alloc_cta_group_2_512(tmem_address_addr);
    ptx::tcgen05_relinquish_alloc_permit_cta_group_2_sync_aligned();
  }
  // v5.py:24: pipe, accs, tiles = px.pipe(STAGES), px.pipe(2), px.pipe(2)
  if (px_one) {
    for (int px_i = 0; px_i < 6; ++px_i) ptx::mbarrier_init_shared_cta(pipe_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 6; ++px_i) ptx::mbarrier_init_shared_cta(pipe_empty + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(accs_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(accs_empty + 8 * px_i, (0x2 >> ptx::cluster_ctarank() & 1 ? 1 : 2));
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(tiles_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(tiles_empty + 8 * px_i, (0x2 >> ptx::cluster_ctarank() & 1 ? 4 : 8));
    // v5.py:16: def blackwell_v5(A, B, C, *, BM=128, BN=256, BK=64, STAGES=6, GROUP=8, PART=64):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // tiles.py:32: with tiles.consume() as s:  (called at v5.py:37)
  const int rank = ptx::cluster_ctarank();
  const int release_ctas = (((ptx::shift_right<int>(2, rank)) & 1) != 0) ? 3 : 1;
  // v5.py:46: px.tcgen05.commit(pipe, two_cta=True)
  const int rank_1 = ptx::cluster_ctarank();
  const int release_ctas_1 = (((ptx::shift_right<int>(2, rank_1)) & 1) != 0) ? 2 : 3;
  // v5.py:17: rank = px.cluster.rank()
  const int rank_2 = ptx::cluster_ctarank();
  // v5.py:25: steps = px.cdiv(A.shape[1], BK)
  const int A_size1 = A.shape[1];
  // v5.py:26: rows, columns = px.cdiv(C.shape[0], 2 * BM), px.cdiv(C.shape[1], BN)
  const int C_size0 = C.shape[0];
  const int C_size1 = C.shape[1];
  // v5.py:27: more, block = True, px.block_id(0)  # two blocks are a tile
  const int block_x = (int)blockIdx.x;
  // v5.py:25: steps = px.cdiv(A.shape[1], BK)
  const int steps = ptx::wrap_add((A_size1 >> 6), ((int)((A_size1 & 63) != 0)));
  // v5.py:26: rows, columns = px.cdiv(C.shape[0], 2 * BM), px.cdiv(C.shape[1], BN)
  const int rows = ptx::wrap_add((C_size0 >> 8), ((int)((C_size0 & 255) != 0)));
  const int columns = ptx::wrap_add((C_size1 >> 8), ((int)((C_size1 & 255) != 0)));
  // v5.py:16: def blackwell_v5(A, B, C, *, BM=128, BN=256, BK=64, STAGES=6, GROUP=8, PART=64):
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // v5.py:22: acc = px.tmem((2, BM, BN), px.f32)
  __syncthreads();  // the elected thread is done with tmem_address at line 22 before tmem_address is read
  const unsigned px_tmem = *(volatile unsigned*)tmem_address;
  // v5.py:29: with px.warps(4, 1):
  __syncthreads();  // all threads are done with tmem_address at line 22 before the elected thread arrives
  if (px_warp_id == 4) {  // warp 4
    const bool px_one = ptx::elect_sync();
    // v5.py:30: while more:
    int filling = 0;
    int filling_parity = 0;
    int taking = 0;
    int taking_parity = 0;
    bool more = true;
    int block = block_x;
    while (more) {
      // v5.py:31: i, j = grouped(block // 2, rows, columns, GROUP)
      // tiles.py:10: tile = px.u32(t)  # unsigned: a division costs half of a signed one that rounds down  (called at v5.py:31)
      const unsigned tile = (unsigned)(block >> 1);
      // tiles.py:11: band = tile // px.u32(group * columns)  (called at v5.py:31)
      const unsigned band = ptx::floor_div<unsigned>(tile, ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py:12: rest = tile - band * px.u32(group * columns)  (called at v5.py:31)
      const unsigned rest = tile - (band * ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py:13: height = min(px.u32(group), px.u32(rows) - band * group)  (called at v5.py:31)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(8u, (rows_1 - (band * 8u)));
      // tiles.py:14: column = rest // height  (called at v5.py:31)
      const unsigned column = ptx::floor_div<unsigned>(rest, height);
      // tiles.py:15: return px.i32(band * group + rest - column * height), px.i32(column)  (called at v5.py:31)
      const int i = (int)(((band * 8u) + rest) - (column * height));
      const int column_1 = (int)column;
      // v5.py:32: m, n = (2 * i + rank) * BM, j * BN + rank * half
      const int m = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(2, i), rank_2)), 128);
      const int n = ptx::wrap_add(ptx::wrap_mul(column_1, 256), ptx::wrap_mul(rank_2, 128));
      // v5.py:33: for k in range(0, steps * BK, BK):
      int filling_1 = filling;
      int filling_parity_1 = filling_parity;
      #pragma unroll 1
      for (int k = 0; k < ptx::wrap_mul(steps, 64); k += 64) {
        // v5.py:34: with pipe.produce() as s:  # the even CTA expects the bytes of both, the odd one nothing
        ptx::mbarrier_wait_parity(pipe_empty + 8 * filling_1, filling_parity_1 ^ 1);
        const int rank_3 = ptx::cluster_ctarank();
        const int nbytes = (rank_3 == 1) ? 0 : 65536;
        const int rank_4 = ptx::cluster_ctarank();
        if (rank_4 == 0) {
          __syncwarp();  // all threads have passed the wait at line 34 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(pipe_full + 8 * filling_1, nbytes);
          }
        }
        // v5.py:35: px.tma.load(A[m : m + BM, k : k + BK], a[s], pipe.full[s], two_cta=True)
        __syncwarp();  // all threads have passed the wait at line 34 before the elected thread goes on
        if (px_one) {
          // tensor copy: a box of 128 x 64, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global_pair(a_addr + filling_1 * 16384, &A_map, k, m, ptx::mapa_shared_cluster(pipe_full + 8 * filling_1, ptx::cluster_ctarank() & ~1));
          // v5.py:36: px.tma.load(B[n : n + half, k : k + BK], b[s], pipe.full[s], two_cta=True)
          // tensor copy: a box of 128 x 64, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global_pair(b_addr + filling_1 * 16384, &B_map, k, n, ptx::mapa_shared_cluster(pipe_full + 8 * filling_1, ptx::cluster_ctarank() & ~1));
        }
        // v5.py:34: with pipe.produce() as s:  # the even CTA expects the bytes of both, the odd one nothing
        const int t = ptx::wrap_add(filling_1, 1);
        const bool t_1 = t == 6;
        filling_1 = t_1 ? 0 : t;
        filling_parity_1 = filling_parity_1 ^ ((int)t_1);
      }
      // v5.py:33: for k in range(0, steps * BK, BK):
      // tiles.py:32: with tiles.consume() as s:  (called at v5.py:37)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking, taking_parity);
      // tiles.py:33: more, block = px.clc.query(answers[s])  (called at v5.py:37)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      const int block_1 = granted ? (first_x + ptx::cluster_ctaid_x()) + (int)gridDim.x * (first_y + (int)gridDim.y * first_z) : -1;
      // tiles.py:32: with tiles.consume() as s:  (called at v5.py:37)
      __syncwarp();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (((unsigned)release_ctas >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(tiles_empty + 8 * taking, px_lane));
      const int t = ptx::wrap_add(taking, 1);
      const bool t_1 = t == 2;
      // v5.py:37: more, block = next_block(tiles, answers)
      filling = filling_1;
      filling_parity = filling_parity_1;
      taking = t_1 ? 0 : t;
      taking_parity = taking_parity ^ ((int)t_1);
      more = granted;
      block = block_1;
    }
  } else if (px_warp_id == 5) {  // warp 5
    const bool px_one = ptx::elect_sync();
    // v5.py:40: while more:
    int taking = 0;
    int taking_parity = 0;
    int filling = 0;
    int filling_parity = 0;
    int taking_1 = 0;
    int taking_parity_1 = 0;
    bool more = true;
    while (more) {
      int taking_2;
      int taking_parity_2;
      int filling_1;
      int filling_parity_1;
      // v5.py:41: if rank == 0:
      if (rank_2 == 0) {
        // v5.py:42: t = accs.acquire()  # the epilogues of both CTAs have read it
        ptx::mbarrier_wait_parity(accs_empty + 8 * filling, filling_parity ^ 1);
        // v5.py:43: for k in range(steps):
        int taking_3 = taking;
        int taking_parity_3 = taking_parity;
        #pragma unroll 1
        for (int k = 0; k < steps; ++k) {
          // v5.py:44: s = pipe.wait()
          ptx::mbarrier_wait_parity(pipe_full + 8 * taking_3, taking_parity_3);
          // v5.py:45: px.tcgen05.mma(a[s], b[s].T, acc[t], accumulate=k > 0, two_cta=True)
          ptx::tcgen05_fence_after_thread_sync();
          if (px_one) {
            {
              const unsigned long long px_a = ptx::tcgen05_descriptor(a_addr + taking_3 * 16384, 0x4000404000010000ull);
              const unsigned long long px_b = ptx::tcgen05_descriptor(b_addr + taking_3 * 16384, 0x4000404000010000ull);
              const unsigned px_d = px_tmem + filling * 256;
              ptx::tcgen05_mma_cta_group_2_f16(px_d, px_a, px_b, 0x10400490u, k > 0);
              ptx::tcgen05_mma_cta_group_2_f16(px_d, px_a + 2, px_b + 2, 0x10400490u, true);
              ptx::tcgen05_mma_cta_group_2_f16(px_d, px_a + 4, px_b + 4, 0x10400490u, true);
              ptx::tcgen05_mma_cta_group_2_f16(px_d, px_a + 6, px_b + 6, 0x10400490u, true);
            }
          }
          // v5.py:46: px.tcgen05.commit(pipe, two_cta=True)
          __syncwarp();  // all threads have passed the wait at line 42 before the elected thread goes on
          if (px_one) {
            ptx::tcgen05_commit_cta_group_2_multicast(pipe_empty + 8 * taking_3, (unsigned short)release_ctas_1);
          }
          const int t = ptx::wrap_add(taking_3, 1);
          const bool t_1 = t == 6;
          taking_3 = t_1 ? 0 : t;
          taking_parity_3 = taking_parity_3 ^ ((int)t_1);
        }
        // v5.py:43: for k in range(steps):
        // v5.py:47: px.tcgen05.commit(accs, two_cta=True)
        __syncwarp();  // all threads have passed the wait at line 42 before the elected thread goes on
        if (px_one) {
          ptx::tcgen05_commit_cta_group_2_multicast(accs_full + 8 * filling, (unsigned short)(ptx::shift_left<int>(3, (rank_2 & (-2)))));
        }
        const int t = ptx::wrap_add(filling, 1);
        const bool t_1 = t == 2;
        // v5.py:41: if rank == 0:
        taking_2 = taking_3;
        taking_parity_2 = taking_parity_3;
        filling_1 = t_1 ? 0 : t;
        filling_parity_1 = filling_parity ^ ((int)t_1);
      } else {
        taking_2 = taking;
        taking_parity_2 = taking_parity;
        filling_1 = filling;
        filling_parity_1 = filling_parity;
      }
      // tiles.py:32: with tiles.consume() as s:  (called at v5.py:48)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking_1, taking_parity_1);
      // tiles.py:33: more, block = px.clc.query(answers[s])  (called at v5.py:48)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking_1 * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      // tiles.py:32: with tiles.consume() as s:  (called at v5.py:48)
      __syncwarp();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (((unsigned)release_ctas >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(tiles_empty + 8 * taking_1, px_lane));
      const int t = ptx::wrap_add(taking_1, 1);
      const bool t_1 = t == 2;
      // v5.py:48: more, block = next_block(tiles, answers)
      taking = taking_2;
      taking_parity = taking_parity_2;
      filling = filling_1;
      filling_parity = filling_parity_1;
      taking_1 = t_1 ? 0 : t;
      taking_parity_1 = taking_parity_1 ^ ((int)t_1);
      more = granted;
    }
  } else if (px_warp_id == 6) {  // warp 6
    const bool px_one = ptx::elect_sync();
    // tiles.py:23: while more:  (called at v5.py:51)
    int filling = 0;
    int filling_parity = 0;
    int taking = 0;
    int taking_parity = 0;
    bool more = true;
    while (more) {
      // tiles.py:24: with tiles.produce() as s:  # every role of every CTA has read the answer that was here  (called at v5.py:51)
      ptx::mbarrier_wait_parity(tiles_empty + 8 * filling, filling_parity ^ 1);
      __syncwarp();  // all threads have passed the wait at line 24 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(tiles_full + 8 * filling, 16);
      }
      // tiles.py:25: px.clc.try_cancel(answers[s], tiles.full[s])  (called at v5.py:51)
      if (rank_2 == 0) {
        if (px_one) {
          ptx::clusterlaunchcontrol_try_cancel_multicast(answers_addr + filling * 16, tiles_full + 8 * filling);
        }
      }
      // tiles.py:24: with tiles.produce() as s:  # every role of every CTA has read the answer that was here  (called at v5.py:51)
      const int t = ptx::wrap_add(filling, 1);
      const bool t_1 = t == 2;
      // tiles.py:32: with tiles.consume() as s:  (called at tiles.py:26)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking, taking_parity);
      // tiles.py:33: more, block = px.clc.query(answers[s])  (called at tiles.py:26)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      // tiles.py:32: with tiles.consume() as s:  (called at tiles.py:26)
      __syncwarp();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (((unsigned)release_ctas >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(tiles_empty + 8 * taking, px_lane));
      const int t_2 = ptx::wrap_add(taking, 1);
      const bool t_3 = t_2 == 2;
      // tiles.py:26: more, _ = next_block(tiles, answers)  (called at v5.py:51)
      filling = t_1 ? 0 : t;
      filling_parity = filling_parity ^ ((int)t_1);
      taking = t_3 ? 0 : t_2;
      taking_parity = taking_parity ^ ((int)t_3);
      more = granted;
    }
  } else if (px_warp_id < 4) {  // warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    // v5.py:54: while more:
    int taking = 0;
    int taking_parity = 0;
    int taking_1 = 0;
    int taking_parity_1 = 0;
    bool more = true;
    int block = block_x;
    while (more) {
      // v5.py:55: i, j = grouped(block // 2, rows, columns, GROUP)
      // tiles.py:10: tile = px.u32(t)  # unsigned: a division costs half of a signed one that rounds down  (called at v5.py:55)
      const unsigned tile = (unsigned)(block >> 1);
      // tiles.py:11: band = tile // px.u32(group * columns)  (called at v5.py:55)
      const unsigned band = ptx::floor_div<unsigned>(tile, ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py:12: rest = tile - band * px.u32(group * columns)  (called at v5.py:55)
      const unsigned rest = tile - (band * ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py:13: height = min(px.u32(group), px.u32(rows) - band * group)  (called at v5.py:55)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(8u, (rows_1 - (band * 8u)));
      // tiles.py:14: column = rest // height  (called at v5.py:55)
      const unsigned column = ptx::floor_div<unsigned>(rest, height);
      // tiles.py:15: return px.i32(band * group + rest - column * height), px.i32(column)  (called at v5.py:55)
      const int i = (int)(((band * 8u) + rest) - (column * height));
      const int column_1 = (int)column;
      // v5.py:56: m, n = (2 * i + rank) * BM, j * BN
      const int m = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(2, i), rank_2)), 128);
      const int n = ptx::wrap_mul(column_1, 256);
      // v5.py:57: t = accs.wait()
      ptx::mbarrier_wait_parity(accs_full + 8 * taking, taking_parity);
      // v5.py:59: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_fence_after_thread_sync();
      float t[64];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + taking * 256 + (px_warp_id << 21);
        ptx::tcgen05_ld_16x256b_x8_float(t, px_at);
        ptx::tcgen05_ld_16x256b_x8_float(t + 32, px_at + 1048576);
      }
      // v5.py:62: px.tma.wait(1, read=True)
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // v5.py:59: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t);
      // v5.py:63: px.store(out[part % 2], x.to(C.dtype))
      px_bf16 x[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(x + i_1, t[i_1], t[i_1 + 1]);
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 62 before out is written
      {
        const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 256);
        const unsigned a = out_addr;
        #pragma unroll
        for (int i_1 = 0; i_1 < 8; ++i_1) {
          unsigned words[4];
          ptx::pack_words<8>(words, x + 8 * i_1);
          ptx::stmatrix_x4(a + 16 * ((o ^ ((i_1 & 3) * 2)) + (i_1 >> 2) * 128), words);
        }
      }
      // v5.py:64: px.fence.async_proxy()
      ptx::fence_proxy_async_shared_cta();
      // v5.py:65: px.tma.store(out[part % 2], C[m : m + BM, n + part * PART : n + part * PART + PART])
      ptx::bar_sync<1, 128>();  // out was written at line 63 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, n, m, out_addr);
        // v5.py:66: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
      }
      // v5.py:59: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_fence_after_thread_sync();
      float t_1[64];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + taking * 256 + 64 + (px_warp_id << 21);
        ptx::tcgen05_ld_16x256b_x8_float(t_1, px_at);
        ptx::tcgen05_ld_16x256b_x8_float(t_1 + 32, px_at + 1048576);
      }
      // v5.py:62: px.tma.wait(1, read=True)
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // v5.py:59: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_1);
      // v5.py:63: px.store(out[part % 2], x.to(C.dtype))
      px_bf16 x_1[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(x_1 + i_1, t_1[i_1], t_1[i_1 + 1]);
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 62 before out is written
      {
        const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 256);
        const unsigned a = out_addr;
        #pragma unroll
        for (int i_1 = 0; i_1 < 8; ++i_1) {
          unsigned words[4];
          ptx::pack_words<8>(words, x_1 + 8 * i_1);
          ptx::stmatrix_x4(a + 16 * ((o ^ ((i_1 & 3) * 2)) + (i_1 >> 2) * 128 + 1024), words);
        }
      }
      // v5.py:64: px.fence.async_proxy()
      ptx::fence_proxy_async_shared_cta();
      // v5.py:65: px.tma.store(out[part % 2], C[m : m + BM, n + part * PART : n + part * PART + PART])
      ptx::bar_sync<1, 128>();  // out was written at line 63 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, ptx::wrap_add(n, 64), m, out_addr + 16384);
        // v5.py:66: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
      }
      // v5.py:59: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_fence_after_thread_sync();
      float t_2[64];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + taking * 256 + 128 + (px_warp_id << 21);
        ptx::tcgen05_ld_16x256b_x8_float(t_2, px_at);
        ptx::tcgen05_ld_16x256b_x8_float(t_2 + 32, px_at + 1048576);
      }
      // v5.py:62: px.tma.wait(1, read=True)
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // v5.py:59: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_2);
      // v5.py:63: px.store(out[part % 2], x.to(C.dtype))
      px_bf16 x_2[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(x_2 + i_1, t_2[i_1], t_2[i_1 + 1]);
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 62 before out is written
      {
        const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 256);
        const unsigned a = out_addr;
        #pragma unroll
        for (int i_1 = 0; i_1 < 8; ++i_1) {
          unsigned words[4];
          ptx::pack_words<8>(words, x_2 + 8 * i_1);
          ptx::stmatrix_x4(a + 16 * ((o ^ ((i_1 & 3) * 2)) + (i_1 >> 2) * 128), words);
        }
      }
      // v5.py:64: px.fence.async_proxy()
      ptx::fence_proxy_async_shared_cta();
      // v5.py:65: px.tma.store(out[part % 2], C[m : m + BM, n + part * PART : n + part * PART + PART])
      ptx::bar_sync<1, 128>();  // out was written at line 63 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, ptx::wrap_add(n, 128), m, out_addr);
        // v5.py:66: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
      }
      // v5.py:59: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_fence_after_thread_sync();
      float t_3[64];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + taking * 256 + 192 + (px_warp_id << 21);
        ptx::tcgen05_ld_16x256b_x8_float(t_3, px_at);
        ptx::tcgen05_ld_16x256b_x8_float(t_3 + 32, px_at + 1048576);
      }
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_3);
      // v5.py:61: accs.release()
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // all threads are done with acc at line 59 before the elected thread arrives
      if (px_warp_id == 0 && px_lane < 1) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(accs_empty + 8 * taking, px_lane));
      const int t_4 = ptx::wrap_add(taking, 1);
      const bool t_5 = t_4 == 2;
      // v5.py:62: px.tma.wait(1, read=True)
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // v5.py:63: px.store(out[part % 2], x.to(C.dtype))
      px_bf16 x_3[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(x_3 + i_1, t_3[i_1], t_3[i_1 + 1]);
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 62 before out is written
      {
        const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 256);
        const unsigned a = out_addr;
        #pragma unroll
        for (int i_1 = 0; i_1 < 8; ++i_1) {
          unsigned words[4];
          ptx::pack_words<8>(words, x_3 + 8 * i_1);
          ptx::stmatrix_x4(a + 16 * ((o ^ ((i_1 & 3) * 2)) + (i_1 >> 2) * 128 + 1024), words);
        }
      }
      // v5.py:64: px.fence.async_proxy()
      ptx::fence_proxy_async_shared_cta();
      // v5.py:65: px.tma.store(out[part % 2], C[m : m + BM, n + part * PART : n + part * PART + PART])
      ptx::bar_sync<1, 128>();  // out was written at line 63 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, ptx::wrap_add(n, 192), m, out_addr + 16384);
        // v5.py:66: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
      }
      // tiles.py:32: with tiles.consume() as s:  (called at v5.py:67)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking_1, taking_parity_1);
      // tiles.py:33: more, block = px.clc.query(answers[s])  (called at v5.py:67)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking_1 * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      const int block_1 = granted ? (first_x + ptx::cluster_ctaid_x()) + (int)gridDim.x * (first_y + (int)gridDim.y * first_z) : -1;
      // tiles.py:32: with tiles.consume() as s:  (called at v5.py:67)
      ptx::bar_sync<1, 128>();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (px_warp_id == 0 && ((unsigned)release_ctas >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(tiles_empty + 8 * taking_1, px_lane));
      const int t_6 = ptx::wrap_add(taking_1, 1);
      const bool t_7 = t_6 == 2;
      // v5.py:67: more, block = next_block(tiles, answers)
      taking = t_5 ? 0 : t_4;
      taking_parity = taking_parity ^ ((int)t_5);
      taking_1 = t_7 ? 0 : t_6;
      taking_parity_1 = taking_parity_1 ^ ((int)t_7);
      more = granted;
      block = block_1;
    }
    // v5.py:68: px.tma.wait(0)
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
    // v5.py:53: with px.warps(0, 4):
    ptx::tcgen05_fence_before_thread_sync();
  }
  // v5.py:16: def blackwell_v5(A, B, C, *, BM=128, BN=256, BK=64, STAGES=6, GROUP=8, PART=64):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // v5.py:22: acc = px.tmem((2, BM, BN), px.f32)
  ptx::tcgen05_fence_after_thread_sync();
  if (px_warp_id == 0) {
    ptx::tcgen05_dealloc_cta_group_2_512(px_tmem);
  }
}
