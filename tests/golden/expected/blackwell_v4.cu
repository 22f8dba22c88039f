// blackwell_v4(BM=128, BN=256, BK=64, STAGES=4, GROUP=8, PART=64) for sm_100a, from v4.py:15
// 224 threads, 229648 bytes of shared memory

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
//   tcgen05_alloc_cta_group_1_512
//   tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned
//   mbarrier_init_shared_cta
//   fence_mbarrier_init_release_cluster
//   wrap_add
//   wrap_mul
//   floor_div
//   minimum
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global
//   clusterlaunchcontrol_query_cancel
//   fence_proxy_async_shared_cta
//   mbarrier_arrive_shared_cta
//   elect_sync
//   tcgen05_fence_after_thread_sync
//   tcgen05_mma_cta_group_1_f16
//   tcgen05_descriptor
//   tcgen05_commit_cta_group_1
//   clusterlaunchcontrol_try_cancel
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
//   tcgen05_dealloc_cta_group_1_512
//   shared_address

extern "C" __global__ void __launch_bounds__(224, 1) blackwell_v4_kernel(
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
  const unsigned pipe_empty = px_base + 229544;
  const unsigned accs_full = px_base + 229576;
  const unsigned accs_empty = px_base + 229592;
  const unsigned tiles_full = px_base + 229608;
  const unsigned tiles_empty = px_base + 229624;
  unsigned* const tmem_address = reinterpret_cast<unsigned*>(px_smem + 229504);
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 65536;
  const unsigned answers_addr = px_base + 229376;
  const unsigned out_addr = px_base + 196608;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
    ptx::prefetch_tensormap(&C_map);
  }
  // v4.py:19: acc = px.tmem((2, BM, BN), px.f32)
  if (px_warp_id == 0) {
    // acc: accumulator, columns 0 to 511
    ptx::tcgen05_alloc_cta_group_1_512(tmem_address_addr);
    ptx::tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned();
  }
  // v4.py:21: pipe, accs, tiles = px.pipe(STAGES), px.pipe(2), px.pipe(2)
  if (px_one) {
    for (int px_i = 0; px_i < 4; ++px_i) ptx::mbarrier_init_shared_cta(pipe_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 4; ++px_i) ptx::mbarrier_init_shared_cta(pipe_empty + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(accs_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(accs_empty + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(tiles_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(tiles_empty + 8 * px_i, 4);
    // v4.py:15: def blackwell_v4(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4, GROUP=8, PART=64):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // v4.py:22: steps = px.cdiv(A.shape[1], BK)
  const int A_size1 = A.shape[1];
  // v4.py:23: rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
  const int C_size0 = C.shape[0];
  const int C_size1 = C.shape[1];
  // v4.py:24: more, block = True, px.block_id(0)
  const int block_x = (int)blockIdx.x;
  // v4.py:22: steps = px.cdiv(A.shape[1], BK)
  const int steps = ptx::wrap_add((A_size1 >> 6), ((int)((A_size1 & 63) != 0)));
  // v4.py:23: rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
  const int rows = ptx::wrap_add((C_size0 >> 7), ((int)((C_size0 & 127) != 0)));
  const int columns = ptx::wrap_add((C_size1 >> 8), ((int)((C_size1 & 255) != 0)));
  // v4.py:15: def blackwell_v4(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4, GROUP=8, PART=64):
  __syncthreads();  // barriers are initialised before their first use
  // v4.py:19: acc = px.tmem((2, BM, BN), px.f32)
  const unsigned px_tmem = *(volatile unsigned*)tmem_address;
  // v4.py:26: with px.warps(4, 1):
  __syncthreads();  // all threads are done with tmem_address at line 19 before the elected thread arrives
  if (px_warp_id == 4) {  // warp 4
    const bool px_one = ptx::elect_sync();
    // v4.py:27: while more:
    int filling = 0;
    int filling_parity = 0;
    int taking = 0;
    int taking_parity = 0;
    bool more = true;
    int block = block_x;
    while (more) {
      // tiles.py: tile = px.u32(t)  # unsigned: a division costs half of a signed one that rounds down  (called at v4.py:28)
      const unsigned block_1 = (unsigned)block;
      // tiles.py: band = tile // px.u32(group * columns)  (called at v4.py:28)
      const unsigned band = ptx::floor_div<unsigned>(block_1, ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py: rest = tile - band * px.u32(group * columns)  (called at v4.py:28)
      const unsigned rest = block_1 - (band * ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py: height = min(px.u32(group), px.u32(rows) - band * group)  (called at v4.py:28)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(8u, (rows_1 - (band * 8u)));
      // tiles.py: column = rest // height  (called at v4.py:28)
      const unsigned column = ptx::floor_div<unsigned>(rest, height);
      // tiles.py: return px.i32(band * group + rest - column * height), px.i32(column)  (called at v4.py:28)
      const int i = (int)(((band * 8u) + rest) - (column * height));
      const int column_1 = (int)column;
      // v4.py:29: for k in range(0, steps * BK, BK):
      int filling_1 = filling;
      int filling_parity_1 = filling_parity;
      #pragma unroll 1
      for (int k = 0; k < ptx::wrap_mul(steps, 64); k += 64) {
        // v4.py:30: with pipe.produce() as s:
        ptx::mbarrier_wait_parity(pipe_empty + 8 * filling_1, filling_parity_1 ^ 1);
        __syncwarp();  // all threads have passed the wait at line 30 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(pipe_full + 8 * filling_1, 49152);
          // v4.py:31: px.tma.load(A[i * BM : i * BM + BM, k : k + BK], a[s], pipe.full[s])
          // tensor copy: a box of 128 x 64, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global(a_addr + filling_1 * 16384, &A_map, k, ptx::wrap_mul(i, 128), pipe_full + 8 * filling_1);
          // v4.py:32: px.tma.load(B[j * BN : j * BN + BN, k : k + BK], b[s], pipe.full[s])
          // tensor copy: a box of 256 x 64, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global(b_addr + filling_1 * 32768, &B_map, k, ptx::wrap_mul(column_1, 256), pipe_full + 8 * filling_1);
        }
        // v4.py:30: with pipe.produce() as s:
        const int t = ptx::wrap_add(filling_1, 1);
        const bool t_1 = t == 4;
        filling_1 = t_1 ? 0 : t;
        filling_parity_1 = filling_parity_1 ^ ((int)t_1);
      }
      // v4.py:29: for k in range(0, steps * BK, BK):
      // tiles.py: with tiles.consume() as s:  (called at v4.py:33)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking, taking_parity);
      // tiles.py: more, block = px.clc.query(answers[s])  (called at v4.py:33)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      const int block_2 = granted ? first_x + (int)gridDim.x * (first_y + (int)gridDim.y * first_z) : -1;
      // tiles.py: with tiles.consume() as s:  (called at v4.py:33)
      __syncwarp();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(tiles_empty + 8 * taking);
      }
      const int t = ptx::wrap_add(taking, 1);
      const bool t_1 = t == 2;
      // v4.py:33: more, block = next_block(tiles, answers)
      filling = filling_1;
      filling_parity = filling_parity_1;
      taking = t_1 ? 0 : t;
      taking_parity = taking_parity ^ ((int)t_1);
      more = granted;
      block = block_2;
    }
  } else if (px_warp_id == 5) {  // warp 5
    const bool px_one = ptx::elect_sync();
    // v4.py:36: while more:
    int taking = 0;
    int taking_parity = 0;
    int filling = 0;
    int filling_parity = 0;
    int taking_1 = 0;
    int taking_parity_1 = 0;
    bool more = true;
    while (more) {
      // v4.py:37: t = accs.acquire()
      ptx::mbarrier_wait_parity(accs_empty + 8 * filling, filling_parity ^ 1);
      // v4.py:38: for k in range(steps):
      int taking_2 = taking;
      int taking_parity_2 = taking_parity;
      #pragma unroll 1
      for (int k = 0; k < steps; ++k) {
        // v4.py:39: s = pipe.wait()
        ptx::mbarrier_wait_parity(pipe_full + 8 * taking_2, taking_parity_2);
        // v4.py:40: px.tcgen05.mma(a[s], b[s].T, acc[t], accumulate=k > 0)
        ptx::tcgen05_fence_after_thread_sync();
        if (px_one) {
          {
            const unsigned long long px_a = ptx::tcgen05_descriptor(a_addr + taking_2 * 16384, 0x4000404000010000ull);
            const unsigned long long px_b = ptx::tcgen05_descriptor(b_addr + taking_2 * 32768, 0x4000404000010000ull);
            const unsigned px_d = px_tmem + filling * 256;
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a, px_b, 0x8400490u, k > 0);
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 2, px_b + 2, 0x8400490u, true);
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 4, px_b + 4, 0x8400490u, true);
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 6, px_b + 6, 0x8400490u, true);
          }
        }
        // v4.py:41: px.tcgen05.commit(pipe)
        __syncwarp();  // all threads have passed the wait at line 37 before the elected thread goes on
        if (px_one) {
          ptx::tcgen05_commit_cta_group_1(pipe_empty + 8 * taking_2);
        }
        const int t = ptx::wrap_add(taking_2, 1);
        const bool t_1 = t == 4;
        taking_2 = t_1 ? 0 : t;
        taking_parity_2 = taking_parity_2 ^ ((int)t_1);
      }
      // v4.py:38: for k in range(steps):
      // v4.py:42: px.tcgen05.commit(accs)
      __syncwarp();  // all threads have passed the wait at line 37 before the elected thread goes on
      if (px_one) {
        ptx::tcgen05_commit_cta_group_1(accs_full + 8 * filling);
      }
      const int t = ptx::wrap_add(filling, 1);
      const bool t_1 = t == 2;
      // tiles.py: with tiles.consume() as s:  (called at v4.py:43)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking_1, taking_parity_1);
      // tiles.py: more, block = px.clc.query(answers[s])  (called at v4.py:43)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking_1 * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      // tiles.py: with tiles.consume() as s:  (called at v4.py:43)
      __syncwarp();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(tiles_empty + 8 * taking_1);
      }
      const int t_2 = ptx::wrap_add(taking_1, 1);
      const bool t_3 = t_2 == 2;
      // v4.py:43: more, block = next_block(tiles, answers)
      taking = taking_2;
      taking_parity = taking_parity_2;
      filling = t_1 ? 0 : t;
      filling_parity = filling_parity ^ ((int)t_1);
      taking_1 = t_3 ? 0 : t_2;
      taking_parity_1 = taking_parity_1 ^ ((int)t_3);
      more = granted;
    }
  } else if (px_warp_id == 6) {  // warp 6
    const bool px_one = ptx::elect_sync();
    // tiles.py: while more:  (called at v4.py:46)
    int filling = 0;
    int filling_parity = 0;
    int taking = 0;
    int taking_parity = 0;
    bool more = true;
    while (more) {
      // tiles.py: with tiles.produce() as s:  # every role of every CTA has read the answer that was here  (called at v4.py:46)
      ptx::mbarrier_wait_parity(tiles_empty + 8 * filling, filling_parity ^ 1);
      __syncwarp();  // all threads have passed the wait at line 24 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(tiles_full + 8 * filling, 16);
        // tiles.py: px.clc.try_cancel(answers[s], tiles.full[s])  (called at v4.py:46)
        ptx::clusterlaunchcontrol_try_cancel(answers_addr + filling * 16, tiles_full + 8 * filling);
      }
      // tiles.py: with tiles.produce() as s:  # every role of every CTA has read the answer that was here  (called at v4.py:46)
      const int t = ptx::wrap_add(filling, 1);
      const bool t_1 = t == 2;
      // tiles.py: with tiles.consume() as s:  (called at tiles.py)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking, taking_parity);
      // tiles.py: more, block = px.clc.query(answers[s])  (called at tiles.py)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      // tiles.py: with tiles.consume() as s:  (called at tiles.py)
      __syncwarp();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(tiles_empty + 8 * taking);
      }
      const int t_2 = ptx::wrap_add(taking, 1);
      const bool t_3 = t_2 == 2;
      // tiles.py: more, _ = next_block(tiles, answers)  (called at v4.py:46)
      filling = t_1 ? 0 : t;
      filling_parity = filling_parity ^ ((int)t_1);
      taking = t_3 ? 0 : t_2;
      taking_parity = taking_parity ^ ((int)t_3);
      more = granted;
    }
  } else if (px_warp_id < 4) {  // warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    // v4.py:49: while more:
    int taking = 0;
    int taking_parity = 0;
    int taking_1 = 0;
    int taking_parity_1 = 0;
    bool more = true;
    int block = block_x;
    while (more) {
      // tiles.py: tile = px.u32(t)  # unsigned: a division costs half of a signed one that rounds down  (called at v4.py:50)
      const unsigned block_1 = (unsigned)block;
      // tiles.py: band = tile // px.u32(group * columns)  (called at v4.py:50)
      const unsigned band = ptx::floor_div<unsigned>(block_1, ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py: rest = tile - band * px.u32(group * columns)  (called at v4.py:50)
      const unsigned rest = block_1 - (band * ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py: height = min(px.u32(group), px.u32(rows) - band * group)  (called at v4.py:50)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(8u, (rows_1 - (band * 8u)));
      // tiles.py: column = rest // height  (called at v4.py:50)
      const unsigned column = ptx::floor_div<unsigned>(rest, height);
      // tiles.py: return px.i32(band * group + rest - column * height), px.i32(column)  (called at v4.py:50)
      const int i = (int)(((band * 8u) + rest) - (column * height));
      const int column_1 = (int)column;
      // v4.py:51: m, n = i * BM, j * BN
      const int m = ptx::wrap_mul(i, 128);
      const int n = ptx::wrap_mul(column_1, 256);
      // v4.py:52: t = accs.wait()
      ptx::mbarrier_wait_parity(accs_full + 8 * taking, taking_parity);
      // v4.py:54: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_fence_after_thread_sync();
      float t[64];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + taking * 256 + (px_warp_id << 21);
        ptx::tcgen05_ld_16x256b_x8_float(t, px_at);
        ptx::tcgen05_ld_16x256b_x8_float(t + 32, px_at + 1048576);
      }
      // v4.py:57: px.tma.wait(1, read=True)  # the part before the last has left its buffer
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // v4.py:54: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t);
      // v4.py:58: px.store(out[part % 2], x.to(C.dtype))
      px_bf16 x[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(x + i_1, t[i_1], t[i_1 + 1]);
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 57 before out is written
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
      // v4.py:59: px.fence.async_proxy()
      ptx::fence_proxy_async_shared_cta();
      // v4.py:60: px.tma.store(out[part % 2], C[m : m + BM, n + part * PART : n + part * PART + PART])
      ptx::bar_sync<1, 128>();  // out was written at line 58 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, n, m, out_addr);
        // v4.py:61: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
      }
      // v4.py:54: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_fence_after_thread_sync();
      float t_1[64];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + taking * 256 + 64 + (px_warp_id << 21);
        ptx::tcgen05_ld_16x256b_x8_float(t_1, px_at);
        ptx::tcgen05_ld_16x256b_x8_float(t_1 + 32, px_at + 1048576);
      }
      // v4.py:57: px.tma.wait(1, read=True)  # the part before the last has left its buffer
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // v4.py:54: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_1);
      // v4.py:58: px.store(out[part % 2], x.to(C.dtype))
      px_bf16 x_1[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(x_1 + i_1, t_1[i_1], t_1[i_1 + 1]);
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 57 before out is written
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
      // v4.py:59: px.fence.async_proxy()
      ptx::fence_proxy_async_shared_cta();
      // v4.py:60: px.tma.store(out[part % 2], C[m : m + BM, n + part * PART : n + part * PART + PART])
      ptx::bar_sync<1, 128>();  // out was written at line 58 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, ptx::wrap_add(n, 64), m, out_addr + 16384);
        // v4.py:61: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
      }
      // v4.py:54: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_fence_after_thread_sync();
      float t_2[64];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + taking * 256 + 128 + (px_warp_id << 21);
        ptx::tcgen05_ld_16x256b_x8_float(t_2, px_at);
        ptx::tcgen05_ld_16x256b_x8_float(t_2 + 32, px_at + 1048576);
      }
      // v4.py:57: px.tma.wait(1, read=True)  # the part before the last has left its buffer
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // v4.py:54: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_2);
      // v4.py:58: px.store(out[part % 2], x.to(C.dtype))
      px_bf16 x_2[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(x_2 + i_1, t_2[i_1], t_2[i_1 + 1]);
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 57 before out is written
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
      // v4.py:59: px.fence.async_proxy()
      ptx::fence_proxy_async_shared_cta();
      // v4.py:60: px.tma.store(out[part % 2], C[m : m + BM, n + part * PART : n + part * PART + PART])
      ptx::bar_sync<1, 128>();  // out was written at line 58 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, ptx::wrap_add(n, 128), m, out_addr);
        // v4.py:61: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
      }
      // v4.py:54: x = px.tcgen05.load(acc[t][:, part * PART : part * PART + PART])
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
      // v4.py:56: accs.release()  # nothing of it is left in tensor memory
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // all threads are done with acc at line 54 before the elected thread arrives
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(accs_empty + 8 * taking);
      }
      const int t_4 = ptx::wrap_add(taking, 1);
      const bool t_5 = t_4 == 2;
      // v4.py:57: px.tma.wait(1, read=True)  # the part before the last has left its buffer
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // v4.py:58: px.store(out[part % 2], x.to(C.dtype))
      px_bf16 x_3[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(x_3 + i_1, t_3[i_1], t_3[i_1 + 1]);
      ptx::bar_sync<1, 128>();  // the elected thread is done with out at line 57 before out is written
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
      // v4.py:59: px.fence.async_proxy()
      ptx::fence_proxy_async_shared_cta();
      // v4.py:60: px.tma.store(out[part % 2], C[m : m + BM, n + part * PART : n + part * PART + PART])
      ptx::bar_sync<1, 128>();  // out was written at line 58 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 128 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_global_shared(&C_map, ptx::wrap_add(n, 192), m, out_addr + 16384);
        // v4.py:61: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
      }
      // tiles.py: with tiles.consume() as s:  (called at v4.py:62)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking_1, taking_parity_1);
      // tiles.py: more, block = px.clc.query(answers[s])  (called at v4.py:62)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking_1 * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      const int block_2 = granted ? first_x + (int)gridDim.x * (first_y + (int)gridDim.y * first_z) : -1;
      // tiles.py: with tiles.consume() as s:  (called at v4.py:62)
      ptx::bar_sync<1, 128>();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(tiles_empty + 8 * taking_1);
      }
      const int t_6 = ptx::wrap_add(taking_1, 1);
      const bool t_7 = t_6 == 2;
      // v4.py:62: more, block = next_block(tiles, answers)
      taking = t_5 ? 0 : t_4;
      taking_parity = taking_parity ^ ((int)t_5);
      taking_1 = t_7 ? 0 : t_6;
      taking_parity_1 = taking_parity_1 ^ ((int)t_7);
      more = granted;
      block = block_2;
    }
    // v4.py:63: px.tma.wait(0)
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
    // v4.py:48: with px.warps(0, 4):
    ptx::tcgen05_fence_before_thread_sync();
  }
  // v4.py:19: acc = px.tmem((2, BM, BN), px.f32)
  __syncthreads();  // nobody uses the tensor memory any more
  ptx::tcgen05_fence_after_thread_sync();
  if (px_warp_id == 0) {
    ptx::tcgen05_dealloc_cta_group_1_512(px_tmem);
  }
}
