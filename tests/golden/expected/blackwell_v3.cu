// blackwell_v3(BM=128, BN=256, BK=64, STAGES=4, GROUP=8) for sm_100a, from v3.py:15
// 224 threads, 215408 bytes of shared memory

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
//   tcgen05_ld_32x32b_x64_float
//   tcgen05_wait_ld_sync_aligned
//   keep_float
//   bf16_pair_from_float
//   bar_sync
//   bits
//   unpack
//   store_vector
//   load_vector
//   inside
//   store_vector_if
//   tcgen05_fence_before_thread_sync
//   tcgen05_dealloc_cta_group_1_256
//   shared_address

extern "C" __global__ void __launch_bounds__(224, 1) blackwell_v3_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<px_bf16, 2> B,
    const __grid_constant__ px_array<px_bf16, 2> C,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned tmem_address_addr = px_base + 196736;
  const unsigned pipe_full = px_base + 215296;
  const unsigned pipe_empty = px_base + 215328;
  const unsigned accs_full = px_base + 215360;
  const unsigned accs_empty = px_base + 215368;
  const unsigned tiles_full = px_base + 215376;
  const unsigned tiles_empty = px_base + 215392;
  unsigned* const tmem_address = reinterpret_cast<unsigned*>(px_smem + 196736);
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 65536;
  const unsigned answers_addr = px_base + 196608;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
  }
  // v3.py:18: acc = px.tmem((1, BM, BN), px.f32)
  if (px_warp_id == 0) {
    // acc: accumulator, columns 0 to 255
    ptx::tcgen05_alloc_cta_group_1_256(tmem_address_addr);
    ptx::tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned();
  }
  // v3.py:20: pipe, accs, tiles = px.pipe(STAGES), px.pipe(1), px.pipe(2)
  if (px_one) {
    for (int px_i = 0; px_i < 4; ++px_i) ptx::mbarrier_init_shared_cta(pipe_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 4; ++px_i) ptx::mbarrier_init_shared_cta(pipe_empty + 8 * px_i, 1);
    ptx::mbarrier_init_shared_cta(accs_full, 1);
    ptx::mbarrier_init_shared_cta(accs_empty, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(tiles_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(tiles_empty + 8 * px_i, 4);
    // v3.py:15: def blackwell_v3(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4, GROUP=8):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // v3.py:21: steps = px.cdiv(A.shape[1], BK)
  const int A_size1 = A.shape[1];
  // v3.py:22: rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
  const int C_size0 = C.shape[0];
  const int C_size1 = C.shape[1];
  // v3.py:23: more, block = True, px.block_id(0)
  const int block_x = (int)blockIdx.x;
  // v3.py:21: steps = px.cdiv(A.shape[1], BK)
  const int steps = ptx::wrap_add((A_size1 >> 6), ((int)((A_size1 & 63) != 0)));
  // v3.py:22: rows, columns = px.cdiv(C.shape[0], BM), px.cdiv(C.shape[1], BN)
  const int rows = ptx::wrap_add((C_size0 >> 7), ((int)((C_size0 & 127) != 0)));
  const int columns = ptx::wrap_add((C_size1 >> 8), ((int)((C_size1 & 255) != 0)));
  // v3.py:15: def blackwell_v3(A, B, C, *, BM=128, BN=256, BK=64, STAGES=4, GROUP=8):
  __syncthreads();  // barriers are initialised before their first use
  // v3.py:18: acc = px.tmem((1, BM, BN), px.f32)
  const unsigned px_tmem = *(volatile unsigned*)tmem_address;
  // v3.py:25: with px.warps(4, 1):
  __syncthreads();  // all threads are done with tmem_address at line 18 before the elected thread arrives
  if (px_warp_id == 4) {  // warp 4
    const bool px_one = ptx::elect_sync();
    // v3.py:26: while more:
    int filling = 0;
    int filling_parity = 0;
    int taking = 0;
    int taking_parity = 0;
    bool more = true;
    int block = block_x;
    while (more) {
      // tiles.py:10: tile = px.u32(t)  # unsigned: a division costs half of a signed one that rounds down  (called at v3.py:27)
      const unsigned block_1 = (unsigned)block;
      // tiles.py:11: band = tile // px.u32(group * columns)  (called at v3.py:27)
      const unsigned band = ptx::floor_div<unsigned>(block_1, ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py:12: rest = tile - band * px.u32(group * columns)  (called at v3.py:27)
      const unsigned rest = block_1 - (band * ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py:13: height = min(px.u32(group), px.u32(rows) - band * group)  (called at v3.py:27)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(8u, (rows_1 - (band * 8u)));
      // tiles.py:14: column = rest // height  (called at v3.py:27)
      const unsigned column = ptx::floor_div<unsigned>(rest, height);
      // tiles.py:15: return px.i32(band * group + rest - column * height), px.i32(column)  (called at v3.py:27)
      const int i = (int)(((band * 8u) + rest) - (column * height));
      const int column_1 = (int)column;
      // v3.py:28: for k in range(0, steps * BK, BK):
      int filling_1 = filling;
      int filling_parity_1 = filling_parity;
      #pragma unroll 1
      for (int k = 0; k < ptx::wrap_mul(steps, 64); k += 64) {
        // v3.py:29: with pipe.produce() as s:
        ptx::mbarrier_wait_parity(pipe_empty + 8 * filling_1, filling_parity_1 ^ 1);
        __syncwarp();  // all threads have passed the wait at line 29 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(pipe_full + 8 * filling_1, 49152);
          // v3.py:30: px.tma.load(A[i * BM : i * BM + BM, k : k + BK], a[s], pipe.full[s])
          // tensor copy: a box of 128 x 64, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global(a_addr + filling_1 * 16384, &A_map, k, ptx::wrap_mul(i, 128), pipe_full + 8 * filling_1);
          // v3.py:31: px.tma.load(B[j * BN : j * BN + BN, k : k + BK], b[s], pipe.full[s])
          // tensor copy: a box of 256 x 64, 128-byte swizzle
          ptx::cp_async_bulk_tensor_2d_shared_global(b_addr + filling_1 * 32768, &B_map, k, ptx::wrap_mul(column_1, 256), pipe_full + 8 * filling_1);
        }
        // v3.py:29: with pipe.produce() as s:
        const int t = ptx::wrap_add(filling_1, 1);
        const bool t_1 = t == 4;
        filling_1 = t_1 ? 0 : t;
        filling_parity_1 = filling_parity_1 ^ ((int)t_1);
      }
      // v3.py:28: for k in range(0, steps * BK, BK):
      // tiles.py:32: with tiles.consume() as s:  (called at v3.py:32)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking, taking_parity);
      // tiles.py:33: more, block = px.clc.query(answers[s])  (called at v3.py:32)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      const int block_2 = granted ? first_x + (int)gridDim.x * (first_y + (int)gridDim.y * first_z) : -1;
      // tiles.py:32: with tiles.consume() as s:  (called at v3.py:32)
      __syncwarp();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(tiles_empty + 8 * taking);
      }
      const int t = ptx::wrap_add(taking, 1);
      const bool t_1 = t == 2;
      // v3.py:32: more, block = next_block(tiles, answers)
      filling = filling_1;
      filling_parity = filling_parity_1;
      taking = t_1 ? 0 : t;
      taking_parity = taking_parity ^ ((int)t_1);
      more = granted;
      block = block_2;
    }
  } else if (px_warp_id == 5) {  // warp 5
    const bool px_one = ptx::elect_sync();
    // v3.py:35: while more:
    int taking = 0;
    int taking_parity = 0;
    int filling_parity = 0;
    int taking_1 = 0;
    int taking_parity_1 = 0;
    bool more = true;
    while (more) {
      // v3.py:36: t = accs.acquire()  # the epilogue has read the accumulator
      ptx::mbarrier_wait_parity(accs_empty, filling_parity ^ 1);
      // v3.py:37: for k in range(steps):
      int taking_2 = taking;
      int taking_parity_2 = taking_parity;
      #pragma unroll 1
      for (int k = 0; k < steps; ++k) {
        // v3.py:38: s = pipe.wait()
        ptx::mbarrier_wait_parity(pipe_full + 8 * taking_2, taking_parity_2);
        // v3.py:39: px.tcgen05.mma(a[s], b[s].T, acc[t], accumulate=k > 0)
        ptx::tcgen05_fence_after_thread_sync();
        if (px_one) {
          {
            const unsigned long long px_a = ptx::tcgen05_descriptor(a_addr + taking_2 * 16384, 0x4000404000010000ull);
            const unsigned long long px_b = ptx::tcgen05_descriptor(b_addr + taking_2 * 32768, 0x4000404000010000ull);
            const unsigned px_d = px_tmem;
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a, px_b, 0x8400490u, k > 0);
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 2, px_b + 2, 0x8400490u, true);
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 4, px_b + 4, 0x8400490u, true);
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a + 6, px_b + 6, 0x8400490u, true);
          }
        }
        // v3.py:40: px.tcgen05.commit(pipe)
        __syncwarp();  // all threads have passed the wait at line 36 before the elected thread goes on
        if (px_one) {
          ptx::tcgen05_commit_cta_group_1(pipe_empty + 8 * taking_2);
        }
        const int t = ptx::wrap_add(taking_2, 1);
        const bool t_1 = t == 4;
        taking_2 = t_1 ? 0 : t;
        taking_parity_2 = taking_parity_2 ^ ((int)t_1);
      }
      // v3.py:37: for k in range(steps):
      // v3.py:41: px.tcgen05.commit(accs)  # it is whole when all that is over
      __syncwarp();  // all threads have passed the wait at line 36 before the elected thread goes on
      if (px_one) {
        ptx::tcgen05_commit_cta_group_1(accs_full);
      }
      // tiles.py:32: with tiles.consume() as s:  (called at v3.py:42)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking_1, taking_parity_1);
      // tiles.py:33: more, block = px.clc.query(answers[s])  (called at v3.py:42)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking_1 * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      // tiles.py:32: with tiles.consume() as s:  (called at v3.py:42)
      __syncwarp();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(tiles_empty + 8 * taking_1);
      }
      const int t = ptx::wrap_add(taking_1, 1);
      const bool t_1 = t == 2;
      // v3.py:42: more, block = next_block(tiles, answers)
      taking = taking_2;
      taking_parity = taking_parity_2;
      filling_parity = filling_parity ^ 1;
      taking_1 = t_1 ? 0 : t;
      taking_parity_1 = taking_parity_1 ^ ((int)t_1);
      more = granted;
    }
  } else if (px_warp_id == 6) {  // warp 6
    const bool px_one = ptx::elect_sync();
    // tiles.py:23: while more:  (called at v3.py:45)
    int filling = 0;
    int filling_parity = 0;
    int taking = 0;
    int taking_parity = 0;
    bool more = true;
    while (more) {
      // tiles.py:24: with tiles.produce() as s:  # every role of every CTA has read the answer that was here  (called at v3.py:45)
      ptx::mbarrier_wait_parity(tiles_empty + 8 * filling, filling_parity ^ 1);
      __syncwarp();  // all threads have passed the wait at line 24 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(tiles_full + 8 * filling, 16);
        // tiles.py:25: px.clc.try_cancel(answers[s], tiles.full[s])  (called at v3.py:45)
        ptx::clusterlaunchcontrol_try_cancel(answers_addr + filling * 16, tiles_full + 8 * filling);
      }
      // tiles.py:24: with tiles.produce() as s:  # every role of every CTA has read the answer that was here  (called at v3.py:45)
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
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(tiles_empty + 8 * taking);
      }
      const int t_2 = ptx::wrap_add(taking, 1);
      const bool t_3 = t_2 == 2;
      // tiles.py:26: more, _ = next_block(tiles, answers)  (called at v3.py:45)
      filling = t_1 ? 0 : t;
      filling_parity = filling_parity ^ ((int)t_1);
      taking = t_3 ? 0 : t_2;
      taking_parity = taking_parity ^ ((int)t_3);
      more = granted;
    }
  } else if (px_warp_id < 4) {  // warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    // v3.py:48: while more:
    int taking_parity = 0;
    int taking = 0;
    int taking_parity_1 = 0;
    bool more = true;
    int block = block_x;
    while (more) {
      // tiles.py:10: tile = px.u32(t)  # unsigned: a division costs half of a signed one that rounds down  (called at v3.py:49)
      const unsigned block_1 = (unsigned)block;
      // tiles.py:11: band = tile // px.u32(group * columns)  (called at v3.py:49)
      const unsigned band = ptx::floor_div<unsigned>(block_1, ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py:12: rest = tile - band * px.u32(group * columns)  (called at v3.py:49)
      const unsigned rest = block_1 - (band * ((unsigned)ptx::wrap_mul(8, columns)));
      // tiles.py:13: height = min(px.u32(group), px.u32(rows) - band * group)  (called at v3.py:49)
      const unsigned rows_1 = (unsigned)rows;
      const unsigned height = ptx::minimum<unsigned>(8u, (rows_1 - (band * 8u)));
      // tiles.py:14: column = rest // height  (called at v3.py:49)
      const unsigned column = ptx::floor_div<unsigned>(rest, height);
      // tiles.py:15: return px.i32(band * group + rest - column * height), px.i32(column)  (called at v3.py:49)
      const int i = (int)(((band * 8u) + rest) - (column * height));
      const int column_1 = (int)column;
      // v3.py:50: m, n = i * BM, j * BN
      const int m = ptx::wrap_mul(i, 128);
      const int n = ptx::wrap_mul(column_1, 256);
      // v3.py:51: with accs.consume() as t:
      ptx::mbarrier_wait_parity(accs_full, taking_parity);
      // v3.py:53: x = px.tcgen05.load(acc[t][:, part : part + 64])
      ptx::tcgen05_fence_after_thread_sync();
      float t[64];
      // 32x32b: 1 of each warp
      {
        const unsigned px_at = px_tmem + (px_warp_id << 21);
        ptx::tcgen05_ld_32x32b_x64_float(t, px_at);
      }
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t);
      // v3.py:54: px.store(C[m : m + BM, n + part : n + part + 64], x.to(C.dtype))
      px_bf16 x[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(x + i_1, t[i_1], t[i_1 + 1]);
      px_bf16 x_1[64];
      {
        px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 196864));
        ptx::bar_sync<1, 128>();  // scratch memory is free
        {
          auto* const p = scratch + (px_lane + px_warp_id * 32) * 72;
          #pragma unroll
          for (int i_1 = 0; i_1 < 64; i_1 += 8) {
            ptx::store_vector<8>(p + (i_1 >> 3) * 8, x + (i_1 >> 3) * 8);
          }
        }
        ptx::bar_sync<1, 128>();
        {
          auto* const p = scratch + ((px_lane >> 3) + px_warp_id * 4) * 72 + (px_lane & 7) * 8;
          #pragma unroll
          for (int i_1 = 0; i_1 < 64; i_1 += 8) {
            ptx::load_vector<8>(x_1 + (i_1 >> 3) * 8, p + ((i_1 >> 3) & 1) * 1152 + ((i_1 >> 4) & 1) * 2304 + (i_1 >> 5) * 4608);
          }
        }
      }
      {
        const unsigned x0 = (unsigned)m + (px_lane >> 3) + px_warp_id * 4;
        const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
        px_bf16* const p = C.data + ((int)x0 * C.stride[0] + (int)x1);
        #pragma unroll
        for (int i_1 = 0; i_1 < 64; i_1 += 8) {
          ptx::store_vector_if<8>(p + (i_1 >> 3) * 16 * C.stride[0], x_1 + i_1, ptx::inside(x0 + (i_1 >> 3) * 16, C.shape[0]) & ptx::inside(x1, C.shape[1]));
        }
      }
      // v3.py:53: x = px.tcgen05.load(acc[t][:, part : part + 64])
      float t_1[64];
      // 32x32b: 1 of each warp
      {
        const unsigned px_at = px_tmem + 64 + (px_warp_id << 21);
        ptx::tcgen05_ld_32x32b_x64_float(t_1, px_at);
      }
      // v3.py:54: px.store(C[m : m + BM, n + part : n + part + 64], x.to(C.dtype))
      // v3.py:53: x = px.tcgen05.load(acc[t][:, part : part + 64])
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_1);
      // v3.py:54: px.store(C[m : m + BM, n + part : n + part + 64], x.to(C.dtype))
      px_bf16 x_2[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(x_2 + i_1, t_1[i_1], t_1[i_1 + 1]);
      px_bf16 x_3[64];
      {
        px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 196864));
        ptx::bar_sync<1, 128>();  // scratch memory is free
        {
          auto* const p = scratch + (px_lane + px_warp_id * 32) * 72;
          #pragma unroll
          for (int i_1 = 0; i_1 < 64; i_1 += 8) {
            ptx::store_vector<8>(p + (i_1 >> 3) * 8, x_2 + (i_1 >> 3) * 8);
          }
        }
        ptx::bar_sync<1, 128>();
        {
          auto* const p = scratch + ((px_lane >> 3) + px_warp_id * 4) * 72 + (px_lane & 7) * 8;
          #pragma unroll
          for (int i_1 = 0; i_1 < 64; i_1 += 8) {
            ptx::load_vector<8>(x_3 + (i_1 >> 3) * 8, p + ((i_1 >> 3) & 1) * 1152 + ((i_1 >> 4) & 1) * 2304 + (i_1 >> 5) * 4608);
          }
        }
      }
      {
        const unsigned x0 = (unsigned)m + (px_lane >> 3) + px_warp_id * 4;
        const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
        px_bf16* const p = (C.data + ((int)x0 * C.stride[0] + (int)x1)) + (64);
        #pragma unroll
        for (int i_1 = 0; i_1 < 64; i_1 += 8) {
          ptx::store_vector_if<8>(p + (i_1 >> 3) * 16 * C.stride[0], x_3 + i_1, ptx::inside(x0 + (i_1 >> 3) * 16, C.shape[0]) & ptx::inside(x1 + 64, C.shape[1]));
        }
      }
      // v3.py:53: x = px.tcgen05.load(acc[t][:, part : part + 64])
      float t_2[64];
      // 32x32b: 1 of each warp
      {
        const unsigned px_at = px_tmem + 128 + (px_warp_id << 21);
        ptx::tcgen05_ld_32x32b_x64_float(t_2, px_at);
      }
      // v3.py:54: px.store(C[m : m + BM, n + part : n + part + 64], x.to(C.dtype))
      // v3.py:53: x = px.tcgen05.load(acc[t][:, part : part + 64])
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_2);
      // v3.py:54: px.store(C[m : m + BM, n + part : n + part + 64], x.to(C.dtype))
      px_bf16 x_4[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(x_4 + i_1, t_2[i_1], t_2[i_1 + 1]);
      px_bf16 x_5[64];
      {
        px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 196864));
        ptx::bar_sync<1, 128>();  // scratch memory is free
        {
          auto* const p = scratch + (px_lane + px_warp_id * 32) * 72;
          #pragma unroll
          for (int i_1 = 0; i_1 < 64; i_1 += 8) {
            ptx::store_vector<8>(p + (i_1 >> 3) * 8, x_4 + (i_1 >> 3) * 8);
          }
        }
        ptx::bar_sync<1, 128>();
        {
          auto* const p = scratch + ((px_lane >> 3) + px_warp_id * 4) * 72 + (px_lane & 7) * 8;
          #pragma unroll
          for (int i_1 = 0; i_1 < 64; i_1 += 8) {
            ptx::load_vector<8>(x_5 + (i_1 >> 3) * 8, p + ((i_1 >> 3) & 1) * 1152 + ((i_1 >> 4) & 1) * 2304 + (i_1 >> 5) * 4608);
          }
        }
      }
      {
        const unsigned x0 = (unsigned)m + (px_lane >> 3) + px_warp_id * 4;
        const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
        px_bf16* const p = (C.data + ((int)x0 * C.stride[0] + (int)x1)) + (128);
        #pragma unroll
        for (int i_1 = 0; i_1 < 64; i_1 += 8) {
          ptx::store_vector_if<8>(p + (i_1 >> 3) * 16 * C.stride[0], x_5 + i_1, ptx::inside(x0 + (i_1 >> 3) * 16, C.shape[0]) & ptx::inside(x1 + 128, C.shape[1]));
        }
      }
      // v3.py:53: x = px.tcgen05.load(acc[t][:, part : part + 64])
      float t_3[64];
      // 32x32b: 1 of each warp
      {
        const unsigned px_at = px_tmem + 192 + (px_warp_id << 21);
        ptx::tcgen05_ld_32x32b_x64_float(t_3, px_at);
      }
      // v3.py:54: px.store(C[m : m + BM, n + part : n + part + 64], x.to(C.dtype))
      // v3.py:53: x = px.tcgen05.load(acc[t][:, part : part + 64])
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<64>(t_3);
      // v3.py:54: px.store(C[m : m + BM, n + part : n + part + 64], x.to(C.dtype))
      px_bf16 x_6[64];
      #pragma unroll
      for (int i_1 = 0; i_1 < 64; i_1 += 2) ptx::bf16_pair_from_float(x_6 + i_1, t_3[i_1], t_3[i_1 + 1]);
      px_bf16 x_7[64];
      {
        px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 196864));
        ptx::bar_sync<1, 128>();  // scratch memory is free
        {
          auto* const p = scratch + (px_lane + px_warp_id * 32) * 72;
          #pragma unroll
          for (int i_1 = 0; i_1 < 64; i_1 += 8) {
            ptx::store_vector<8>(p + (i_1 >> 3) * 8, x_6 + (i_1 >> 3) * 8);
          }
        }
        ptx::bar_sync<1, 128>();
        {
          auto* const p = scratch + ((px_lane >> 3) + px_warp_id * 4) * 72 + (px_lane & 7) * 8;
          #pragma unroll
          for (int i_1 = 0; i_1 < 64; i_1 += 8) {
            ptx::load_vector<8>(x_7 + (i_1 >> 3) * 8, p + ((i_1 >> 3) & 1) * 1152 + ((i_1 >> 4) & 1) * 2304 + (i_1 >> 5) * 4608);
          }
        }
      }
      {
        const unsigned x0 = (unsigned)m + (px_lane >> 3) + px_warp_id * 4;
        const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
        px_bf16* const p = (C.data + ((int)x0 * C.stride[0] + (int)x1)) + (192);
        #pragma unroll
        for (int i_1 = 0; i_1 < 64; i_1 += 8) {
          ptx::store_vector_if<8>(p + (i_1 >> 3) * 16 * C.stride[0], x_7 + i_1, ptx::inside(x0 + (i_1 >> 3) * 16, C.shape[0]) & ptx::inside(x1 + 192, C.shape[1]));
        }
      }
      // v3.py:51: with accs.consume() as t:
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<1, 128>();  // all threads have passed the wait at line 51 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(accs_empty);
      }
      // tiles.py:32: with tiles.consume() as s:  (called at v3.py:55)
      ptx::mbarrier_wait_parity(tiles_full + 8 * taking, taking_parity_1);
      // tiles.py:33: more, block = px.clc.query(answers[s])  (called at v3.py:55)
      int first_x, first_y, first_z;
      const bool granted = ptx::clusterlaunchcontrol_query_cancel(answers_addr + taking * 16, first_x, first_y, first_z);
      ptx::fence_proxy_async_shared_cta();
      const int block_2 = granted ? first_x + (int)gridDim.x * (first_y + (int)gridDim.y * first_z) : -1;
      // tiles.py:32: with tiles.consume() as s:  (called at v3.py:55)
      ptx::bar_sync<1, 128>();  // all threads have passed the wait at line 32 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(tiles_empty + 8 * taking);
      }
      const int t_4 = ptx::wrap_add(taking, 1);
      const bool t_5 = t_4 == 2;
      // v3.py:55: more, block = next_block(tiles, answers)
      taking_parity = taking_parity ^ 1;
      taking = t_5 ? 0 : t_4;
      taking_parity_1 = taking_parity_1 ^ ((int)t_5);
      more = granted;
      block = block_2;
    }
    // v3.py:47: with px.warps(0, 4):
    ptx::tcgen05_fence_before_thread_sync();
  }
  // v3.py:18: acc = px.tmem((1, BM, BN), px.f32)
  __syncthreads();  // nobody uses the tensor memory any more
  ptx::tcgen05_fence_after_thread_sync();
  if (px_warp_id == 0) {
    ptx::tcgen05_dealloc_cta_group_1_256(px_tmem);
  }
}
