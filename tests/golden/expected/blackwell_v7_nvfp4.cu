// blackwell_v7(BLOCK=16, CM=1, CN=2, BN=128, BK=256, STAGES=5, GROUP=8, PART=64) for sm_100a, from v7.py:30
// 224 threads, 176416 bytes of shared memory, clusters of 4 x 1 x 1 (set at launch)

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
//   wrap_add
//   shift_left
//   barrier_cluster_wait_acquire_aligned
//   floor_div
//   minimum
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global_multicast_pair
//   mapa_shared_cluster
//   cp_async_bulk_tensor_2d_shared_global_pair
//   cp_async_bulk_tensor_4d_shared_global_multicast_pair
//   clusterlaunchcontrol_query_cancel
//   fence_proxy_async_shared_cta
//   cluster_ctaid_x
//   mbarrier_arrive_shared_cluster
//   elect_sync
//   tcgen05_fence_after_thread_sync
//   tcgen05_descriptor
//   tcgen05_cp_cta_group_2_32x128b_warpx4
//   tcgen05_mma_cta_group_2_mxf4nvf4_block16
//   tcgen05_commit_cta_group_2_multicast
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

extern "C" __global__ void __launch_bounds__(224, 1) blackwell_v7_kernel(
    const __grid_constant__ px_array<unsigned char, 2> A,
    const __grid_constant__ px_array<unsigned char, 2> B,
    const __grid_constant__ px_array<px_f8e4m3, 5> SFA,
    const __grid_constant__ px_array<px_f8e4m3, 5> SFB,
    const __grid_constant__ px_array<px_bf16, 2> C,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map,
    const __grid_constant__ px_tensor_map SFA_map,
    const __grid_constant__ px_tensor_map SFB_map,
    const __grid_constant__ px_tensor_map C_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned tmem_address_addr = px_base + 176256;
  const unsigned pipe_full = px_base + 176264;
  const unsigned pipe_empty = px_base + 176304;
  const unsigned accs_full = px_base + 176344;
  const unsigned accs_empty = px_base + 176360;
  const unsigned tiles_full = px_base + 176376;
  const unsigned tiles_empty = px_base + 176392;
  unsigned* const tmem_address = reinterpret_cast<unsigned*>(px_smem + 176256);
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 81920;
  const unsigned sfa_addr = px_base + 155648;
  const unsigned sfb_addr = px_base + 165888;
  const unsigned answers_addr = px_base + 176128;
  const unsigned out_addr = px_base + 122880;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
    ptx::prefetch_tensormap(&SFA_map);
    ptx::prefetch_tensormap(&SFB_map);
    ptx::prefetch_tensormap(&C_map);
  }
  // v7.py:42: acc = px.tmem((2, BM, BN), px.f32)
  if (px_warp_id == 0) {
    // acc: accumulator, columns 0 to 255
    // scale_a: scale, columns 256 to 335
    // scale_b: scale, columns 336 to 415
    ptx::tcgen05_alloc_cta_group_2_512(tmem_address_addr);
    ptx::tcgen05_relinquish_alloc_permit_cta_group_2_sync_aligned();
  }
  // v7.py:46: pipe, accs, tiles = px.pipe(STAGES), px.pipe(2), px.pipe(2)
  if (px_one) {
    for (int px_i = 0; px_i < 5; ++px_i) ptx::mbarrier_init_shared_cta(pipe_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 5; ++px_i) ptx::mbarrier_init_shared_cta(pipe_empty + 8 * px_i, 2);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(accs_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(accs_empty + 8 * px_i, (0xa >> ptx::cluster_ctarank() & 1 ? 1 : 2));
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(tiles_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(tiles_empty + 8 * px_i, (0x1 >> ptx::cluster_ctarank() & 1 ? 16 : 4));
    // v7.py:30: def blackwell_v7(A, B, SFA, SFB, C, *, BLOCK=32, CM=1, CN=2, BN=128, BK=128, STAGES=6, GROUP=8, PART=64):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // tiles.py: with tiles.consume() as s:  (called at v7.py:76)
  const int rank = ptx::cluster_ctarank();
  const int release_ctas = (((ptx::shift_right<int>(2, rank)) & 1) != 0) ? 3 : 1;
  const int release_ctas_1 = (((ptx::shift_right<int>(4, rank)) & 1) != 0) ? 5 : release_ctas;
  const int release_ctas_2 = (((ptx::shift_right<int>(8, rank)) & 1) != 0) ? 9 : release_ctas_1;
  // v7.py:89: px.tcgen05.commit(pipe, two_cta=True)
  const int rank_1 = ptx::cluster_ctarank();
  const int release_ctas_3 = (((ptx::shift_right<int>(2, rank_1)) & 1) != 0) ? 2 : 15;
  const int release_ctas_4 = (((ptx::shift_right<int>(8, rank_1)) & 1) != 0) ? 8 : release_ctas_3;
  // v7.py:104: accs.release()
  const int rank_2 = ptx::cluster_ctarank();
  const int release_ctas_5 = (((ptx::shift_right<int>(12, rank_2)) & 1) != 0) ? 4 : 1;
  // v7.py:32: rank = px.cluster.rank()
  const int rank_3 = ptx::cluster_ctarank();
  // v7.py:47: steps = px.cdiv(A.shape[1], BK)
  const int A_size1 = A.shape[1];
  const int A_size1_1 = ptx::wrap_mul(A_size1, 2);
  // v7.py:48: rows, columns = px.cdiv(C.shape[0], 2 * CM * BM), px.cdiv(C.shape[1], CN * BN)
  const int C_size0 = C.shape[0];
  const int C_size1 = C.shape[1];
  // v7.py:49: more, block = True, px.block_id(0)
  const int block_x = (int)blockIdx.x;
  // v7.py:33: half, x, y = rank % 2, rank // 2 % CM, rank // (2 * CM)
  const int half = rank_3 & 1;
  const int x = (rank_3 >> 1) & 0;
  const int y = rank_3 >> 1;
  // v7.py:23: row = row | (1 << (half + 2 * (x + CM * other)))  (called at v7.py:34)
  const int t = ptx::shift_left<int>(1, (ptx::wrap_add(half, ptx::wrap_mul(2, x))));
  const int row = 0 | t;
  const int t_1 = ptx::wrap_add(half, (ptx::wrap_mul(2, ptx::wrap_add(x, 1))));
  const int row_1 = row | (ptx::shift_left<int>(1, t_1));
  // v7.py:26: return row, column, ((1 << 2 * CM) - 1) << (2 * CM * y)  (called at v7.py:34)
  const int both = ptx::shift_left<int>(3, ptx::wrap_mul(2, y));
  // v7.py:47: steps = px.cdiv(A.shape[1], BK)
  const int steps = ptx::wrap_add((A_size1_1 >> 8), ((int)((A_size1_1 & 255) != 0)));
  // v7.py:48: rows, columns = px.cdiv(C.shape[0], 2 * CM * BM), px.cdiv(C.shape[1], CN * BN)
  const int rows = ptx::wrap_add((C_size0 >> 8), ((int)((C_size0 & 255) != 0)));
  const int columns = ptx::wrap_add((C_size1 >> 8), ((int)((C_size1 & 255) != 0)));
  // v7.py:30: def blackwell_v7(A, B, SFA, SFB, C, *, BLOCK=32, CM=1, CN=2, BN=128, BK=128, STAGES=6, GROUP=8, PART=64):
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // v7.py:42: acc = px.tmem((2, BM, BN), px.f32)
  __syncthreads();  // the elected thread is done with tmem_address at line 42 before tmem_address is read
  const unsigned px_tmem = *(volatile unsigned*)tmem_address;
  // v7.py:51: with px.warps(4, 1):
  __syncthreads();  // all threads are done with tmem_address at line 42 before the elected thread arrives
  if (px_warp_id == 4) {  // warp 4
    const bool px_one = ptx::elect_sync();
    // v7.py:52: while more:
    int filling = 0;
    int filling_parity = 0;
    int taking = 0;
    int taking_parity = 0;
    bool more = true;
    int block = block_x;
    while (more) {
      // v7.py:53: i, j = grouped(block // (2 * CM * CN), rows, columns, GROUP)
      // tiles.py: tile = px.u32(t)  # unsigned: a division costs half of a signed one that rounds down  (called at v7.py:53)
      const unsigned tile = (unsigned)(block >> 2);
      // tiles.py: band = tile // px.u32(group * columns)  (called at v7.py:53)
      const unsigned band = ptx::floor_div<unsigned>(tile, ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py: rest = tile - band * px.u32(group * columns)  (called at v7.py:53)
      const unsigned rest = tile - (band * ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py: height = min(px.u32(group), px.u32(rows) - band * group)  (called at v7.py:53)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(8u, (rows_1 - (band * 8u)));
      // tiles.py: column = rest // height  (called at v7.py:53)
      const unsigned column = ptx::floor_div<unsigned>(rest, height);
      // tiles.py: return px.i32(band * group + rest - column * height), px.i32(column)  (called at v7.py:53)
      const int i = (int)(((band * 8u) + rest) - (column * height));
      const int column_1 = (int)column;
      // v7.py:54: p, q = 2 * (i * CM + x) + half, j * CN + y  # this CTA's tile of C
      const int p = ptx::wrap_add((ptx::wrap_mul(2, ptx::wrap_add(i, x))), half);
      const int q = ptx::wrap_add(ptx::wrap_mul(column_1, 2), y);
      // v7.py:55: m, n = p * BM + y * high, q * BN + half * (BN // 2) + x * wide
      const int m = ptx::wrap_add(ptx::wrap_mul(p, 128), ptx::wrap_mul(y, 64));
      const int t_2 = ptx::wrap_add(ptx::wrap_mul(q, 128), ptx::wrap_mul(half, 64));
      const int n = ptx::wrap_add(t_2, ptx::wrap_mul(x, 64));
      // v7.py:56: u, v, w = q * (BN // 128), y * some, (2 * x + half) * few
      const int v = ptx::wrap_mul(y, 16);
      const int w = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(2, x), half)), 16);
      // v7.py:57: for step in range(steps):
      int filling_1 = filling;
      int filling_parity_1 = filling_parity;
      #pragma unroll 1
      for (int step = 0; step < steps; ++step) {
        // v7.py:58: k, g = step * BK, step * (SCALES // 4)
        const int k = ptx::wrap_mul(step, 256);
        const int g = ptx::wrap_mul(step, 4);
        // v7.py:59: with pipe.produce() as s:
        ptx::mbarrier_wait_parity(pipe_empty + 8 * filling_1, filling_parity_1 ^ 1);
        const int rank_4 = ptx::cluster_ctarank();
        const int nbytes = (rank_4 == 1) ? 0 : 57344;
        const int nbytes_1 = (rank_4 == 3) ? 0 : nbytes;
        const int rank_5 = ptx::cluster_ctarank();
        if (((ptx::shift_right<int>(5, rank_5)) & 1) != 0) {
          __syncwarp();  // all threads have passed the wait at line 59 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(pipe_full + 8 * filling_1, nbytes_1);
          }
        }
        // v7.py:61: A[m : m + high, k : k + BK], a[s][y * high : y * high + high], pipe.full[s],
        // v7.py:60: px.tma.load(
        __syncwarp();  // all threads have passed the wait at line 59 before the elected thread goes on
        const int k_1 = k >> 1;
        if (px_one) {
          // tensor copy: a box of 64 x 128, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global_multicast_pair(a_addr + filling_1 * 16384 + (ptx::wrap_mul(y, 64)) * 128, &A_map, k_1, m, ptx::mapa_shared_cluster(pipe_full + 8 * filling_1, ptx::cluster_ctarank() & ~1), (unsigned short)row_1);
        }
        // v7.py:65: B[n : n + wide, k : k + BK], b[s][x * wide : x * wide + wide], pipe.full[s],
        // v7.py:64: px.tma.load(
        const int k_2 = k >> 1;
        if (px_one) {
          // tensor copy: a box of 64 x 128, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global_pair(b_addr + filling_1 * 8192 + (ptx::wrap_mul(x, 64)) * 128, &B_map, k_2, n, ptx::mapa_shared_cluster(pipe_full + 8 * filling_1, ptx::cluster_ctarank() & ~1));
          // v7.py:68: px.tma.load(
          // tensor copy: 4 boxes of 1 x 1 x 16 x 16
          ptx::cp_async_bulk_tensor_4d_shared_global_multicast_pair(sfa_addr + filling_1 * 2048 + v * 16, &SFA_map, 0, v, g, p, ptx::mapa_shared_cluster(pipe_full + 8 * filling_1, ptx::cluster_ctarank() & ~1), (unsigned short)row_1);
          ptx::cp_async_bulk_tensor_4d_shared_global_multicast_pair(sfa_addr + filling_1 * 2048 + v * 16 + 512, &SFA_map, 0, v, (unsigned)g + 1, p, ptx::mapa_shared_cluster(pipe_full + 8 * filling_1, ptx::cluster_ctarank() & ~1), (unsigned short)row_1);
          ptx::cp_async_bulk_tensor_4d_shared_global_multicast_pair(sfa_addr + filling_1 * 2048 + v * 16 + 1024, &SFA_map, 0, v, (unsigned)g + 2, p, ptx::mapa_shared_cluster(pipe_full + 8 * filling_1, ptx::cluster_ctarank() & ~1), (unsigned short)row_1);
          ptx::cp_async_bulk_tensor_4d_shared_global_multicast_pair(sfa_addr + filling_1 * 2048 + v * 16 + 1536, &SFA_map, 0, v, (unsigned)g + 3, p, ptx::mapa_shared_cluster(pipe_full + 8 * filling_1, ptx::cluster_ctarank() & ~1), (unsigned short)row_1);
          // v7.py:72: px.tma.load(
          // tensor copy: 4 boxes of 1 x 1 x 16 x 16
          ptx::cp_async_bulk_tensor_4d_shared_global_multicast_pair(sfb_addr + filling_1 * 2048 + w * 16, &SFB_map, 0, w, g, q, ptx::mapa_shared_cluster(pipe_full + 8 * filling_1, ptx::cluster_ctarank() & ~1), (unsigned short)both);
          ptx::cp_async_bulk_tensor_4d_shared_global_multicast_pair(sfb_addr + filling_1 * 2048 + w * 16 + 512, &SFB_map, 0, w, (unsigned)g + 1, q, ptx::mapa_shared_cluster(pipe_full + 8 * filling_1, ptx::cluster_ctarank() & ~1), (unsigned short)both);
          ptx::cp_async_bulk_tensor_4d_shared_global_multicast_pair(sfb_addr + filling_1 * 2048 + w * 16 + 1024, &SFB_map, 0, w, (unsigned)g + 2, q, ptx::mapa_shared_cluster(pipe_full + 8 * filling_1, ptx::cluster_ctarank() & ~1), (unsigned short)both);
          ptx::cp_async_bulk_tensor_4d_shared_global_multicast_pair(sfb_addr + filling_1 * 2048 + w * 16 + 1536, &SFB_map, 0, w, (unsigned)g + 3, q, ptx::mapa_shared_cluster(pipe_full + 8 * filling_1, ptx::cluster_ctarank() & ~1), (unsigned short)both);
        }
        // v7.py:59: with pipe.produce() as s:
        const int t_3 = ptx::wrap_add(filling_1, 1);
        const bool t_4 = t_3 == 5;
        filling_1 = t_4 ? 0 : t_3;
        filling_parity_1 = filling_parity_1 ^ ((int)t_4);
      }
      // v7.py:57: for step in range(steps):
      // tiles.py: with tiles.consume() as s:  (called at v7.py:76)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking, taking_parity);
      // tiles.py: more, block = px.clc.query(answers[s])  (called at v7.py:76)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      const int block_1 = granted ? (first_x + ptx::cluster_ctaid_x()) + (int)gridDim.x * (first_y + (int)gridDim.y * first_z) : -1;
      // tiles.py: with tiles.consume() as s:  (called at v7.py:76)
      __syncwarp();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (((unsigned)release_ctas_2 >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(tiles_empty + 8 * taking, px_lane));
      const int t_3 = ptx::wrap_add(taking, 1);
      const bool t_4 = t_3 == 2;
      // v7.py:76: more, block = next_block(tiles, answers)
      filling = filling_1;
      filling_parity = filling_parity_1;
      taking = t_4 ? 0 : t_3;
      taking_parity = taking_parity ^ ((int)t_4);
      more = granted;
      block = block_1;
    }
  } else if (px_warp_id == 5) {  // warp 5
    const bool px_one = ptx::elect_sync();
    // v7.py:79: while more:
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
      // v7.py:80: if half == 0:
      if (half == 0) {
        // v7.py:81: t = accs.acquire()
        ptx::mbarrier_wait_parity(accs_empty + 8 * filling, filling_parity ^ 1);
        // v7.py:82: for k in range(steps):
        int taking_3 = taking;
        int taking_parity_3 = taking_parity;
        #pragma unroll 1
        for (int k = 0; k < steps; ++k) {
          // v7.py:83: s = pipe.wait()
          ptx::mbarrier_wait_parity(pipe_full + 8 * taking_3, taking_parity_3);
          // v7.py:84: px.tcgen05.copy(sfa[s], scale_a[s], two_cta=True)  # in both CTAs, each its own
          ptx::tcgen05_fence_after_thread_sync();
          if (px_one) {
            {
              const unsigned long long px_s = ptx::tcgen05_descriptor(sfa_addr + taking_3 * 2048, 0x400800000000ull);
              const unsigned px_d = px_tmem + 256 + taking_3 * 16;
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d, px_s);
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 4, px_s + 32);
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 8, px_s + 64);
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 12, px_s + 96);
            }
            // v7.py:85: px.tcgen05.copy(sfb[s], scale_b[s], two_cta=True)
            {
              const unsigned long long px_s = ptx::tcgen05_descriptor(sfb_addr + taking_3 * 2048, 0x400800000000ull);
              const unsigned px_d = px_tmem + 336 + taking_3 * 16;
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d, px_s);
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 4, px_s + 32);
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 8, px_s + 64);
              ptx::tcgen05_cp_cta_group_2_32x128b_warpx4(px_d + 12, px_s + 96);
            }
            // v7.py:87: a[s], b[s].T, acc[t], accumulate=k > 0, scale_a=scale_a[s], scale_b=scale_b[s], two_cta=True
            // v7.py:86: px.tcgen05.mma(
            {
              const unsigned long long px_a = ptx::tcgen05_descriptor(a_addr + taking_3 * 16384, 0x4000404000010000ull);
              const unsigned long long px_b = ptx::tcgen05_descriptor(b_addr + taking_3 * 8192, 0x4000404000010000ull);
              const unsigned px_d = px_tmem + filling * 128;
              const unsigned px_sa = px_tmem + 256 + taking_3 * 16;
              const unsigned px_sb = px_tmem + 336 + taking_3 * 16;
              ptx::tcgen05_mma_cta_group_2_mxf4nvf4_block16(px_d, px_a, px_b, 0x10200480u, px_sa, px_sb, k > 0);
              ptx::tcgen05_mma_cta_group_2_mxf4nvf4_block16(px_d, px_a + 2, px_b + 2, 0x10200480u, px_sa + 4, px_sb + 4, true);
              ptx::tcgen05_mma_cta_group_2_mxf4nvf4_block16(px_d, px_a + 4, px_b + 4, 0x10200480u, px_sa + 8, px_sb + 8, true);
              ptx::tcgen05_mma_cta_group_2_mxf4nvf4_block16(px_d, px_a + 6, px_b + 6, 0x10200480u, px_sa + 12, px_sb + 12, true);
            }
          }
          // v7.py:89: px.tcgen05.commit(pipe, two_cta=True)
          __syncwarp();  // all threads have passed the wait at line 81 before the elected thread goes on
          if (px_one) {
            ptx::tcgen05_commit_cta_group_2_multicast(pipe_empty + 8 * taking_3, (unsigned short)release_ctas_4);
          }
          const int t_2 = ptx::wrap_add(taking_3, 1);
          const bool t_3 = t_2 == 5;
          taking_3 = t_3 ? 0 : t_2;
          taking_parity_3 = taking_parity_3 ^ ((int)t_3);
        }
        // v7.py:82: for k in range(steps):
        // v7.py:90: px.tcgen05.commit(accs, two_cta=True)
        __syncwarp();  // all threads have passed the wait at line 81 before the elected thread goes on
        if (px_one) {
          ptx::tcgen05_commit_cta_group_2_multicast(accs_full + 8 * filling, (unsigned short)(ptx::shift_left<int>(3, (rank_3 & (-2)))));
        }
        const int t_2 = ptx::wrap_add(filling, 1);
        const bool t_3 = t_2 == 2;
        // v7.py:80: if half == 0:
        taking_2 = taking_3;
        taking_parity_2 = taking_parity_3;
        filling_1 = t_3 ? 0 : t_2;
        filling_parity_1 = filling_parity ^ ((int)t_3);
      } else {
        taking_2 = taking;
        taking_parity_2 = taking_parity;
        filling_1 = filling;
        filling_parity_1 = filling_parity;
      }
      // tiles.py: with tiles.consume() as s:  (called at v7.py:91)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking_1, taking_parity_1);
      // tiles.py: more, block = px.clc.query(answers[s])  (called at v7.py:91)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking_1 * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      // tiles.py: with tiles.consume() as s:  (called at v7.py:91)
      __syncwarp();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (((unsigned)release_ctas_2 >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(tiles_empty + 8 * taking_1, px_lane));
      const int t_2 = ptx::wrap_add(taking_1, 1);
      const bool t_3 = t_2 == 2;
      // v7.py:91: more, block = next_block(tiles, answers)
      taking = taking_2;
      taking_parity = taking_parity_2;
      filling = filling_1;
      filling_parity = filling_parity_1;
      taking_1 = t_3 ? 0 : t_2;
      taking_parity_1 = taking_parity_1 ^ ((int)t_3);
      more = granted;
    }
  } else if (px_warp_id == 6) {  // warp 6
    const bool px_one = ptx::elect_sync();
    // tiles.py: while more:  (called at v7.py:94)
    int filling = 0;
    int filling_parity = 0;
    int taking = 0;
    int taking_parity = 0;
    bool more = true;
    while (more) {
      // tiles.py: with tiles.produce() as s:  # every role of every CTA has read the answer that was here  (called at v7.py:94)
      ptx::mbarrier_wait_parity(tiles_empty + 8 * filling, filling_parity ^ 1);
      __syncwarp();  // all threads have passed the wait at line 24 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(tiles_full + 8 * filling, 16);
      }
      // tiles.py: px.clc.try_cancel(answers[s], tiles.full[s])  (called at v7.py:94)
      if (rank_3 == 0) {
        if (px_one) {
          ptx::clusterlaunchcontrol_try_cancel_multicast(answers_addr + filling * 16, tiles_full + 8 * filling);
        }
      }
      // tiles.py: with tiles.produce() as s:  # every role of every CTA has read the answer that was here  (called at v7.py:94)
      const int t_2 = ptx::wrap_add(filling, 1);
      const bool t_3 = t_2 == 2;
      // tiles.py: with tiles.consume() as s:  (called at tiles.py)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking, taking_parity);
      // tiles.py: more, block = px.clc.query(answers[s])  (called at tiles.py)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      // tiles.py: with tiles.consume() as s:  (called at tiles.py)
      __syncwarp();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (((unsigned)release_ctas_2 >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(tiles_empty + 8 * taking, px_lane));
      const int t_4 = ptx::wrap_add(taking, 1);
      const bool t_5 = t_4 == 2;
      // tiles.py: more, _ = next_block(tiles, answers)  (called at v7.py:94)
      filling = t_3 ? 0 : t_2;
      filling_parity = filling_parity ^ ((int)t_3);
      taking = t_5 ? 0 : t_4;
      taking_parity = taking_parity ^ ((int)t_5);
      more = granted;
    }
  } else if (px_warp_id < 4) {  // warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    // v7.py:97: while more:
    int taking = 0;
    int taking_parity = 0;
    int taking_1 = 0;
    int taking_parity_1 = 0;
    bool more = true;
    int block = block_x;
    while (more) {
      // v7.py:98: i, j = grouped(block // (2 * CM * CN), rows, columns, GROUP)
      // tiles.py: tile = px.u32(t)  # unsigned: a division costs half of a signed one that rounds down  (called at v7.py:98)
      const unsigned tile = (unsigned)(block >> 2);
      // tiles.py: band = tile // px.u32(group * columns)  (called at v7.py:98)
      const unsigned band = ptx::floor_div<unsigned>(tile, ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py: rest = tile - band * px.u32(group * columns)  (called at v7.py:98)
      const unsigned rest = tile - (band * ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py: height = min(px.u32(group), px.u32(rows) - band * group)  (called at v7.py:98)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(8u, (rows_1 - (band * 8u)));
      // tiles.py: column = rest // height  (called at v7.py:98)
      const unsigned column = ptx::floor_div<unsigned>(rest, height);
      // tiles.py: return px.i32(band * group + rest - column * height), px.i32(column)  (called at v7.py:98)
      const int i = (int)(((band * 8u) + rest) - (column * height));
      const int column_1 = (int)column;
      // v7.py:99: m, n = (2 * (i * CM + x) + half) * BM, (j * CN + y) * BN
      const int t_2 = ptx::wrap_add((ptx::wrap_mul(2, ptx::wrap_add(i, x))), half);
      const int m = ptx::wrap_mul(t_2, 128);
      const int n = ptx::wrap_mul((ptx::wrap_add(ptx::wrap_mul(column_1, 2), y)), 128);
      // v7.py:100: t = accs.wait()
      ptx::mbarrier_wait_parity(accs_full + 8 * taking, taking_parity);
      // v7.py:102: tile = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_fence_after_thread_sync();
      float t_3[64];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + taking * 128 + (px_warp_id << 21);
        ptx::tcgen05_ld_16x256b_x8_float(t_3, px_at);
        ptx::tcgen05_ld_16x256b_x8_float(t_3 + 32, px_at + 1048576);
      }
      // v7.py:105: px.tma.wait(1, read=True)
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // v7.py:102: tile = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_3);
      // v7.py:106: px.store(out[part % 2], tile.to(C.dtype))
      px_bf16 tile_1[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(tile_1 + i_1, t_3[i_1], t_3[i_1 + 1]);
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 105 before out is written
      {
        const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 256);
        const unsigned a = out_addr;
        #pragma unroll
        for (int i_1 = 0; i_1 < 8; ++i_1) {
          unsigned words[4];
          ptx::pack_words<8>(words, tile_1 + 8 * i_1);
          ptx::stmatrix_x4(a + 16 * ((o ^ ((i_1 & 3) * 2)) + (i_1 >> 2) * 128), words);
        }
      }
      // v7.py:107: px.fence.async_proxy()
      ptx::fence_proxy_async_shared_cta();
      // v7.py:108: px.tma.store(out[part % 2], C[m : m + BM, n + part * PART : n + part * PART + PART])
      ptx::bar_sync<1, 128>();  // out was written at line 106 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, n, m, out_addr);
        // v7.py:109: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
      }
      // v7.py:102: tile = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_fence_after_thread_sync();
      float t_4[64];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + taking * 128 + 64 + (px_warp_id << 21);
        ptx::tcgen05_ld_16x256b_x8_float(t_4, px_at);
        ptx::tcgen05_ld_16x256b_x8_float(t_4 + 32, px_at + 1048576);
      }
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_4);
      // v7.py:104: accs.release()
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // all threads are done with acc at line 102 before the elected thread arrives
      if (px_warp_id == 0 && ((unsigned)release_ctas_5 >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(accs_empty + 8 * taking, px_lane));
      const int t_5 = ptx::wrap_add(taking, 1);
      const bool t_6 = t_5 == 2;
      // v7.py:105: px.tma.wait(1, read=True)
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // v7.py:106: px.store(out[part % 2], tile.to(C.dtype))
      px_bf16 tile_2[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(tile_2 + i_1, t_4[i_1], t_4[i_1 + 1]);
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 105 before out is written
      {
        const int o = ((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1) * 64) ^ ((px_lane >> 4)) ^ (px_warp_id * 256);
        const unsigned a = out_addr;
        #pragma unroll
        for (int i_1 = 0; i_1 < 8; ++i_1) {
          unsigned words[4];
          ptx::pack_words<8>(words, tile_2 + 8 * i_1);
          ptx::stmatrix_x4(a + 16 * ((o ^ ((i_1 & 3) * 2)) + (i_1 >> 2) * 128 + 1024), words);
        }
      }
      // v7.py:107: px.fence.async_proxy()
      ptx::fence_proxy_async_shared_cta();
      // v7.py:108: px.tma.store(out[part % 2], C[m : m + BM, n + part * PART : n + part * PART + PART])
      ptx::bar_sync<1, 128>();  // out was written at line 106 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, ptx::wrap_add(n, 64), m, out_addr + 16384);
        // v7.py:109: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
      }
      // tiles.py: with tiles.consume() as s:  (called at v7.py:110)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking_1, taking_parity_1);
      // tiles.py: more, block = px.clc.query(answers[s])  (called at v7.py:110)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking_1 * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      const int block_1 = granted ? (first_x + ptx::cluster_ctaid_x()) + (int)gridDim.x * (first_y + (int)gridDim.y * first_z) : -1;
      // tiles.py: with tiles.consume() as s:  (called at v7.py:110)
      ptx::bar_sync<1, 128>();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (px_warp_id == 0 && ((unsigned)release_ctas_2 >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(tiles_empty + 8 * taking_1, px_lane));
      const int t_7 = ptx::wrap_add(taking_1, 1);
      const bool t_8 = t_7 == 2;
      // v7.py:110: more, block = next_block(tiles, answers)
      taking = t_6 ? 0 : t_5;
      taking_parity = taking_parity ^ ((int)t_6);
      taking_1 = t_8 ? 0 : t_7;
      taking_parity_1 = taking_parity_1 ^ ((int)t_8);
      more = granted;
      block = block_1;
    }
    // v7.py:111: px.tma.wait(0)
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
    // v7.py:96: with px.warps(0, 4):
    ptx::tcgen05_fence_before_thread_sync();
  }
  // v7.py:30: def blackwell_v7(A, B, SFA, SFB, C, *, BLOCK=32, CM=1, CN=2, BN=128, BK=128, STAGES=6, GROUP=8, PART=64):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // v7.py:42: acc = px.tmem((2, BM, BN), px.f32)
  ptx::tcgen05_fence_after_thread_sync();
  if (px_warp_id == 0) {
    ptx::tcgen05_dealloc_cta_group_2_512(px_tmem);
  }
}
