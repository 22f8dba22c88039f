// attention_blackwell(DIM=16, KEYS=16, STAGES=4, PART=16, OUT_PART=16) for sm_100a, from forward_blackwell.py
// 640 threads, 19776 bytes of shared memory

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
//   tcgen05_alloc_cta_group_1_64
//   tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned
//   mbarrier_init_shared_cta
//   fence_mbarrier_init_release_cluster
//   griddepcontrol_wait
//   griddepcontrol_launch_dependents
//   setmaxnreg_inc
//   wrap_add
//   wrap_mul
//   wrap_sub
//   floor_div
//   maximum
//   minimum
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   tcgen05_fence_after_thread_sync
//   tcgen05_ld_32x32b_x16_float
//   tcgen05_wait_ld_sync_aligned
//   keep_float
//   max_NaN_f32
//   exp2_approx
//   tcgen05_fence_before_thread_sync
//   bar_sync_of
//   mbarrier_arrive_shared_cta
//   bf16_pair_from_float
//   bits
//   pack_words
//   tcgen05_st_32x32b_x8_unsigned
//   tcgen05_wait_st_sync_aligned
//   unknown_zero
//   keep_scalar
//   reciprocal_approx
//   floor_mod
//   inside
//   elect_sync
//   setmaxnreg_dec
//   bar_sync
//   warp_any
//   tcgen05_st_32x32b_x16_float
//   cp_async_bulk_wait_group_read_1
//   tcgen05_ld_16x256b_x2_float
//   stmatrix_x4
//   fence_proxy_async_shared_cta
//   cp_async_bulk_tensor_4d_global_shared
//   cp_async_bulk_commit_group
//   cp_async_bulk_wait_group_0
//   tcgen05_mma_cta_group_1_f16
//   tcgen05_descriptor
//   tcgen05_commit_cta_group_1
//   tcgen05_mma_cta_group_1_f16_tmem
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_4d_shared_global
//   tcgen05_dealloc_cta_group_1_64
//   shared_address

