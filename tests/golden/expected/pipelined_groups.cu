// grouped_matmul(BM=128, BN=64, BK=64) for sm_90a, from grouped_matmul.py:10
// 384 threads, 215168 bytes of shared memory

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
//   wrap_add
//   wrap_sub
//   setmaxnreg_dec
//   inside
//   bits
//   unpack
//   load_vector
//   fill_vector
//   warp_sum_i32
//   wrap_mul
//   floor_div
//   minimum
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global
//   cp_async_bulk_tensor_3d_shared_global
//   elect_sync
//   setmaxnreg_inc
//   bar_sync
//   wgmma_fence_sync_aligned
//   wgmma_descriptor
//   wgmma_m64n64k16_f32_bf16_bf16_x4
//   wgmma_commit_group_sync_aligned
//   wgmma_wait_group_1
//   mbarrier_arrive_shared_cta
//   wgmma_wait_group_0
//   keep_float
//   bf16_pair_from_float
//   store_vector
//   store_vector_if
//   shared_address

extern "C" __global__ void __launch_bounds__(384, 1) grouped_matmul_kernel(
    const __grid_constant__ px_array<px_bf16, 2> X,
    const __grid_constant__ px_array<px_bf16, 3> W,
    const __grid_constant__ px_array<int, 1> STARTS,
    const __grid_constant__ px_array<px_bf16, 2> Y,
    const __grid_constant__ px_tensor_map X_map,
    const __grid_constant__ px_tensor_map W_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned X_W_full = px_base + 215040;
  const unsigned X_W_empty = px_base + 215104;
  const unsigned X_ring_addr = px_base;
  const unsigned W_ring_addr = px_base + 131072;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&X_map);
    ptx::prefetch_tensormap(&W_map);
  }
  // grouped_matmul.py:14: acc = px.dot(px.load(X[t : t + BM, k : k + BK]), px.load(W[g.index, n : n + BN, k : k + BK]).T, acc)
  if (px_one) {
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(X_W_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 8; ++px_i) ptx::mbarrier_init_shared_cta(X_W_empty + 8 * px_i, 2);
    // grouped_matmul.py:10: def grouped_matmul(X, W, STARTS, Y, *, BM=128, BN=128, BK=64):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // grouped_matmul.py:11: for t, g in px.persistent(px.cdiv(Y.shape[1], BN), groups=STARTS, tile=BM):
  const int Y_size1 = Y.shape[1];
  const int STARTS_size0 = STARTS.shape[0];
  const int cluster = (int)blockIdx.x + (int)gridDim.x * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int clusters = (int)gridDim.x * (int)gridDim.y * (int)gridDim.z;
  // grouped_matmul.py:13: for k in px.pipelined(range(0, X.shape[1], BK)):
  const int X_size1 = X.shape[1];
  // grouped_matmul.py:11: for t, g in px.persistent(px.cdiv(Y.shape[1], BN), groups=STARTS, tile=BM):
  const int t = ptx::wrap_add((Y_size1 >> 6), ((int)((Y_size1 & 63) != 0)));
  const int groups = ptx::wrap_sub(STARTS_size0, 1);
  // grouped_matmul.py:10: def grouped_matmul(X, W, STARTS, Y, *, BM=128, BN=128, BK=64):
  __syncthreads();  // barriers are initialised before their first use
  // grouped_matmul.py:13: for k in px.pipelined(range(0, X.shape[1], BK)):
  if (px_warp_id >= 8) {  // producer: warp 8
    const int px_warp = px_warp_id - 8;
    const bool px_one = ptx::elect_sync();
    ptx::setmaxnreg_dec<40>();
    if (px_warp_id == 8) {
      int fill_stage = 0;
      int fill_parity = 0;
      // grouped_matmul.py:11: for t, g in px.persistent(px.cdiv(Y.shape[1], BN), groups=STARTS, tile=BM):
      int total = 0;
      for (int first = 0; first < groups; first += 128) {
        int begins[4];
        {
          const unsigned x0 = (unsigned)first + px_lane * 4;
          int* const p = STARTS.data + ((int)x0);
          if (ptx::inside(x0, STARTS.shape[0])) ptx::load_vector<4>(begins, p);
          else ptx::fill_vector<4>(begins, 0);
        }
        int ends[4];
        {
          const unsigned x0 = (unsigned)first + px_lane * 4;
          int* const p = (STARTS.data + ((int)x0)) + (1);
          if (ptx::wrap_add(first, 1) % 4 == 0) {
            if (ptx::inside(x0 + 1, STARTS.shape[0])) ptx::load_vector<4>(ends, p);
            else ptx::fill_vector<4>(ends, 0);
          } else {
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              ends[i] = ptx::inside(x0 + 1 + i, STARTS.shape[0]) ? *(p + i) : 0;
            }
          }
        }
        int t_1[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_1[i] = ptx::wrap_sub(ends[i], begins[i]);
        int t_2[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_2[i] = ptx::wrap_add(t_1[i], 127);
        int t_3[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_3[i] = t_2[i] >> 7;
        int t_4[4];
        {
          const int c0 = px_lane * 4;
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            t_4[i] = c0 + i;
          }
        }
        int t_5[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_5[i] = ptx::wrap_add(first, t_4[i]);
        bool t_6[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_6[i] = t_5[i] < groups;
        int t_7[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) t_7[i] = t_6[i] ? t_3[i] : 0;
        int t_sum[1];
        {
          t_sum[0] = t_7[0];
          #pragma unroll
          for (int i = 1; i < 4; ++i) {
            t_sum[0] = ptx::wrap_add(t_sum[0], t_7[i]);
          }
          t_sum[0] = ptx::warp_sum_i32(t_sum[0]);
        }
        const int t_8 = t_sum[0];
        total = ptx::wrap_add(total, t_8);
      }
      const int t_1 = ptx::inside(0, STARTS.shape[0]) ? *(STARTS.data) : 0;
      int index = -1;
      int first = t_1;
      int last = t_1;
      int before = 0;
      int height = 0;
      #pragma unroll 1
      for (int tile = cluster; tile < ptx::wrap_mul(total, t); tile += clusters) {
        int index_1 = index;
        int first_1 = first;
        int last_1 = last;
        int before_1 = before;
        int height_1 = height;
        while (true) {
          const int t_2 = ptx::wrap_add(before_1, ptx::wrap_mul(height_1, t));
          if (!(tile >= t_2)) break;
          const int t_3 = ptx::wrap_add(before_1, ptx::wrap_mul(height_1, t));
          const int t_4 = ptx::wrap_add(index_1, 1);
          const int t_5 = ptx::inside(ptx::wrap_add(t_4, 1), STARTS.shape[0]) ? *((const volatile int*)(STARTS.data + ptx::wrap_add(t_4, 1))) : 0;
          const int t_6 = (ptx::wrap_add(ptx::wrap_sub(t_5, last_1), 127)) >> 7;
          index_1 = t_4;
          first_1 = last_1;
          last_1 = t_5;
          before_1 = t_3;
          height_1 = t_6;
        }
        const int place = ptx::wrap_sub(tile, before_1);
        const int band = ptx::floor_div<int>(place, ptx::wrap_mul(8, t));
        const int inside = ptx::wrap_sub(place, (ptx::wrap_mul(band, ptx::wrap_mul(8, t))));
        const int height_2 = ptx::minimum<int>(8, (ptx::wrap_sub(height_1, ptx::wrap_mul(band, 8))));
        const int column = ptx::floor_div<int>(inside, height_2);
        const int t_2 = ptx::wrap_sub((ptx::wrap_add(ptx::wrap_mul(band, 8), inside)), ptx::wrap_mul(column, height_2));
        const int t_3 = ptx::wrap_add(first_1, ptx::wrap_mul(t_2, 128));
        // grouped_matmul.py:12: n, acc = g.column * BN, px.zeros((BM, BN), px.f32)
        const int n = ptx::wrap_mul(column, 64);
        // grouped_matmul.py:13: for k in px.pipelined(range(0, X.shape[1], BK)):
        #pragma unroll 1
        for (int k = 0; k < X_size1; k += 64) {
          // grouped_matmul.py:14: acc = px.dot(px.load(X[t : t + BM, k : k + BK]), px.load(W[g.index, n : n + BN, k : k + BK]).T, acc)
          ptx::mbarrier_wait_parity(X_W_empty + 8 * fill_stage, fill_parity ^ 1);
          __syncwarp();  // all threads have passed the wait at line 14 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(X_W_full + 8 * fill_stage, 24576);
            // tensor copy: a box of 128 x 64, 128-byte swizzle
            ptx::cp_async_bulk_tensor_2d_shared_global(X_ring_addr + fill_stage * 16384, &X_map, k, t_3, X_W_full + 8 * fill_stage);
            // tensor copy: a box of 1 x 64 x 64, 128-byte swizzle
            ptx::cp_async_bulk_tensor_3d_shared_global(W_ring_addr + fill_stage * 8192, &W_map, k, n, index_1, X_W_full + 8 * fill_stage);
          }
          const int t_4 = ptx::wrap_add(fill_stage, 1);
          const bool wraps = t_4 == 8;
          fill_parity = fill_parity ^ ((int)wraps);
          fill_stage = wraps ? 0 : t_4;
        }
        // grouped_matmul.py:15: px.store(Y[g.rows, n : n + BN], acc.to(Y.dtype))  # the next group's rows stay
        index = index_1;
        first = first_1;
        last = last_1;
        before = before_1;
        height = height_1;
      }
    }
  } else if (px_warp_id < 8) {  // consumer: warps 0 to 7
    const bool px_group_one = px_warp_id % 4 == 0 && ptx::elect_sync();
    ptx::setmaxnreg_inc<232>();
    // grouped_matmul.py:13: for k in px.pipelined(range(0, X.shape[1], BK)):
    int take_stage = 0;
    int take_parity = 0;
    // grouped_matmul.py:11: for t, g in px.persistent(px.cdiv(Y.shape[1], BN), groups=STARTS, tile=BM):
    int total = 0;
    for (int first = 0; first < groups; first += 128) {
      int begins[1];
      {
        const unsigned x0 = (unsigned)first + px_lane + (px_warp_id & 3) * 32;
        int* const p = STARTS.data + ((int)x0);
        begins[0] = ptx::inside(x0, STARTS.shape[0]) ? *(p) : 0;
      }
      int ends[1];
      {
        const unsigned x0 = (unsigned)first + px_lane + (px_warp_id & 3) * 32;
        int* const p = (STARTS.data + ((int)x0)) + (1);
        ends[0] = ptx::inside(x0 + 1, STARTS.shape[0]) ? *(p) : 0;
      }
      int t_1[1];
      t_1[0] = ptx::wrap_sub(ends[0], begins[0]);
      int t_2[1];
      t_2[0] = ptx::wrap_add(t_1[0], 127);
      int t_3[1];
      t_3[0] = t_2[0] >> 7;
      int t_4[1];
      {
        const int c0 = px_lane + (px_warp_id & 3) * 32;
        t_4[0] = c0;
      }
      int t_5[1];
      t_5[0] = ptx::wrap_add(first, t_4[0]);
      bool t_6[1];
      t_6[0] = t_5[0] < groups;
      int t_7[1];
      t_7[0] = t_6[0] ? t_3[0] : 0;
      int t_sum[1];
      {
        t_sum[0] = t_7[0];
        t_sum[0] = ptx::warp_sum_i32(t_sum[0]);
        int* const partial = reinterpret_cast<int*>((px_smem + 196608));
        const int part = (px_warp_id & 3);
        ptx::bar_sync<1, 256>();  // scratch memory is free
        if (px_lane == 0 && (px_warp_id & 4) == 0) {
          partial[part] = t_sum[0];
        }
        ptx::bar_sync<1, 256>();
        t_sum[0] = partial[0];
        #pragma unroll
        for (int j = 1; j < 4; ++j) {
          t_sum[0] = ptx::wrap_add(t_sum[0], partial[j]);
        }
      }
      const int t_8 = t_sum[0];
      total = ptx::wrap_add(total, t_8);
    }
    const int t_1 = ptx::inside(0, STARTS.shape[0]) ? *(STARTS.data) : 0;
    int index = -1;
    int first = t_1;
    int last = t_1;
    int before = 0;
    int height = 0;
    #pragma unroll 1
    for (int tile = cluster; tile < ptx::wrap_mul(total, t); tile += clusters) {
      int index_1 = index;
      int first_1 = first;
      int last_1 = last;
      int before_1 = before;
      int height_1 = height;
      while (true) {
        const int t_2 = ptx::wrap_add(before_1, ptx::wrap_mul(height_1, t));
        if (!(tile >= t_2)) break;
        const int t_3 = ptx::wrap_add(before_1, ptx::wrap_mul(height_1, t));
        const int t_4 = ptx::wrap_add(index_1, 1);
        const int t_5 = ptx::inside(ptx::wrap_add(t_4, 1), STARTS.shape[0]) ? *((const volatile int*)(STARTS.data + ptx::wrap_add(t_4, 1))) : 0;
        const int t_6 = (ptx::wrap_add(ptx::wrap_sub(t_5, last_1), 127)) >> 7;
        index_1 = t_4;
        first_1 = last_1;
        last_1 = t_5;
        before_1 = t_3;
        height_1 = t_6;
      }
      const int place = ptx::wrap_sub(tile, before_1);
      const int band = ptx::floor_div<int>(place, ptx::wrap_mul(8, t));
      const int inside = ptx::wrap_sub(place, (ptx::wrap_mul(band, ptx::wrap_mul(8, t))));
      const int height_2 = ptx::minimum<int>(8, (ptx::wrap_sub(height_1, ptx::wrap_mul(band, 8))));
      const int column = ptx::floor_div<int>(inside, height_2);
      const int t_2 = ptx::wrap_sub((ptx::wrap_add(ptx::wrap_mul(band, 8), inside)), ptx::wrap_mul(column, height_2));
      const int t_3 = ptx::wrap_add(first_1, ptx::wrap_mul(t_2, 128));
      // grouped_matmul.py:12: n, acc = g.column * BN, px.zeros((BM, BN), px.f32)
      const int n = ptx::wrap_mul(column, 64);
      // grouped_matmul.py:13: for k in px.pipelined(range(0, X.shape[1], BK)):
      float acc[32];
      float acc_1[32];
      int last_stage = 0;
      const bool ran = 0 < X_size1;
      if (ran) {
      } else {
        // grouped_matmul.py:12: n, acc = g.column * BN, px.zeros((BM, BN), px.f32)
        float acc_2[32];
        #pragma unroll
        for (int i = 0; i < 32; ++i) acc_2[i] = 0.0f;
        // grouped_matmul.py:13: for k in px.pipelined(range(0, X.shape[1], BK)):
        #pragma unroll
        for (int px_r = 0; px_r < 32; ++px_r) acc_1[px_r] = acc_2[px_r];
      }
      ptx::bar_sync<1, 256>();  // all threads are done with Y at line 15 before the elected thread arrives
      #pragma unroll 1
      for (int k = 0; k < X_size1; k += 64) {
        // grouped_matmul.py:14: acc = px.dot(px.load(X[t : t + BM, k : k + BK]), px.load(W[g.index, n : n + BN, k : k + BK]).T, acc)
        const int take_stage_1 = take_stage;
        ptx::mbarrier_wait_parity(X_W_full + 8 * take_stage_1, take_parity);
        const int t_4 = ptx::wrap_add(take_stage_1, 1);
        const bool wraps = t_4 == 8;
        take_parity = take_parity ^ ((int)wraps);
        take_stage = wraps ? 0 : t_4;
        const bool later = k != 0;
        ptx::wgmma_fence_sync_aligned();
        {
          const unsigned long long px_a = ptx::wgmma_descriptor(X_ring_addr + take_stage_1 * 16384 + px_warp_id / 4 * 8192, 0x4000004000010000ull);
          const unsigned long long px_b = ptx::wgmma_descriptor(W_ring_addr + take_stage_1 * 8192, 0x4000004000010000ull);
          ptx::wgmma_m64n64k16_f32_bf16_bf16_x4<2, 4, 6, 2, 4, 6>(acc_1, px_a, px_b, later);
        }
        ptx::wgmma_commit_group_sync_aligned();
        ptx::wgmma_wait_group_1();
        const bool later_1 = k != 0;
        if (later_1) {
          if (px_group_one) {
            ptx::mbarrier_arrive_shared_cta(X_W_empty + 8 * last_stage);
          }
        }
        last_stage = take_stage_1;
      }
      // grouped_matmul.py:13: for k in px.pipelined(range(0, X.shape[1], BK)):
      ptx::wgmma_wait_group_0();
      ptx::keep_float<32>(acc_1);
      if (ran) {
        if (px_group_one) {
          ptx::mbarrier_arrive_shared_cta(X_W_empty + 8 * last_stage);
        }
      }
      // grouped_matmul.py:15: px.store(Y[g.rows, n : n + BN], acc.to(Y.dtype))  # the next group's rows stay
      px_bf16 acc_2[32];
      #pragma unroll
      for (int i = 0; i < 32; i += 2) ptx::bf16_pair_from_float(acc_2 + i, acc_1[i], acc_1[i + 1]);
      px_bf16 acc_3[32];
      {
        px_bf16* const scratch = reinterpret_cast<px_bf16*>((px_smem + 196608));
        ptx::bar_sync<1, 256>();  // scratch memory is free
        {
          auto* const p = scratch + ((px_lane >> 2) + px_warp_id * 16) * 72 + (px_lane & 3) * 2;
          #pragma unroll
          for (int i = 0; i < 32; i += 2) {
            ptx::store_vector<2>(p + ((i >> 1) & 1) * 576 + (i >> 2) * 8, acc_2 + (i >> 1) * 2);
          }
        }
        ptx::bar_sync<1, 256>();
        {
          auto* const p = scratch + ((px_lane >> 3) + px_warp_id * 4) * 72 + (px_lane & 7) * 8;
          #pragma unroll
          for (int i = 0; i < 32; i += 8) {
            ptx::load_vector<8>(acc_3 + (i >> 3) * 8, p + ((i >> 3) & 1) * 2304 + (i >> 4) * 4608);
          }
        }
      }
      int t_4[4];
      {
        const int c0 = (px_lane >> 3) + px_warp_id * 4;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          t_4[i] = c0 + i * 32;
        }
      }
      int rows[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) rows[i] = ptx::wrap_add(t_3, t_4[i]);
      bool t_5[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) t_5[i] = rows[i] < last_1;
      int t_6[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) t_6[i] = t_5[i] ? rows[i] : (-1);
      {
        const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
        px_bf16* const p = Y.data + ((int)x1);
        #pragma unroll
        for (int i = 0; i < 32; i += 8) {
          ptx::store_vector_if<8>(p + t_6[i >> 3] * Y.stride[0], acc_3 + i, ptx::inside(t_6[i >> 3], Y.shape[0]) & ptx::inside(x1, Y.shape[1]));
        }
      }
      index = index_1;
      first = first_1;
      last = last_1;
      before = before_1;
      height = height_1;
    }
  }
}