extern "C" __global__ void __launch_bounds__(640, 1) attention_blackwell_kernel(
    const __grid_constant__ px_array<px_bf16, 4> Q,
    const __grid_constant__ px_array<px_bf16, 4> K,
    const __grid_constant__ px_array<px_bf16, 4> V,
    const __grid_constant__ px_array<px_bf16, 4> O,
    const __grid_constant__ px_array<float, 3> LSE,
    const float factor,
    const int right,
    const int group,
    const __grid_constant__ px_tensor_map O_map,
    const __grid_constant__ px_tensor_map K_map,
    const __grid_constant__ px_tensor_map Q_map,
    const __grid_constant__ px_tensor_map V_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned tmem_address_addr = px_base + 19456;
  const unsigned scored = px_base + 19592;
  const unsigned ready = px_base + 19608;
  const unsigned summed = px_base + 19624;
  const unsigned handed = px_base + 19640;
  const unsigned taken = px_base + 19656;
  const unsigned queries_full = px_base + 19672;
  const unsigned queries_empty = px_base + 19688;
  const unsigned blocks_full = px_base + 19704;
  const unsigned blocks_empty = px_base + 19736;
  unsigned* const tmem_address = reinterpret_cast<unsigned*>(px_smem + 19456);
  float* const factors = reinterpret_cast<float*>(px_smem + 18432);
  const unsigned out_addr = px_base + 10240;
  const unsigned q_addr = px_base;
  const unsigned kv_addr = px_base + 8192;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&O_map);
    ptx::prefetch_tensormap(&K_map);
    ptx::prefetch_tensormap(&Q_map);
    ptx::prefetch_tensormap(&V_map);
  }
  // forward_blackwell.py: scores = px.tmem((TILES, ROWS, KEYS), px.f32)
  if (px_warp_id == 0) {
    // scores: accumulator, columns 0 to 31
    // results: accumulator, columns 32 to 63
    // powers: operand, columns 0 to 31
    ptx::tcgen05_alloc_cta_group_1_64(tmem_address_addr);
    ptx::tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned();
  }
  // forward_blackwell.py: scored = px.barrier(TILES)
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(scored + 8 * px_i, 1);
    // forward_blackwell.py: ready = px.barrier(TILES)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(ready + 8 * px_i, 2);
    // forward_blackwell.py: summed = px.barrier(TILES)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(summed + 8 * px_i, 1);
    // forward_blackwell.py: handed = px.barrier(TILES)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(handed + 8 * px_i, 1);
    // forward_blackwell.py: taken = px.barrier(TILES)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(taken + 8 * px_i, 1);
    // forward_blackwell.py: queries = px.pipe(TILES)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(queries_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(queries_empty + 8 * px_i, 1);
    // forward_blackwell.py: blocks = px.pipe(STAGES)
    for (int px_i = 0; px_i < 4; ++px_i) ptx::mbarrier_init_shared_cta(blocks_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 4; ++px_i) ptx::mbarrier_init_shared_cta(blocks_empty + 8 * px_i, 1);
    // forward_blackwell.py: def attention_blackwell(
    ptx::fence_mbarrier_init_release_cluster();
  }
  // forward_blackwell.py: rows = px.cdiv(Q.shape[2], ROWS * TILES)  (called at forward_blackwell.py)
  const int Q_size0 = Q.shape[0];
  const int Q_size1 = Q.shape[1];
  const int Q_size2 = Q.shape[2];
  // forward_blackwell.py: px.block_id(0), rows * Q.shape[1] * Q.shape[0], px.num_blocks(0), rows, Q.shape[1], Q.shape[0],  (called at forward_blackwell.py)
  const int block_x = (int)blockIdx.x;
  const int blocks_x = (int)gridDim.x;
  // forward_blackwell.py: Reach(Q.shape[2], K.shape[2], left, right), KEYS,  (called at forward_blackwell.py)
  const int K_size2 = K.shape[2];
  // forward_blackwell.py: def attention_blackwell(
  __syncthreads();  // barriers are initialised before their first use
  // forward_blackwell.py: scores = px.tmem((TILES, ROWS, KEYS), px.f32)
  const unsigned px_tmem = *(volatile unsigned*)tmem_address;
  // launches.py: px.wait_prior()  (called at forward_blackwell.py)
  ptx::griddepcontrol_wait();
  // launches.py: px.launch_dependents()  (called at forward_blackwell.py)
  ptx::griddepcontrol_launch_dependents();
  // forward_blackwell.py: with px.warps(0, GROUP_WARPS, regs=SOFTMAX_REGS, copies=TILES) as c:
  __syncthreads();  // all threads are done with tmem_address at line 323 before the elected thread arrives
  if (px_warp_id < 8) {  // warps 0 to 7, 2 copies
    const int px_copy = px_warp_id / 4;
    const int px_warp = px_warp_id % 4;
    const bool px_one = px_warp_id % 4 == 0 && ptx::elect_sync();
    ptx::setmaxnreg_inc<176>();
    const int c = px_copy;
    // forward_blackwell.py: rows = px.cdiv(Q.shape[2], ROWS * TILES)  (called at forward_blackwell.py)
    const int rows = ptx::wrap_add((Q_size2 >> 8), ((int)((Q_size2 & 255) != 0)));
    // forward_blackwell.py: px.block_id(0), rows * Q.shape[1] * Q.shape[0], px.num_blocks(0), rows, Q.shape[1], Q.shape[0],  (called at forward_blackwell.py)
    const int t = ptx::wrap_mul(ptx::wrap_mul(rows, Q_size1), Q_size0);
    // forward_blackwell.py: for t in range(work.first, work.count, work.step):  (called at forward_blackwell.py)
    int sent = 0;
    int turn = 0;
    #pragma unroll 1
    for (int t_1 = block_x; t_1 < t; t_1 += blocks_x) {
      // forward_blackwell.py: wide = self.heads * self.batches  (called at forward_blackwell.py)
      const int wide = ptx::wrap_mul(Q_size1, Q_size0);
      // forward_blackwell.py: m = self.rows - 1 - t // wide  (called at forward_blackwell.py)
      const int m = ptx::wrap_sub(ptx::wrap_sub(rows, 1), (ptx::floor_div<int>(t_1, wide)));
      // forward_blackwell.py: return which // self.heads, which % self.heads, px.maximum(m, 0) * (ROWS * TILES)  (called at forward_blackwell.py)
      const int row = ptx::wrap_mul((ptx::maximum<int>(m, 0)), 256);
      // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_blackwell.py)
      // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
      const int t_2 = ptx::wrap_add(ptx::wrap_add(row, 255), ptx::wrap_sub(K_size2, Q_size2));
      // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py)
      const int end = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_2, right), 1)));
      // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_blackwell.py)
      const int t_3 = ptx::maximum<int>(end, 0);
      const int high = ptx::wrap_add((t_3 >> 4), ((int)((t_3 & 15) != 0)));
      // scores.py: low = px.minimum(self.begin(first) // KEYS, high)  (called at forward_blackwell.py)
      const int low = ptx::minimum<int>(0, high);
      // forward_blackwell.py: low = px.maximum(px.minimum(low, high - 1), 0)  (called at forward_blackwell.py)
      const int low_1 = ptx::maximum<int>((ptx::minimum<int>(low, ptx::wrap_sub(high, 1))), 0);
      // forward_blackwell.py: return low, px.maximum(high, low + 1)  (called at forward_blackwell.py)
      const int high_1 = ptx::maximum<int>(high, ptx::wrap_add(low_1, 1));
      // forward_blackwell.py: row = row + self.c * ROWS  (called at forward_blackwell.py)
      const int row_1 = ptx::wrap_add(row, ptx::wrap_mul(c, 128));
      // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
      const int t_4 = ptx::wrap_add(row_1, ptx::wrap_sub(K_size2, Q_size2));
      // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py)
      const int end_1 = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_4, right), 1)));
      // scores.py: high = px.maximum(self.end(first), 0) // KEYS  (called at forward_blackwell.py)
      const int high_2 = (ptx::maximum<int>(end_1, 0)) >> 4;
      // scores.py: return low, px.maximum(low, high)  (called at forward_blackwell.py)
      const int whole_high = ptx::maximum<int>(0, high_2);
      // forward_blackwell.py: for j in range(low, high):  (called at forward_blackwell.py)
      int sent_1 = sent;
      int turn_1 = turn;
      // forward_blackwell.py: top = px.full((ROWS,), NOTHING, px.f32)  (called at forward_blackwell.py)
      float top[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) top[i] = __int_as_float(0xff800000);
      // forward_blackwell.py: for j in range(low, high):  (called at forward_blackwell.py)
      float top_1[1];
      #pragma unroll
      for (int px_r = 0; px_r < 1; ++px_r) top_1[px_r] = top[px_r];
      // forward_blackwell.py: total = px.zeros((ROWS,), px.f32)  (called at forward_blackwell.py)
      float total[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) total[i] = 0.0f;
      // forward_blackwell.py: for j in range(low, high):  (called at forward_blackwell.py)
      float total_1[1];
      #pragma unroll
      for (int px_r = 0; px_r < 1; ++px_r) total_1[px_r] = total[px_r];
      #pragma unroll 1
      for (int j = low_1; j < high_1; ++j) {
        int sent_2;
        float top_2[1];
        float total_2[1];
        // forward_blackwell.py: signals.scores[self.c].wait(turn)  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(scored + 8 * c, turn_1);
        // forward_blackwell.py: if j >= whole_low and j < whole_high:  (called at forward_blackwell.py)
        if ((bool)((j >= 0) & (j < whole_high))) {
          int sent_3;
          // forward_blackwell.py: top, total = self.step(top, total, row, j * work.KEYS, j == low, False)  (called at forward_blackwell.py)
          // forward_blackwell.py: x = px.tcgen05.load(self.scores[:, first : first + self.PART])  (called at forward_blackwell.py)
          ptx::tcgen05_fence_after_thread_sync();
          float t_5[16];
          // 32x32b: 1 of each warp
          {
            const unsigned px_at = px_tmem + c * 16 + (px_warp << 21);
            ptx::tcgen05_ld_32x32b_x16_float(t_5, px_at);
          }
          ptx::tcgen05_wait_ld_sync_aligned();
          ptx::keep_float<16>(t_5);
          // forward_blackwell.py: highest = px.maximum(highest, px.max(part, axis=1))  (called at forward_blackwell.py)
          float x_max[1];
          {
            float x_max_parts[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              x_max_parts[i & 3] = t_5[i];
            }
            #pragma unroll
            for (int i = 4; i < 16; ++i) {
              x_max_parts[i & 3] = ptx::max_NaN_f32(x_max_parts[i & 3], t_5[i]);
            }
            x_max[0] = ptx::max_NaN_f32(ptx::max_NaN_f32(ptx::max_NaN_f32(x_max_parts[0], x_max_parts[1]), x_max_parts[2]), x_max_parts[3]);
          }
          float t_6[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_6[i] = x_max[i];
          // forward_blackwell.py: highest = px.full((ROWS,), NOTHING, px.f32)  (called at forward_blackwell.py)
          float highest[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) highest[i] = __int_as_float(0xff800000);
          // forward_blackwell.py: highest = px.maximum(highest, px.max(part, axis=1))  (called at forward_blackwell.py)
          float highest_1[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) highest_1[i] = ptx::max_NaN_f32(highest[0], t_6[0]);
          // forward_blackwell.py: return parts, highest * self.factor  (called at forward_blackwell.py)
          float highest_2[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) highest_2[i] = highest_1[0] * factor;
          // forward_blackwell.py: new = px.where(highest <= top + LAZY, top, highest)  (called at forward_blackwell.py)
          float t_7[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_7[i] = top_1[0] + 8.0f;
          bool t_8[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_8[i] = highest_2[0] <= t_7[0];
          float v_new[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) v_new[i] = t_8[0] ? top_1[0] : highest_2[0];
          // forward_blackwell.py: alpha = px.exp2(top - (px.where(new == NOTHING, 0.0, new) if MASKED else new))  (called at forward_blackwell.py)
          float t_9[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_9[i] = top_1[0] - v_new[0];
          float alpha[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) alpha[i] = ptx::exp2_approx(t_9[0]);
          // forward_blackwell.py: if not first:  (called at forward_blackwell.py)
          if (!(j == low_1)) {
            // forward_blackwell.py: self.signals.taken[self.c].wait(self.sent ^ 1)  (called at forward_blackwell.py)
            ptx::mbarrier_wait_parity(taken + 8 * c, sent_1 ^ 1);
            // forward_blackwell.py: px.store(self.factors, factors.reshape(ROWS, 1))  (called at forward_blackwell.py)
            float t_10[1];
            #pragma unroll
            for (int i = 0; i < 1; ++i) t_10[i] = alpha[i];
            {
              float* const p = factors + c * 128 + px_lane + px_warp * 32;
              *(p) = t_10[0];
            }
            // forward_blackwell.py: self.signals.handed[self.c].arrive()  (called at forward_blackwell.py)
            ptx::tcgen05_fence_before_thread_sync();
            ptx::bar_sync_of<128>(1 + px_copy);  // all threads are done with scores at line 194 before the elected thread arrives
            if (px_one) {
              ptx::mbarrier_arrive_shared_cta(handed + 8 * c);
            }
            // forward_blackwell.py: self.sent = self.sent ^ 1  (called at forward_blackwell.py)
            // forward_blackwell.py: if not first:  (called at forward_blackwell.py)
            sent_3 = sent_1 ^ 1;
          } else {
            sent_3 = sent_1;
          }
          // forward_blackwell.py: return new, total * alpha + self.write_powers(parts, new, MASKED)  (called at forward_blackwell.py)
          float t_10[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_10[i] = total_1[0] * alpha[0];
          // forward_blackwell.py: base = (px.where(top == NOTHING, 0.0, top) if MASKED else top).reshape(ROWS, 1)  (called at forward_blackwell.py)
          float base[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) base[i] = v_new[i];
          // forward_blackwell.py: p = px.exp2(px.fma(parts[n], self.factor, -base))  (called at forward_blackwell.py)
          float t_11[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_11[i] = -base[0];
          float t_12[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_12[i] = fmaf(t_5[i], factor, t_11[0]);
          float p_1[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) p_1[i] = ptx::exp2_approx(t_12[i]);
          // forward_blackwell.py: total = total + px.sum(p, axis=1)  (called at forward_blackwell.py)
          float p_sum[1];
          {
            float p_sum_parts[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              p_sum_parts[i & 3] = p_1[i];
            }
            #pragma unroll
            for (int i = 4; i < 16; ++i) {
              p_sum_parts[i & 3] = p_sum_parts[i & 3] + p_1[i];
            }
            p_sum[0] = ((p_sum_parts[0] + p_sum_parts[1]) + p_sum_parts[2]) + p_sum_parts[3];
          }
          float t_13[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_13[i] = p_sum[i];
          // forward_blackwell.py: total = px.zeros((ROWS,), px.f32)  (called at forward_blackwell.py)
          float total_3[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) total_3[i] = 0.0f;
          // forward_blackwell.py: total = total + px.sum(p, axis=1)  (called at forward_blackwell.py)
          float total_4[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) total_4[i] = total_3[0] + t_13[0];
          // forward_blackwell.py: px.tcgen05.store(self.powers[:, n * self.PART : (n + 1) * self.PART], p.to(self.TYPE))  (called at forward_blackwell.py)
          px_bf16 p_2[16];
          #pragma unroll
          for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_2 + i, p_1[i], p_1[i + 1]);
          ptx::tcgen05_fence_before_thread_sync();
          ptx::bar_sync_of<128>(1 + px_copy);  // scores was read at line 194 before powers, in its memory, is written
          ptx::tcgen05_fence_after_thread_sync();
          // 32x32b: 1 of each warp
          {
            const unsigned px_at = px_tmem + c * 16 + (px_warp << 21);
            unsigned px_w[8];
            ptx::pack_words<16>(px_w, p_2);
            ptx::tcgen05_st_32x32b_x8_unsigned(px_at, px_w);
          }
          // forward_blackwell.py: return new, total * alpha + self.write_powers(parts, new, MASKED)  (called at forward_blackwell.py)
          float total_5[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) total_5[i] = t_10[0] + total_4[0];
          // forward_blackwell.py: if j >= whole_low and j < whole_high:  (called at forward_blackwell.py)
          sent_2 = sent_3;
          #pragma unroll
          for (int px_r = 0; px_r < 1; ++px_r) top_2[px_r] = v_new[px_r];
          #pragma unroll
          for (int px_r = 0; px_r < 1; ++px_r) total_2[px_r] = total_5[px_r];
          // forward_blackwell.py: px.tcgen05.store(self.powers[:, n * self.PART : (n + 1) * self.PART], p.to(self.TYPE))  (called at forward_blackwell.py)
          ptx::tcgen05_wait_st_sync_aligned();
        } else {
          int sent_3;
          // forward_blackwell.py: top, total = self.step(top, total, row, j * work.KEYS, j == low, True)  (called at forward_blackwell.py)
          // forward_blackwell.py: x = px.tcgen05.load(self.scores[:, first : first + self.PART])  (called at forward_blackwell.py)
          ptx::tcgen05_fence_after_thread_sync();
          float t_5[16];
          // 32x32b: 1 of each warp
          {
            const unsigned px_at = px_tmem + c * 16 + (px_warp << 21);
            ptx::tcgen05_ld_32x32b_x16_float(t_5, px_at);
          }
          // forward_blackwell.py: x = self.work.reach.masked(x, row, px.keep(key + first), ROWS, self.PART)  (called at forward_blackwell.py)
          const int t_6 = ptx::keep_scalar(ptx::wrap_mul(j, 16));
          // scores.py: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_blackwell.py)
          // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
          const int t_7 = ptx::wrap_add(row_1, ptx::wrap_sub(K_size2, Q_size2));
          // scores.py: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_blackwell.py)
          const int t_8 = ptx::wrap_sub((ptx::wrap_add(ptx::wrap_add(t_7, right), 1)), t_6);
          // forward_blackwell.py: x = px.tcgen05.load(self.scores[:, first : first + self.PART])  (called at forward_blackwell.py)
          ptx::tcgen05_wait_ld_sync_aligned();
          ptx::keep_float<16>(t_5);
          // scores.py: columns = px.arange(KEYS).reshape(1, KEYS)  (called at forward_blackwell.py)
          // scores.py: rows = px.arange(ROWS).reshape(ROWS, 1)  (called at forward_blackwell.py)
          int t_9[1];
          {
            const int c0 = px_lane + px_warp * 32;
            t_9[0] = c0;
          }
          int rows_1[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) rows_1[i] = t_9[i];
          // scores.py: ok = columns < px.minimum(self.keys - key, self.beside(first) + self.right + 1 - key + rows)  (called at forward_blackwell.py)
          int t_10[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_10[i] = ptx::wrap_add(t_8, rows_1[0]);
          int t_11[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_11[i] = ptx::minimum<int>(ptx::wrap_sub(K_size2, t_6), t_10[0]);
          bool ok[16];
          {
            int limit[1];
            #pragma unroll
            for (int i = 0; i < 1; ++i) limit[i] = ptx::maximum<int>(t_11[i], -1) - 0;
            #pragma unroll
            for (int i = 0; i < 16; ++i) ok[i] = i < limit[0];
          }
          // scores.py: return px.where(ok, s, NOTHING)  (called at forward_blackwell.py)
          float x[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) x[i] = ok[i] ? t_5[i] : __int_as_float(0xff800000);
          // forward_blackwell.py: highest = px.maximum(highest, px.max(part, axis=1))  (called at forward_blackwell.py)
          float x_max[1];
          {
            float x_max_parts[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              x_max_parts[i & 3] = x[i];
            }
            #pragma unroll
            for (int i = 4; i < 16; ++i) {
              x_max_parts[i & 3] = ptx::max_NaN_f32(x_max_parts[i & 3], x[i]);
            }
            x_max[0] = ptx::max_NaN_f32(ptx::max_NaN_f32(ptx::max_NaN_f32(x_max_parts[0], x_max_parts[1]), x_max_parts[2]), x_max_parts[3]);
          }
          float t_12[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_12[i] = x_max[i];
          // forward_blackwell.py: highest = px.full((ROWS,), NOTHING, px.f32)  (called at forward_blackwell.py)
          float highest[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) highest[i] = __int_as_float(0xff800000);
          // forward_blackwell.py: highest = px.maximum(highest, px.max(part, axis=1))  (called at forward_blackwell.py)
          float highest_1[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) highest_1[i] = ptx::max_NaN_f32(highest[0], t_12[0]);
          // forward_blackwell.py: return parts, highest * self.factor  (called at forward_blackwell.py)
          float highest_2[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) highest_2[i] = highest_1[0] * factor;
          // forward_blackwell.py: new = px.where(highest <= top + LAZY, top, highest)  (called at forward_blackwell.py)
          float t_13[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_13[i] = top_1[0] + 8.0f;
          bool t_14[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_14[i] = highest_2[0] <= t_13[0];
          float v_new[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) v_new[i] = t_14[0] ? top_1[0] : highest_2[0];
          // forward_blackwell.py: alpha = px.exp2(top - (px.where(new == NOTHING, 0.0, new) if MASKED else new))  (called at forward_blackwell.py)
          bool t_15[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_15[i] = v_new[0] == __int_as_float(0xff800000);
          float t_16[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_16[i] = t_15[0] ? 0.0f : v_new[0];
          float t_17[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_17[i] = top_1[0] - t_16[0];
          float alpha[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) alpha[i] = ptx::exp2_approx(t_17[0]);
          // forward_blackwell.py: if not first:  (called at forward_blackwell.py)
          if (!(j == low_1)) {
            // forward_blackwell.py: self.signals.taken[self.c].wait(self.sent ^ 1)  (called at forward_blackwell.py)
            ptx::mbarrier_wait_parity(taken + 8 * c, sent_1 ^ 1);
            // forward_blackwell.py: px.store(self.factors, factors.reshape(ROWS, 1))  (called at forward_blackwell.py)
            float t_18[1];
            #pragma unroll
            for (int i = 0; i < 1; ++i) t_18[i] = alpha[i];
            {
              float* const p = factors + c * 128 + px_lane + px_warp * 32;
              *(p) = t_18[0];
            }
            // forward_blackwell.py: self.signals.handed[self.c].arrive()  (called at forward_blackwell.py)
            ptx::tcgen05_fence_before_thread_sync();
            ptx::bar_sync_of<128>(1 + px_copy);  // all threads are done with scores at line 194 before the elected thread arrives
            if (px_one) {
              ptx::mbarrier_arrive_shared_cta(handed + 8 * c);
            }
            // forward_blackwell.py: self.sent = self.sent ^ 1  (called at forward_blackwell.py)
            // forward_blackwell.py: if not first:  (called at forward_blackwell.py)
            sent_3 = sent_1 ^ 1;
          } else {
            sent_3 = sent_1;
          }
          // forward_blackwell.py: return new, total * alpha + self.write_powers(parts, new, MASKED)  (called at forward_blackwell.py)
          float t_18[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_18[i] = total_1[0] * alpha[0];
          // forward_blackwell.py: base = (px.where(top == NOTHING, 0.0, top) if MASKED else top).reshape(ROWS, 1)  (called at forward_blackwell.py)
          bool t_19[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_19[i] = v_new[0] == __int_as_float(0xff800000);
          float t_20[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_20[i] = t_19[0] ? 0.0f : v_new[0];
          float base[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) base[i] = t_20[i];
          // forward_blackwell.py: p = px.exp2(px.fma(parts[n], self.factor, -base))  (called at forward_blackwell.py)
          float t_21[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_21[i] = -base[0];
          float t_22[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_22[i] = fmaf(x[i], factor, t_21[0]);
          float p_1[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) p_1[i] = ptx::exp2_approx(t_22[i]);
          // forward_blackwell.py: total = total + px.sum(p, axis=1)  (called at forward_blackwell.py)
          float p_sum[1];
          {
            float p_sum_parts[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
              p_sum_parts[i & 3] = p_1[i];
            }
            #pragma unroll
            for (int i = 4; i < 16; ++i) {
              p_sum_parts[i & 3] = p_sum_parts[i & 3] + p_1[i];
            }
            p_sum[0] = ((p_sum_parts[0] + p_sum_parts[1]) + p_sum_parts[2]) + p_sum_parts[3];
          }
          float t_23[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) t_23[i] = p_sum[i];
          // forward_blackwell.py: total = px.zeros((ROWS,), px.f32)  (called at forward_blackwell.py)
          float total_3[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) total_3[i] = 0.0f;
          // forward_blackwell.py: total = total + px.sum(p, axis=1)  (called at forward_blackwell.py)
          float total_4[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) total_4[i] = total_3[0] + t_23[0];
          // forward_blackwell.py: px.tcgen05.store(self.powers[:, n * self.PART : (n + 1) * self.PART], p.to(self.TYPE))  (called at forward_blackwell.py)
          px_bf16 p_2[16];
          #pragma unroll
          for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(p_2 + i, p_1[i], p_1[i + 1]);
          ptx::tcgen05_fence_before_thread_sync();
          ptx::bar_sync_of<128>(1 + px_copy);  // scores was read at line 194 before powers, in its memory, is written
          ptx::tcgen05_fence_after_thread_sync();
          // 32x32b: 1 of each warp
          {
            const unsigned px_at = px_tmem + c * 16 + (px_warp << 21);
            unsigned px_w[8];
            ptx::pack_words<16>(px_w, p_2);
            ptx::tcgen05_st_32x32b_x8_unsigned(px_at, px_w);
          }
          // forward_blackwell.py: return new, total * alpha + self.write_powers(parts, new, MASKED)  (called at forward_blackwell.py)
          float total_5[1];
          #pragma unroll
          for (int i = 0; i < 1; ++i) total_5[i] = t_18[0] + total_4[0];
          // forward_blackwell.py: if j >= whole_low and j < whole_high:  (called at forward_blackwell.py)
          sent_2 = sent_3;
          #pragma unroll
          for (int px_r = 0; px_r < 1; ++px_r) top_2[px_r] = v_new[px_r];
          #pragma unroll
          for (int px_r = 0; px_r < 1; ++px_r) total_2[px_r] = total_5[px_r];
          // forward_blackwell.py: px.tcgen05.store(self.powers[:, n * self.PART : (n + 1) * self.PART], p.to(self.TYPE))  (called at forward_blackwell.py)
          ptx::tcgen05_wait_st_sync_aligned();
        }
        // forward_blackwell.py: if j >= whole_low and j < whole_high:  (called at forward_blackwell.py)
        // forward_blackwell.py: signals.ready[self.c].arrive()  (called at forward_blackwell.py)
        ptx::tcgen05_fence_before_thread_sync();
        ptx::bar_sync_of<128>(1 + px_copy);  // all threads are done with powers at line 218 before the elected thread arrives
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(ready + 8 * c);
        }
        // forward_blackwell.py: turn = turn ^ 1  (called at forward_blackwell.py)
        sent_1 = sent_2;
        turn_1 = turn_1 ^ 1;
        #pragma unroll
        for (int px_r = 0; px_r < 1; ++px_r) top_1[px_r] = top_2[px_r];
        #pragma unroll
        for (int px_r = 0; px_r < 1; ++px_r) total_1[px_r] = total_2[px_r];
      }
      // forward_blackwell.py: for j in range(low, high):  (called at forward_blackwell.py)
      // forward_blackwell.py: self.hand_on(px.where(total == 0.0, 0.0, px.reciprocal(total)))  (called at forward_blackwell.py)
      bool t_5[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) t_5[i] = total_1[0] == 0.0f;
      float t_6[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) t_6[i] = ptx::reciprocal_approx(total_1[0]);
      float t_7[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) t_7[i] = t_5[0] ? 0.0f : t_6[0];
      // forward_blackwell.py: self.signals.taken[self.c].wait(self.sent ^ 1)  (called at forward_blackwell.py)
      ptx::mbarrier_wait_parity(taken + 8 * c, sent_1 ^ 1);
      // forward_blackwell.py: px.store(self.factors, factors.reshape(ROWS, 1))  (called at forward_blackwell.py)
      float t_8[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) t_8[i] = t_7[i];
      {
        float* const p = factors + c * 128 + px_lane + px_warp * 32;
        *(p) = t_8[0];
      }
      // forward_blackwell.py: self.signals.handed[self.c].arrive()  (called at forward_blackwell.py)
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync_of<128>(1 + px_copy);  // all threads have passed the wait at line 223 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(handed + 8 * c);
      }
      // forward_blackwell.py: self.sent = self.sent ^ 1  (called at forward_blackwell.py)
      // forward_blackwell.py: logs = px.where(total == 0.0, NOTHING, (top + px.log2(total)) * LN2)  (called at forward_blackwell.py)
      bool t_9[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) t_9[i] = total_1[0] == 0.0f;
      float t_10[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) t_10[i] = log2f(total_1[0]);
      float t_11[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) t_11[i] = top_1[0] + t_10[0];
      float t_12[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) t_12[i] = t_11[0] * 0.6931472f;
      float logs[1];
      #pragma unroll
      for (int i = 0; i < 1; ++i) logs[i] = t_9[0] ? __int_as_float(0xff800000) : t_12[0];
      // forward_blackwell.py: batch, head, _ = work.place(px.keep(t))  # once more: registers are needed in between  (called at forward_blackwell.py)
      const int t_13 = ptx::keep_scalar(t_1);
      // forward_blackwell.py: wide = self.heads * self.batches  (called at forward_blackwell.py)
      const int wide_1 = ptx::wrap_mul(Q_size1, Q_size0);
      // forward_blackwell.py: which = t % wide  (called at forward_blackwell.py)
      const int which = ptx::floor_mod<int>(t_13, wide_1);
      // forward_blackwell.py: return which // self.heads, which % self.heads, px.maximum(m, 0) * (ROWS * TILES)  (called at forward_blackwell.py)
      const int batch = ptx::floor_div<int>(which, Q_size1);
      const int head = ptx::floor_mod<int>(which, Q_size1);
      // forward_blackwell.py: px.store(self.LSE[batch, head, row : row + ROWS], logs)  (called at forward_blackwell.py)
      {
        const unsigned x2 = (unsigned)row_1 + px_lane + px_warp * 32;
        float* const p = LSE.data + (batch * LSE.stride[0] + head * LSE.stride[1] + (int)x2);
        if (ptx::inside(batch, LSE.shape[0]) && ptx::inside(head, LSE.shape[1]) && ptx::inside(x2, LSE.shape[2])) *(p) = logs[0];
      }
      sent = sent_1 ^ 1;
      turn = turn_1;
    }
    // forward_blackwell.py: with px.warps(0, GROUP_WARPS, regs=SOFTMAX_REGS, copies=TILES) as c:
    ptx::tcgen05_fence_before_thread_sync();
  } else if (px_warp_id >= 8 && px_warp_id < 12) {  // warps 8 to 11
    const int px_warp = px_warp_id - 8;
    const bool px_one = px_warp_id == 8 && ptx::elect_sync();
    ptx::setmaxnreg_dec<80>();
    // forward_blackwell.py: rows = px.cdiv(Q.shape[2], ROWS * TILES)  (called at forward_blackwell.py)
    const int rows = ptx::wrap_add((Q_size2 >> 8), ((int)((Q_size2 & 255) != 0)));
    // forward_blackwell.py: px.block_id(0), rows * Q.shape[1] * Q.shape[0], px.num_blocks(0), rows, Q.shape[1], Q.shape[0],  (called at forward_blackwell.py)
    const int t = ptx::wrap_mul(ptx::wrap_mul(rows, Q_size1), Q_size0);
    // forward_blackwell.py: for t in range(work.first, work.count, work.step):  (called at forward_blackwell.py)
    int turn = 0;
    #pragma unroll 1
    for (int t_1 = block_x; t_1 < t; t_1 += blocks_x) {
      // forward_blackwell.py: wide = self.heads * self.batches  (called at forward_blackwell.py)
      const int wide = ptx::wrap_mul(Q_size1, Q_size0);
      // forward_blackwell.py: m = self.rows - 1 - t // wide  (called at forward_blackwell.py)
      const int m = ptx::wrap_sub(ptx::wrap_sub(rows, 1), (ptx::floor_div<int>(t_1, wide)));
      // forward_blackwell.py: which = t % wide  (called at forward_blackwell.py)
      const int which = ptx::floor_mod<int>(t_1, wide);
      // forward_blackwell.py: return which // self.heads, which % self.heads, px.maximum(m, 0) * (ROWS * TILES)  (called at forward_blackwell.py)
      const int batch = ptx::floor_div<int>(which, Q_size1);
      const int head = ptx::floor_mod<int>(which, Q_size1);
      const int row = ptx::wrap_mul((ptx::maximum<int>(m, 0)), 256);
      // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_blackwell.py)
      // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
      const int t_2 = ptx::wrap_add(ptx::wrap_add(row, 255), ptx::wrap_sub(K_size2, Q_size2));
      // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py)
      const int end = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_2, right), 1)));
      // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_blackwell.py)
      const int t_3 = ptx::maximum<int>(end, 0);
      const int high = ptx::wrap_add((t_3 >> 4), ((int)((t_3 & 15) != 0)));
      // scores.py: low = px.minimum(self.begin(first) // KEYS, high)  (called at forward_blackwell.py)
      const int low = ptx::minimum<int>(0, high);
      // forward_blackwell.py: low = px.maximum(px.minimum(low, high - 1), 0)  (called at forward_blackwell.py)
      const int low_1 = ptx::maximum<int>((ptx::minimum<int>(low, ptx::wrap_sub(high, 1))), 0);
      // forward_blackwell.py: return low, px.maximum(high, low + 1)  (called at forward_blackwell.py)
      const int high_1 = ptx::maximum<int>(high, ptx::wrap_add(low_1, 1));
      // forward_blackwell.py: signals.ready[c].arrive()  # what was summed before is out  (called at forward_blackwell.py)
      ptx::tcgen05_fence_before_thread_sync();
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(ready);
        ptx::mbarrier_arrive_shared_cta(ready + 8);
      }
      // forward_blackwell.py: for _ in range(low + 1, high):  (called at forward_blackwell.py)
      int turn_1 = turn;
      #pragma unroll 1
      for (int t_4 = ptx::wrap_add(low_1, 1); t_4 < high_1; ++t_4) {
        // forward_blackwell.py: signals.handed[c].wait(turn)  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(handed, turn_1);
        // forward_blackwell.py: alpha = px.load(factors[c])  (called at forward_blackwell.py)
        float alpha[1];
        {
          float* const p = factors + px_lane + px_warp * 32;
          alpha[0] = *(p);
        }
        // forward_blackwell.py: signals.taken[c].arrive()  (called at forward_blackwell.py)
        ptx::tcgen05_fence_before_thread_sync();
        ptx::bar_sync<3, 128>();  // all threads have passed the wait at line 275 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(taken);
        }
        // forward_blackwell.py: signals.summed[c].wait(turn)  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(summed, turn_1);
        // forward_blackwell.py: if px.any(alpha != 1.0):  (called at forward_blackwell.py)
        bool t_5[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) t_5[i] = alpha[0] != 1.0f;
        bool t_6[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) t_6[i] = t_5[i];
        bool t_max[1];
        {
          t_max[0] = t_6[0];
          t_max[0] = ptx::warp_any(t_max[0]);
          bool* const partial = reinterpret_cast<bool*>((px_smem + 19584));
          const int part = px_warp;
          ptx::bar_sync<3, 128>();  // scratch memory is free
          if (px_lane == 0) {
            partial[part] = t_max[0];
          }
          ptx::bar_sync<3, 128>();
          t_max[0] = partial[0];
          #pragma unroll
          for (int j = 1; j < 4; ++j) {
            t_max[0] = ptx::maximum<bool>(t_max[0], partial[j]);
          }
        }
        const bool t_7 = t_max[0];
        if (t_7) {
          // forward_blackwell.py: part = px.tcgen05.load(results[c][:, first : first + PART])  (called at forward_blackwell.py)
          ptx::tcgen05_fence_after_thread_sync();
          float t_8[16];
          // 32x32b: 1 of each warp
          {
            const unsigned px_at = px_tmem + 32 + (px_warp << 21);
            ptx::tcgen05_ld_32x32b_x16_float(t_8, px_at);
          }
          ptx::tcgen05_wait_ld_sync_aligned();
          ptx::keep_float<16>(t_8);
          // forward_blackwell.py: px.tcgen05.store(results[c][:, first : first + PART], part * alpha)  (called at forward_blackwell.py)
          float t_9[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_9[i] = t_8[i] * alpha[0];
          ptx::tcgen05_fence_before_thread_sync();
          ptx::bar_sync<3, 128>();  // results was read at line 281 before results is written
          ptx::tcgen05_fence_after_thread_sync();
          // 32x32b: 1 of each warp
          {
            const unsigned px_at = px_tmem + 32 + (px_warp << 21);
            ptx::tcgen05_st_32x32b_x16_float(px_at, t_9);
          }
          ptx::tcgen05_wait_st_sync_aligned();
        }
        // forward_blackwell.py: signals.ready[c].arrive()  (called at forward_blackwell.py)
        ptx::tcgen05_fence_before_thread_sync();
        ptx::bar_sync<3, 128>();  // all threads have passed the wait at line 278 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(ready);
        }
        // forward_blackwell.py: signals.handed[c].wait(turn)  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(handed + 8, turn_1);
        // forward_blackwell.py: alpha = px.load(factors[c])  (called at forward_blackwell.py)
        float alpha_1[1];
        {
          float* const p = factors + px_lane + px_warp * 32;
          alpha_1[0] = *(p + 128);
        }
        // forward_blackwell.py: signals.taken[c].arrive()  (called at forward_blackwell.py)
        ptx::bar_sync<3, 128>();  // all threads have passed the wait at line 275 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(taken + 8);
        }
        // forward_blackwell.py: signals.summed[c].wait(turn)  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(summed + 8, turn_1);
        // forward_blackwell.py: if px.any(alpha != 1.0):  (called at forward_blackwell.py)
        bool t_8[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) t_8[i] = alpha_1[0] != 1.0f;
        bool t_9[1];
        #pragma unroll
        for (int i = 0; i < 1; ++i) t_9[i] = t_8[i];
        bool t_max_1[1];
        {
          t_max_1[0] = t_9[0];
          t_max_1[0] = ptx::warp_any(t_max_1[0]);
          bool* const partial = reinterpret_cast<bool*>((px_smem + 19584));
          const int part = px_warp;
          ptx::bar_sync<3, 128>();  // scratch memory is free
          if (px_lane == 0) {
            partial[part] = t_max_1[0];
          }
          ptx::bar_sync<3, 128>();
          t_max_1[0] = partial[0];
          #pragma unroll
          for (int j = 1; j < 4; ++j) {
            t_max_1[0] = ptx::maximum<bool>(t_max_1[0], partial[j]);
          }
        }
        const bool t_10 = t_max_1[0];
        if (t_10) {
          // forward_blackwell.py: part = px.tcgen05.load(results[c][:, first : first + PART])  (called at forward_blackwell.py)
          ptx::tcgen05_fence_after_thread_sync();
          float t_11[16];
          // 32x32b: 1 of each warp
          {
            const unsigned px_at = px_tmem + 48 + (px_warp << 21);
            ptx::tcgen05_ld_32x32b_x16_float(t_11, px_at);
          }
          ptx::tcgen05_wait_ld_sync_aligned();
          ptx::keep_float<16>(t_11);
          // forward_blackwell.py: px.tcgen05.store(results[c][:, first : first + PART], part * alpha)  (called at forward_blackwell.py)
          float t_12[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_12[i] = t_11[i] * alpha_1[0];
          ptx::tcgen05_fence_before_thread_sync();
          ptx::bar_sync<3, 128>();  // results was read at line 281 before results is written
          ptx::tcgen05_fence_after_thread_sync();
          // 32x32b: 1 of each warp
          {
            const unsigned px_at = px_tmem + 48 + (px_warp << 21);
            ptx::tcgen05_st_32x32b_x16_float(px_at, t_12);
          }
          ptx::tcgen05_wait_st_sync_aligned();
        }
        // forward_blackwell.py: signals.ready[c].arrive()  (called at forward_blackwell.py)
        ptx::tcgen05_fence_before_thread_sync();
        ptx::bar_sync<3, 128>();  // all threads have passed the wait at line 278 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(ready + 8);
        }
        // forward_blackwell.py: turn = turn ^ 1  (called at forward_blackwell.py)
        turn_1 = turn_1 ^ 1;
      }
      // forward_blackwell.py: for _ in range(low + 1, high):  (called at forward_blackwell.py)
      // forward_blackwell.py: signals.handed[c].wait(turn)  (called at forward_blackwell.py)
      ptx::mbarrier_wait_parity(handed, turn_1);
      // forward_blackwell.py: inverse = px.load(factors[c])  (called at forward_blackwell.py)
      float inverse[4];
      {
        float* const p = factors + (px_lane >> 2) + px_warp * 32;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          inverse[i] = *(p + i * 8);
        }
      }
      // forward_blackwell.py: signals.taken[c].arrive()  (called at forward_blackwell.py)
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<3, 128>();  // all threads have passed the wait at line 286 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(taken);
      }
      // forward_blackwell.py: signals.summed[c].wait(turn)  (called at forward_blackwell.py)
      ptx::mbarrier_wait_parity(summed, turn_1);
      // forward_blackwell.py: px.tma.wait(1, read=True)  # the result before the last has left its buffer  (called at forward_blackwell.py)
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // forward_blackwell.py: part = px.tcgen05.load(results[c][:, first : first + PART])  (called at forward_blackwell.py)
      ptx::tcgen05_fence_after_thread_sync();
      float t_4[16];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + 32 + (px_warp << 21);
        ptx::tcgen05_ld_16x256b_x2_float(t_4, px_at);
        ptx::tcgen05_ld_16x256b_x2_float(t_4 + 8, px_at + 1048576);
      }
      // forward_blackwell.py: px.store(out[c][:, first : first + PART], px.where(inverse == 0.0, 0.0, part * inverse).to(O.dtype))  (called at forward_blackwell.py)
      bool t_5[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) t_5[i] = inverse[i] == 0.0f;
      // forward_blackwell.py: part = px.tcgen05.load(results[c][:, first : first + PART])  (called at forward_blackwell.py)
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<16>(t_4);
      // forward_blackwell.py: px.store(out[c][:, first : first + PART], px.where(inverse == 0.0, 0.0, part * inverse).to(O.dtype))  (called at forward_blackwell.py)
      float t_6[16];
      #pragma unroll
      for (int i = 0; i < 16; ++i) t_6[i] = t_4[i] * inverse[((i >> 1) & 1) + (i >> 3) * 2];
      float t_7[16];
      #pragma unroll
      for (int i = 0; i < 16; ++i) t_7[i] = t_5[((i >> 1) & 1) + (i >> 3) * 2] ? 0.0f : t_6[i];
      px_bf16 t_8[16];
      #pragma unroll
      for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(t_8 + i, t_7[i], t_7[i + 1]);
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<3, 128>();  // the elected thread is done with out at line 290 before out is written
      {
        const unsigned a = out_addr + 16 * (((px_lane & 3) * 2) ^ (((px_lane >> 2) & 1) * 9) ^ (((px_lane >> 3) & 1) * 16) ^ ((px_lane >> 4)) ^ (px_warp * 64));
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          unsigned words[4];
          ptx::pack_words<8>(words, t_8 + 8 * i);
          ptx::stmatrix_x4(a + 16 * i * 32, words);
        }
      }
      // forward_blackwell.py: px.fence.async_proxy()  (called at forward_blackwell.py)
      ptx::fence_proxy_async_shared_cta();
      // forward_blackwell.py: px.tma.store(out[c], O[batch, head, at : at + ROWS, 0:DIM])  (called at forward_blackwell.py)
      ptx::bar_sync<3, 128>();  // out was written at line 293 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 1 x 1 x 128 x 16, 32-byte swizzle
        ptx::cp_async_bulk_tensor_4d_global_shared(&O_map, 0, row, head, batch, out_addr);
        // forward_blackwell.py: px.tma.commit()  (called at forward_blackwell.py)
        ptx::cp_async_bulk_commit_group();
      }
      // forward_blackwell.py: signals.handed[c].wait(turn)  (called at forward_blackwell.py)
      ptx::mbarrier_wait_parity(handed + 8, turn_1);
      // forward_blackwell.py: inverse = px.load(factors[c])  (called at forward_blackwell.py)
      float inverse_1[4];
      {
        float* const p = factors + (px_lane >> 2) + px_warp * 32;
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
          inverse_1[i] = *(p + i * 8 + 128);
        }
      }
      // forward_blackwell.py: signals.taken[c].arrive()  (called at forward_blackwell.py)
      ptx::bar_sync<3, 128>();  // all threads have passed the wait at line 286 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(taken + 8);
      }
      // forward_blackwell.py: signals.summed[c].wait(turn)  (called at forward_blackwell.py)
      ptx::mbarrier_wait_parity(summed + 8, turn_1);
      // forward_blackwell.py: px.tma.wait(1, read=True)  # the result before the last has left its buffer  (called at forward_blackwell.py)
      if (px_one) {
        ptx::cp_async_bulk_wait_group_read_1();
      }
      // forward_blackwell.py: part = px.tcgen05.load(results[c][:, first : first + PART])  (called at forward_blackwell.py)
      ptx::tcgen05_fence_after_thread_sync();
      float t_9[16];
      // 16x256b: 2 of each warp
      {
        const unsigned px_at = px_tmem + 48 + (px_warp << 21);
        ptx::tcgen05_ld_16x256b_x2_float(t_9, px_at);
        ptx::tcgen05_ld_16x256b_x2_float(t_9 + 8, px_at + 1048576);
      }
      // forward_blackwell.py: px.store(out[c][:, first : first + PART], px.where(inverse == 0.0, 0.0, part * inverse).to(O.dtype))  (called at forward_blackwell.py)
      bool t_10[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) t_10[i] = inverse_1[i] == 0.0f;
      // forward_blackwell.py: part = px.tcgen05.load(results[c][:, first : first + PART])  (called at forward_blackwell.py)
      ptx::tcgen05_wait_ld_sync_aligned();
      ptx::keep_float<16>(t_9);
      // forward_blackwell.py: px.store(out[c][:, first : first + PART], px.where(inverse == 0.0, 0.0, part * inverse).to(O.dtype))  (called at forward_blackwell.py)
      float t_11[16];
      #pragma unroll
      for (int i = 0; i < 16; ++i) t_11[i] = t_9[i] * inverse_1[((i >> 1) & 1) + (i >> 3) * 2];
      float t_12[16];
      #pragma unroll
      for (int i = 0; i < 16; ++i) t_12[i] = t_10[((i >> 1) & 1) + (i >> 3) * 2] ? 0.0f : t_11[i];
      px_bf16 t_13[16];
      #pragma unroll
      for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(t_13 + i, t_12[i], t_12[i + 1]);
      ptx::tcgen05_fence_before_thread_sync();
      ptx::bar_sync<3, 128>();  // the elected thread is done with out at line 290 before out is written
      {
        const unsigned a = out_addr + 16 * (((px_lane & 3) * 2) ^ (((px_lane >> 2) & 1) * 9) ^ (((px_lane >> 3) & 1) * 16) ^ ((px_lane >> 4)) ^ (px_warp * 64));
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
          unsigned words[4];
          ptx::pack_words<8>(words, t_13 + 8 * i);
          ptx::stmatrix_x4(a + 16 * (i * 32 + 256), words);
        }
      }
      // forward_blackwell.py: px.fence.async_proxy()  (called at forward_blackwell.py)
      ptx::fence_proxy_async_shared_cta();
      // forward_blackwell.py: at = row + c * ROWS  (called at forward_blackwell.py)
      const int at = ptx::wrap_add(row, 128);
      // forward_blackwell.py: px.tma.store(out[c], O[batch, head, at : at + ROWS, 0:DIM])  (called at forward_blackwell.py)
      ptx::bar_sync<3, 128>();  // out was written at line 293 before out is read by a copy
      if (px_one) {
        // tensor copy: a box of 1 x 1 x 128 x 16, 32-byte swizzle
        ptx::cp_async_bulk_tensor_4d_global_shared(&O_map, 0, at, head, batch, out_addr + 4096);
        // forward_blackwell.py: px.tma.commit()  (called at forward_blackwell.py)
        ptx::cp_async_bulk_commit_group();
      }
      // forward_blackwell.py: turn = turn ^ 1  (called at forward_blackwell.py)
      turn = turn_1 ^ 1;
    }
    // forward_blackwell.py: px.tma.wait(0)  (called at forward_blackwell.py)
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
    // forward_blackwell.py: with px.warps(CORRECTING_WARP, GROUP_WARPS, regs=CORRECTING_REGS):
    ptx::tcgen05_fence_before_thread_sync();
  } else if (px_warp_id >= 12 && px_warp_id < 16) {  // warp 12
    const bool px_one = ptx::elect_sync();
    ptx::setmaxnreg_dec<24>();
    if (px_warp_id == 12) {
      // forward_blackwell.py: rows = px.cdiv(Q.shape[2], ROWS * TILES)  (called at forward_blackwell.py)
      const int rows = ptx::wrap_add((Q_size2 >> 8), ((int)((Q_size2 & 255) != 0)));
      // forward_blackwell.py: px.block_id(0), rows * Q.shape[1] * Q.shape[0], px.num_blocks(0), rows, Q.shape[1], Q.shape[0],  (called at forward_blackwell.py)
      const int t = ptx::wrap_mul(ptx::wrap_mul(rows, Q_size1), Q_size0);
      // forward_blackwell.py: for t in range(work.first, work.count, work.step):  (called at forward_blackwell.py)
      int taking_parity = 0;
      int taking = 0;
      int taking_parity_1 = 0;
      int turn = 0;
      #pragma unroll 1
      for (int t_1 = block_x; t_1 < t; t_1 += blocks_x) {
        // forward_blackwell.py: wide = self.heads * self.batches  (called at forward_blackwell.py)
        const int wide = ptx::wrap_mul(Q_size1, Q_size0);
        // forward_blackwell.py: m = self.rows - 1 - t // wide  (called at forward_blackwell.py)
        const int m = ptx::wrap_sub(ptx::wrap_sub(rows, 1), (ptx::floor_div<int>(t_1, wide)));
        // forward_blackwell.py: return which // self.heads, which % self.heads, px.maximum(m, 0) * (ROWS * TILES)  (called at forward_blackwell.py)
        const int row = ptx::wrap_mul((ptx::maximum<int>(m, 0)), 256);
        // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_blackwell.py)
        // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
        const int t_2 = ptx::wrap_add(ptx::wrap_add(row, 255), ptx::wrap_sub(K_size2, Q_size2));
        // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py)
        const int end = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_2, right), 1)));
        // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_blackwell.py)
        const int t_3 = ptx::maximum<int>(end, 0);
        const int high = ptx::wrap_add((t_3 >> 4), ((int)((t_3 & 15) != 0)));
        // scores.py: low = px.minimum(self.begin(first) // KEYS, high)  (called at forward_blackwell.py)
        const int low = ptx::minimum<int>(0, high);
        // forward_blackwell.py: low = px.maximum(px.minimum(low, high - 1), 0)  (called at forward_blackwell.py)
        const int low_1 = ptx::maximum<int>((ptx::minimum<int>(low, ptx::wrap_sub(high, 1))), 0);
        // forward_blackwell.py: return low, px.maximum(high, low + 1)  (called at forward_blackwell.py)
        const int high_1 = ptx::maximum<int>(high, ptx::wrap_add(low_1, 1));
        // forward_blackwell.py: k = signals.blocks.wait()  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(blocks_full + 8 * taking, taking_parity_1);
        // forward_blackwell.py: slot = signals.queries.wait()  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(queries_full, taking_parity);
        // forward_blackwell.py: signals.summed[c].wait(turn ^ 1)  # the powers of the tile before, in the place of scores, have been read  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(summed, turn ^ 1);
        // forward_blackwell.py: px.tcgen05.mma(q[slot], kv[k].T, scores[c], accumulate=False)  (called at forward_blackwell.py)
        ptx::tcgen05_fence_after_thread_sync();
        if (px_one) {
          {
            const unsigned long long px_a = ptx::tcgen05_descriptor(q_addr, 0xc000401000010000ull);
            const unsigned long long px_b = ptx::tcgen05_descriptor(kv_addr + taking * 512, 0xc000401000010000ull);
            const unsigned px_d = px_tmem;
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a, px_b, 0x8040490u, false);
          }
        }
        // forward_blackwell.py: px.tcgen05.commit(signals.scores[c])  (called at forward_blackwell.py)
        __syncwarp();  // all threads have passed the wait at line 141 before the elected thread goes on
        if (px_one) {
          ptx::tcgen05_commit_cta_group_1(scored);
        }
        // forward_blackwell.py: slot = signals.queries.wait()  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(queries_full + 8, taking_parity);
        // forward_blackwell.py: signals.summed[c].wait(turn ^ 1)  # the powers of the tile before, in the place of scores, have been read  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(summed + 8, turn ^ 1);
        // forward_blackwell.py: px.tcgen05.mma(q[slot], kv[k].T, scores[c], accumulate=False)  (called at forward_blackwell.py)
        ptx::tcgen05_fence_after_thread_sync();
        if (px_one) {
          {
            const unsigned long long px_a = ptx::tcgen05_descriptor(q_addr + 4096, 0xc000401000010000ull);
            const unsigned long long px_b = ptx::tcgen05_descriptor(kv_addr + taking * 512, 0xc000401000010000ull);
            const unsigned px_d = px_tmem + 16;
            ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a, px_b, 0x8040490u, false);
          }
        }
        // forward_blackwell.py: px.tcgen05.commit(signals.scores[c])  (called at forward_blackwell.py)
        __syncwarp();  // all threads have passed the wait at line 143 before the elected thread goes on
        if (px_one) {
          ptx::tcgen05_commit_cta_group_1(scored + 8);
          // forward_blackwell.py: px.tcgen05.commit(signals.blocks)  (called at forward_blackwell.py)
          ptx::tcgen05_commit_cta_group_1(blocks_empty + 8 * taking);
        }
        const int t_4 = ptx::wrap_add(taking, 1);
        const bool t_5 = t_4 == 4;
        // forward_blackwell.py: for j in range(low, high - 1):  (called at forward_blackwell.py)
        int taking_1 = t_5 ? 0 : t_4;
        int taking_parity_2 = taking_parity_1 ^ ((int)t_5);
        int turn_1 = turn;
        #pragma unroll 1
        for (int j_1 = low_1; j_1 < ptx::wrap_sub(high_1, 1); ++j_1) {
          // forward_blackwell.py: v = signals.blocks.wait()  (called at forward_blackwell.py)
          ptx::mbarrier_wait_parity(blocks_full + 8 * taking_1, taking_parity_2);
          // forward_blackwell.py: k = signals.blocks.wait()  (called at forward_blackwell.py)
          const int t_6 = ptx::wrap_add(taking_1, 1);
          const bool t_7 = t_6 >= 4;
          const int k = t_7 ? ptx::wrap_sub(t_6, 4) : t_6;
          ptx::mbarrier_wait_parity(blocks_full + 8 * k, taking_parity_2 ^ ((int)t_7));
          // forward_blackwell.py: signals.ready[c].wait(turn)  (called at forward_blackwell.py)
          ptx::mbarrier_wait_parity(ready, turn_1);
          // forward_blackwell.py: px.tcgen05.mma(powers[c][:, 0 : work.KEYS], kv[v], results[c], accumulate=j > low)  (called at forward_blackwell.py)
          ptx::tcgen05_fence_after_thread_sync();
          if (px_one) {
            {
              const unsigned px_a = px_tmem;
              const unsigned long long px_b = ptx::tcgen05_descriptor(kv_addr + taking_1 * 512, 0xc000401000200000ull);
              const unsigned px_d = px_tmem + 32;
              ptx::tcgen05_mma_cta_group_1_f16_tmem(px_d, px_a, px_b, 0x8050490u, j_1 > low_1);
            }
          }
          // forward_blackwell.py: px.tcgen05.commit(signals.summed[c])  (called at forward_blackwell.py)
          __syncwarp();  // all threads have passed the wait at line 149 before the elected thread goes on
          if (px_one) {
            ptx::tcgen05_commit_cta_group_1(summed);
          }
          // forward_blackwell.py: signals.summed[c].wait(turn)  (called at forward_blackwell.py)
          ptx::mbarrier_wait_parity(summed, turn_1);
          // forward_blackwell.py: px.tcgen05.mma(q[c], kv[k].T, scores[c], accumulate=False)  (called at forward_blackwell.py)
          ptx::tcgen05_fence_after_thread_sync();
          if (px_one) {
            {
              const unsigned long long px_a = ptx::tcgen05_descriptor(q_addr, 0xc000401000010000ull);
              const unsigned long long px_b = ptx::tcgen05_descriptor(kv_addr + k * 512, 0xc000401000010000ull);
              const unsigned px_d = px_tmem;
              ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a, px_b, 0x8040490u, false);
            }
          }
          // forward_blackwell.py: px.tcgen05.commit(signals.scores[c])  (called at forward_blackwell.py)
          __syncwarp();  // all threads have passed the wait at line 157 before the elected thread goes on
          if (px_one) {
            ptx::tcgen05_commit_cta_group_1(scored);
          }
          // forward_blackwell.py: signals.ready[c].wait(turn)  (called at forward_blackwell.py)
          ptx::mbarrier_wait_parity(ready + 8, turn_1);
          // forward_blackwell.py: px.tcgen05.mma(powers[c][:, 0 : work.KEYS], kv[v], results[c], accumulate=j > low)  (called at forward_blackwell.py)
          ptx::tcgen05_fence_after_thread_sync();
          if (px_one) {
            {
              const unsigned px_a = px_tmem + 16;
              const unsigned long long px_b = ptx::tcgen05_descriptor(kv_addr + taking_1 * 512, 0xc000401000200000ull);
              const unsigned px_d = px_tmem + 48;
              ptx::tcgen05_mma_cta_group_1_f16_tmem(px_d, px_a, px_b, 0x8050490u, j_1 > low_1);
            }
          }
          // forward_blackwell.py: px.tcgen05.commit(signals.summed[c])  (called at forward_blackwell.py)
          __syncwarp();  // all threads have passed the wait at line 152 before the elected thread goes on
          if (px_one) {
            ptx::tcgen05_commit_cta_group_1(summed + 8);
            // forward_blackwell.py: px.tcgen05.commit(signals.blocks)  (called at forward_blackwell.py)
            ptx::tcgen05_commit_cta_group_1(blocks_empty + 8 * taking_1);
          }
          const int t_8 = ptx::wrap_add(taking_1, 1);
          const bool t_9 = t_8 == 4;
          const int t_10 = t_9 ? 0 : t_8;
          // forward_blackwell.py: signals.summed[c].wait(turn)  (called at forward_blackwell.py)
          ptx::mbarrier_wait_parity(summed + 8, turn_1);
          // forward_blackwell.py: px.tcgen05.mma(q[c], kv[k].T, scores[c], accumulate=False)  (called at forward_blackwell.py)
          ptx::tcgen05_fence_after_thread_sync();
          if (px_one) {
            {
              const unsigned long long px_a = ptx::tcgen05_descriptor(q_addr + 4096, 0xc000401000010000ull);
              const unsigned long long px_b = ptx::tcgen05_descriptor(kv_addr + k * 512, 0xc000401000010000ull);
              const unsigned px_d = px_tmem + 16;
              ptx::tcgen05_mma_cta_group_1_f16(px_d, px_a, px_b, 0x8040490u, false);
            }
          }
          // forward_blackwell.py: px.tcgen05.commit(signals.scores[c])  (called at forward_blackwell.py)
          __syncwarp();  // all threads have passed the wait at line 157 before the elected thread goes on
          if (px_one) {
            ptx::tcgen05_commit_cta_group_1(scored + 8);
            // forward_blackwell.py: px.tcgen05.commit(signals.blocks)  (called at forward_blackwell.py)
            ptx::tcgen05_commit_cta_group_1(blocks_empty + 8 * t_10);
          }
          const int t_11 = ptx::wrap_add(t_10, 1);
          const bool t_12 = t_11 == 4;
          // forward_blackwell.py: turn = turn ^ 1  (called at forward_blackwell.py)
          taking_1 = t_12 ? 0 : t_11;
          taking_parity_2 = (taking_parity_2 ^ ((int)t_9)) ^ ((int)t_12);
          turn_1 = turn_1 ^ 1;
        }
        // forward_blackwell.py: for j in range(low, high - 1):  (called at forward_blackwell.py)
        // forward_blackwell.py: px.tcgen05.commit(signals.queries)  (called at forward_blackwell.py)
        if (px_one) {
          ptx::tcgen05_commit_cta_group_1(queries_empty);
          ptx::tcgen05_commit_cta_group_1(queries_empty + 8);
        }
        // forward_blackwell.py: v = signals.blocks.wait()  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(blocks_full + 8 * taking_1, taking_parity_2);
        // forward_blackwell.py: signals.ready[c].wait(turn)  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(ready, turn_1);
        // forward_blackwell.py: px.tcgen05.mma(powers[c][:, 0 : work.KEYS], kv[v], results[c], accumulate=high - 1 > low)  (called at forward_blackwell.py)
        ptx::tcgen05_fence_after_thread_sync();
        if (px_one) {
          {
            const unsigned px_a = px_tmem;
            const unsigned long long px_b = ptx::tcgen05_descriptor(kv_addr + taking_1 * 512, 0xc000401000200000ull);
            const unsigned px_d = px_tmem + 32;
            ptx::tcgen05_mma_cta_group_1_f16_tmem(px_d, px_a, px_b, 0x8050490u, ptx::wrap_sub(high_1, 1) > low_1);
          }
        }
        // forward_blackwell.py: px.tcgen05.commit(signals.summed[c])  (called at forward_blackwell.py)
        __syncwarp();  // all threads have passed the wait at line 164 before the elected thread goes on
        if (px_one) {
          ptx::tcgen05_commit_cta_group_1(summed);
        }
        // forward_blackwell.py: signals.ready[c].wait(turn)  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(ready + 8, turn_1);
        // forward_blackwell.py: px.tcgen05.mma(powers[c][:, 0 : work.KEYS], kv[v], results[c], accumulate=high - 1 > low)  (called at forward_blackwell.py)
        ptx::tcgen05_fence_after_thread_sync();
        if (px_one) {
          {
            const unsigned px_a = px_tmem + 16;
            const unsigned long long px_b = ptx::tcgen05_descriptor(kv_addr + taking_1 * 512, 0xc000401000200000ull);
            const unsigned px_d = px_tmem + 48;
            ptx::tcgen05_mma_cta_group_1_f16_tmem(px_d, px_a, px_b, 0x8050490u, ptx::wrap_sub(high_1, 1) > low_1);
          }
        }
        // forward_blackwell.py: px.tcgen05.commit(signals.blocks)  # before the signal that is waited for to the end  (called at forward_blackwell.py)
        __syncwarp();  // all threads have passed the wait at line 166 before the elected thread goes on
        if (px_one) {
          ptx::tcgen05_commit_cta_group_1(blocks_empty + 8 * taking_1);
        }
        const int t_6 = ptx::wrap_add(taking_1, 1);
        const bool t_7 = t_6 == 4;
        // forward_blackwell.py: px.tcgen05.commit(signals.summed[c])  (called at forward_blackwell.py)
        if (px_one) {
          ptx::tcgen05_commit_cta_group_1(summed + 8);
        }
        // forward_blackwell.py: turn = turn ^ 1  (called at forward_blackwell.py)
        taking_parity = taking_parity ^ 1;
        taking = t_7 ? 0 : t_6;
        taking_parity_1 = taking_parity_2 ^ ((int)t_7);
        turn = turn_1 ^ 1;
      }
    }
  } else if (px_warp_id >= 16) {  // warp 16
    const bool px_one = ptx::elect_sync();
    ptx::setmaxnreg_dec<24>();
    if (px_warp_id == 16) {
      // forward_blackwell.py: rows = px.cdiv(Q.shape[2], ROWS * TILES)  (called at forward_blackwell.py)
      const int rows = ptx::wrap_add((Q_size2 >> 8), ((int)((Q_size2 & 255) != 0)));
      // forward_blackwell.py: px.block_id(0), rows * Q.shape[1] * Q.shape[0], px.num_blocks(0), rows, Q.shape[1], Q.shape[0],  (called at forward_blackwell.py)
      const int t = ptx::wrap_mul(ptx::wrap_mul(rows, Q_size1), Q_size0);
      // forward_blackwell.py: for t in range(work.first, work.count, work.step):  (called at forward_blackwell.py)
      int filling_parity = 0;
      int filling = 0;
      int filling_parity_1 = 0;
      #pragma unroll 1
      for (int t_1 = block_x; t_1 < t; t_1 += blocks_x) {
        // forward_blackwell.py: wide = self.heads * self.batches  (called at forward_blackwell.py)
        const int wide = ptx::wrap_mul(Q_size1, Q_size0);
        // forward_blackwell.py: m = self.rows - 1 - t // wide  (called at forward_blackwell.py)
        const int m = ptx::wrap_sub(ptx::wrap_sub(rows, 1), (ptx::floor_div<int>(t_1, wide)));
        // forward_blackwell.py: which = t % wide  (called at forward_blackwell.py)
        const int which = ptx::floor_mod<int>(t_1, wide);
        // forward_blackwell.py: return which // self.heads, which % self.heads, px.maximum(m, 0) * (ROWS * TILES)  (called at forward_blackwell.py)
        const int batch = ptx::floor_div<int>(which, Q_size1);
        const int head = ptx::floor_mod<int>(which, Q_size1);
        const int row = ptx::wrap_mul((ptx::maximum<int>(m, 0)), 256);
        // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_blackwell.py)
        // scores.py: return row + (self.keys - self.queries)  (called at scores.py)
        const int t_2 = ptx::wrap_add(ptx::wrap_add(row, 255), ptx::wrap_sub(K_size2, Q_size2));
        // scores.py: end = px.minimum(self.keys, self.beside(row) + self.right + 1)  (called at scores.py)
        const int end = ptx::minimum<int>(K_size2, (ptx::wrap_add(ptx::wrap_add(t_2, right), 1)));
        // scores.py: high = px.cdiv(px.maximum(self.end(first + (count - 1)), 0), KEYS)  (called at forward_blackwell.py)
        const int t_3 = ptx::maximum<int>(end, 0);
        const int high = ptx::wrap_add((t_3 >> 4), ((int)((t_3 & 15) != 0)));
        // scores.py: low = px.minimum(self.begin(first) // KEYS, high)  (called at forward_blackwell.py)
        const int low = ptx::minimum<int>(0, high);
        // forward_blackwell.py: low = px.maximum(px.minimum(low, high - 1), 0)  (called at forward_blackwell.py)
        const int low_1 = ptx::maximum<int>((ptx::minimum<int>(low, ptx::wrap_sub(high, 1))), 0);
        // forward_blackwell.py: return low, px.maximum(high, low + 1)  (called at forward_blackwell.py)
        const int high_1 = ptx::maximum<int>(high, ptx::wrap_add(low_1, 1));
        // forward_blackwell.py: source = head // group  (called at forward_blackwell.py)
        const int source = ptx::floor_div<int>(head, group);
        // forward_blackwell.py: with signals.blocks.produce() as s:  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(blocks_empty + 8 * filling, filling_parity_1 ^ 1);
        __syncwarp();  // all threads have passed the wait at line 117 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(blocks_full + 8 * filling, 512);
          // forward_blackwell.py: px.tma.load(K[batch, source, low * KEYS : low * KEYS + KEYS, 0:DIM], kv[s], signals.blocks.full[s])  (called at forward_blackwell.py)
          // tensor copy: a box of 1 x 1 x 16 x 16, 32-byte swizzle
          ptx::cp_async_bulk_tensor_4d_shared_global(kv_addr + filling * 512, &K_map, 0, ptx::wrap_mul(low_1, 16), source, batch, blocks_full + 8 * filling);
        }
        // forward_blackwell.py: with signals.blocks.produce() as s:  (called at forward_blackwell.py)
        const int t_4 = ptx::wrap_add(filling, 1);
        const bool t_5 = t_4 == 4;
        // forward_blackwell.py: with signals.queries.produce() as slot:  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(queries_empty, filling_parity ^ 1);
        __syncwarp();  // all threads have passed the wait at line 120 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(queries_full, 4096);
          // forward_blackwell.py: px.tma.load(Q[batch, head, at : at + ROWS, 0:DIM], q[slot], signals.queries.full[slot])  (called at forward_blackwell.py)
          // tensor copy: a box of 1 x 1 x 128 x 16, 32-byte swizzle
          ptx::cp_async_bulk_tensor_4d_shared_global(q_addr, &Q_map, 0, row, head, batch, queries_full);
        }
        // forward_blackwell.py: with signals.queries.produce() as slot:  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(queries_empty + 8, filling_parity ^ 1);
        __syncwarp();  // all threads have passed the wait at line 120 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(queries_full + 8, 4096);
        }
        // forward_blackwell.py: at = row + c * ROWS  (called at forward_blackwell.py)
        const int at = ptx::wrap_add(row, 128);
        // forward_blackwell.py: px.tma.load(Q[batch, head, at : at + ROWS, 0:DIM], q[slot], signals.queries.full[slot])  (called at forward_blackwell.py)
        if (px_one) {
          // tensor copy: a box of 1 x 1 x 128 x 16, 32-byte swizzle
          ptx::cp_async_bulk_tensor_4d_shared_global(q_addr + 4096, &Q_map, 0, at, head, batch, queries_full + 8);
        }
        // forward_blackwell.py: with signals.queries.produce() as slot:  (called at forward_blackwell.py)
        // forward_blackwell.py: for j in range(low, high - 1):  (called at forward_blackwell.py)
        int filling_1 = t_5 ? 0 : t_4;
        int filling_parity_2 = filling_parity_1 ^ ((int)t_5);
        #pragma unroll 1
        for (int j_1 = low_1; j_1 < ptx::wrap_sub(high_1, 1); ++j_1) {
          // forward_blackwell.py: with signals.blocks.produce() as s:  (called at forward_blackwell.py)
          ptx::mbarrier_wait_parity(blocks_empty + 8 * filling_1, filling_parity_2 ^ 1);
          __syncwarp();  // all threads have passed the wait at line 124 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(blocks_full + 8 * filling_1, 512);
            // forward_blackwell.py: px.tma.load(V[batch, source, j * KEYS : j * KEYS + KEYS, 0:DIM], kv[s], signals.blocks.full[s])  (called at forward_blackwell.py)
            // tensor copy: a box of 1 x 1 x 16 x 16, 32-byte swizzle
            ptx::cp_async_bulk_tensor_4d_shared_global(kv_addr + filling_1 * 512, &V_map, 0, ptx::wrap_mul(j_1, 16), source, batch, blocks_full + 8 * filling_1);
          }
          // forward_blackwell.py: with signals.blocks.produce() as s:  (called at forward_blackwell.py)
          const int t_6 = ptx::wrap_add(filling_1, 1);
          const bool t_7 = t_6 == 4;
          const int s = t_7 ? 0 : t_6;
          const int t_8 = filling_parity_2 ^ ((int)t_7);
          // forward_blackwell.py: with signals.blocks.produce() as s:  (called at forward_blackwell.py)
          ptx::mbarrier_wait_parity(blocks_empty + 8 * s, t_8 ^ 1);
          __syncwarp();  // all threads have passed the wait at line 126 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(blocks_full + 8 * s, 512);
          }
          // forward_blackwell.py: key = (j + 1) * KEYS  (called at forward_blackwell.py)
          const int key = ptx::wrap_mul(ptx::wrap_add(j_1, 1), 16);
          // forward_blackwell.py: px.tma.load(K[batch, source, key : key + KEYS, 0:DIM], kv[s], signals.blocks.full[s])  (called at forward_blackwell.py)
          if (px_one) {
            // tensor copy: a box of 1 x 1 x 16 x 16, 32-byte swizzle
            ptx::cp_async_bulk_tensor_4d_shared_global(kv_addr + s * 512, &K_map, 0, key, source, batch, blocks_full + 8 * s);
          }
          // forward_blackwell.py: with signals.blocks.produce() as s:  (called at forward_blackwell.py)
          const int t_9 = ptx::wrap_add(s, 1);
          const bool t_10 = t_9 == 4;
          filling_1 = t_10 ? 0 : t_9;
          filling_parity_2 = t_8 ^ ((int)t_10);
        }
        // forward_blackwell.py: for j in range(low, high - 1):  (called at forward_blackwell.py)
        // forward_blackwell.py: with signals.blocks.produce() as s:  (called at forward_blackwell.py)
        ptx::mbarrier_wait_parity(blocks_empty + 8 * filling_1, filling_parity_2 ^ 1);
        __syncwarp();  // all threads have passed the wait at line 129 before the elected thread goes on
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(blocks_full + 8 * filling_1, 512);
        }
        // forward_blackwell.py: key = (high - 1) * KEYS  (called at forward_blackwell.py)
        const int key = ptx::wrap_mul(ptx::wrap_sub(high_1, 1), 16);
        // forward_blackwell.py: px.tma.load(V[batch, source, key : key + KEYS, 0:DIM], kv[s], signals.blocks.full[s])  (called at forward_blackwell.py)
        if (px_one) {
          // tensor copy: a box of 1 x 1 x 16 x 16, 32-byte swizzle
          ptx::cp_async_bulk_tensor_4d_shared_global(kv_addr + filling_1 * 512, &V_map, 0, key, source, batch, blocks_full + 8 * filling_1);
        }
        // forward_blackwell.py: with signals.blocks.produce() as s:  (called at forward_blackwell.py)
        const int t_6 = ptx::wrap_add(filling_1, 1);
        const bool t_7 = t_6 == 4;
        filling_parity = filling_parity ^ 1;
        filling = t_7 ? 0 : t_6;
        filling_parity_1 = filling_parity_2 ^ ((int)t_7);
      }
    }
  }
  // forward_blackwell.py: scores = px.tmem((TILES, ROWS, KEYS), px.f32)
  __syncthreads();  // nobody uses the tensor memory any more
  ptx::tcgen05_fence_after_thread_sync();
  if (px_warp_id == 0) {
    ptx::tcgen05_dealloc_cta_group_1_64(px_tmem);
  }
}
