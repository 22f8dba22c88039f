// split_ring(ROWS=True, A_ROWS=True, FLIPPED=False, WHOLE=True, BIASED=False, BIAS_OF_ROWS=False, ACTIVATION=None, config=SplitConfig(bm=64, bn=64, split=4, stages=6, bk=64, cn=1, cm=1, groups=1, pieces=4, reuse=False, ahead=0, across=False, kept=0)) for sm_90a, from split_ring.py
// 192 threads, 110800 bytes of shared memory, clusters of 4 x 1 x 1 (set at launch)

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
//   barrier_cluster_arrive_relaxed_aligned
//   cluster_ctarank
//   wrap_mul
//   wrap_add
//   barrier_cluster_wait_acquire_aligned
//   griddepcontrol_wait
//   griddepcontrol_launch_dependents
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   wgmma_fence_sync_aligned
//   wgmma_descriptor
//   wgmma_m64n64k16_f32_bf16_bf16_x4
//   wgmma_commit_group_sync_aligned
//   wgmma_wait_group_1
//   mbarrier_arrive_shared_cta
//   wgmma_wait_group_0
//   keep_float
//   mbarrier_arrive_expect_tx_shared_cta
//   mapa_shared_cluster
//   bits
//   unpack
//   st_async
//   load_vector
//   bf16_pair_from_float
//   bar_sync
//   pack_words
//   stmatrix_x4_trans
//   inside
//   store_vector
//   elect_sync
//   wrap_sub
//   cp_async_bulk_tensor_2d_shared_global_cache_hint
//   shared_address

extern "C" __global__ void __launch_bounds__(192, 1) split_ring_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<px_bf16, 2> B,
    const __grid_constant__ px_array<px_bf16, 2> C,
    const __grid_constant__ px_array<px_bf16, 2> BIAS,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map B_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned w_full = px_base + 110592;
  const unsigned w_empty = px_base + 110640;
  const unsigned a_full = px_base + 110688;
  const unsigned a_empty = px_base + 110736;
  const unsigned landed = px_base + 110784;
  const unsigned w_addr = px_base;
  const unsigned a_addr = px_base + 49152;
  const unsigned inbox_addr = px_base + 98304;
  float* const inbox = reinterpret_cast<float*>(px_smem + 98304);
  const unsigned out_addr = px_base;
  px_bf16* const out = reinterpret_cast<px_bf16*>(px_smem);
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&B_map);
  }
  // split_ring.py: w_full = px.barrier(STAGES)
  if (px_one) {
    for (int px_i = 0; px_i < 6; ++px_i) ptx::mbarrier_init_shared_cta(w_full + 8 * px_i, 1);
    // split_ring.py: w_empty = px.barrier(STAGES)
    for (int px_i = 0; px_i < 6; ++px_i) ptx::mbarrier_init_shared_cta(w_empty + 8 * px_i, 1);
    // split_ring.py: a_full = px.barrier(STAGES - AHEAD)
    for (int px_i = 0; px_i < 6; ++px_i) ptx::mbarrier_init_shared_cta(a_full + 8 * px_i, 1);
    // split_ring.py: a_empty = px.barrier(STAGES - AHEAD)
    for (int px_i = 0; px_i < 6; ++px_i) ptx::mbarrier_init_shared_cta(a_empty + 8 * px_i, 1);
    // split_ring.py: landed = px.barrier()  (called at split_ring.py)
    ptx::mbarrier_init_shared_cta(landed, 1);
    // split_ring.py: def split_ring(
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // split_ring.py: s = px.cluster.rank(0)
  const int rank_x = (int)((unsigned)ptx::cluster_ctarank());
  // split_ring.py: n = px.block_id(1) * BN
  const int block_y = (int)blockIdx.y;
  // split_ring.py: m = px.block_id(2) * BM
  const int block_z = (int)blockIdx.z;
  // split_ring.py: steps = px.cdiv(A.shape[1 if A_ROWS else 0], BK)
  const int A_size1 = A.shape[1];
  // split_ring.py: n = px.block_id(1) * BN
  const int n = ptx::wrap_mul(block_y, 64);
  // split_ring.py: m = px.block_id(2) * BM
  const int m = ptx::wrap_mul(block_z, 64);
  // split_ring.py: steps = px.cdiv(A.shape[1 if A_ROWS else 0], BK)
  const int steps = ptx::wrap_add((A_size1 >> 6), ((int)((A_size1 & 63) != 0)));
  // split_ring.py: first = s * steps // SPLIT
  const int first = ptx::wrap_mul(rank_x, steps) >> 2;
  // split_ring.py: end = (s + 1) * steps // SPLIT
  const int end = (ptx::wrap_mul(ptx::wrap_add(rank_x, 1), steps)) >> 2;
  // split_ring.py: def split_ring(
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // split_ring.py: px.wait_prior()
  ptx::griddepcontrol_wait();
  // split_ring.py: with px.warps(0, 4 * config.groups):
  if (px_warp_id < 4) {  // warps 0 to 3
    const bool px_one = px_warp_id == 0 && ptx::elect_sync();
    // split_ring.py: px.launch_dependents()  # by warps that have to wait for the first copies anyway
    ptx::griddepcontrol_launch_dependents();
    // split_ring.py: for step in range(self.first, self.end):  (called at split_ring.py)
    int stage = 0;
    int parity = 0;
    int stage_1 = 0;
    int parity_1 = 0;
    // split_ring.py: acc = px.empty((self.BN, self.BM), px.f32)  (called at split_ring.py)
    float acc[32];
    // split_ring.py: for step in range(self.first, self.end):  (called at split_ring.py)
    float acc_1[32];
    int w_before = 0;
    int a_before = 0;
    #pragma unroll 1
    for (int step = first; step < end; ++step) {
      const int stage_2 = stage;
      const int stage_3 = stage_1;
      // split_ring.py: self.w_full[w_stage].wait(self.w_ring.parity)  (called at split_ring.py)
      ptx::mbarrier_wait_parity(w_full + 8 * stage_2, parity);
      // split_ring.py: self.a_full[a_stage].wait(self.a_ring.parity)  (called at split_ring.py)
      ptx::mbarrier_wait_parity(a_full + 8 * stage_3, parity_1);
      // split_ring.py: px.wgmma(weights, rows, acc, accumulate=step > self.first)  (called at split_ring.py)
      ptx::wgmma_fence_sync_aligned();
      {
        const unsigned long long px_a = ptx::wgmma_descriptor(w_addr + stage_2 * 8192, 0x4000004000010000ull);
        const unsigned long long px_b = ptx::wgmma_descriptor(a_addr + stage_3 * 8192, 0x4000004000010000ull);
        ptx::wgmma_m64n64k16_f32_bf16_bf16_x4<2, 4, 6, 2, 4, 6>(acc_1, px_a, px_b, step > first);
      }
      // split_ring.py: px.wgmma_commit()  (called at split_ring.py)
      ptx::wgmma_commit_group_sync_aligned();
      // split_ring.py: px.wgmma_wait(1)  (called at split_ring.py)
      ptx::wgmma_wait_group_1();
      // split_ring.py: if step > self.first:  (called at split_ring.py)
      if (step > first) {
        // split_ring.py: self.a_empty[stage].arrive(ctas=self.same_rows if self.CN > 1 else None)  (called at split_ring.py)
        if (px_one) {
          ptx::mbarrier_arrive_shared_cta(a_empty + 8 * a_before);
          // split_ring.py: self.w_empty[stage].arrive(ctas=self.same_columns if self.CM > 1 else None)  (called at split_ring.py)
          ptx::mbarrier_arrive_shared_cta(w_empty + 8 * w_before);
        }
      }
      // split_ring.py: self.a_ring.advance()  (called at split_ring.py)
      const int t = ptx::wrap_add(stage_3, 1);
      const bool t_1 = t == 6;
      // split_ring.py: self.w_ring.advance()  (called at split_ring.py)
      const int t_2 = ptx::wrap_add(stage_2, 1);
      const bool t_3 = t_2 == 6;
      stage = t_3 ? 0 : t_2;
      parity = parity ^ ((int)t_3);
      stage_1 = t_1 ? 0 : t;
      parity_1 = parity_1 ^ ((int)t_1);
      w_before = stage_2;
      a_before = stage_3;
    }
    // split_ring.py: for step in range(self.first, self.end):  (called at split_ring.py)
    // split_ring.py: px.wgmma_wait(0)  (called at split_ring.py)
    ptx::wgmma_wait_group_0();
    ptx::keep_float<32>(acc_1);
    // split_ring.py: self.w_empty[stage].arrive(ctas=self.same_columns if self.CM > 1 else None)  (called at split_ring.py)
    if (px_one) {
      ptx::mbarrier_arrive_shared_cta(w_empty + 8 * w_before);
      // split_ring.py: self.a_empty[stage].arrive(ctas=self.same_rows if self.CN > 1 else None)  (called at split_ring.py)
      ptx::mbarrier_arrive_shared_cta(a_empty + 8 * a_before);
      // split_ring.py: with self.landed.transaction():  (called at split_ring.py)
      ptx::mbarrier_arrive_expect_tx_shared_cta(landed, 12288);
    }
    // split_ring.py: if self.s == me:  (called at split_ring.py)
    if (rank_x == 0) {
      // split_ring.py: sums = by_thread(acc[:, piece * self.width : piece * self.width + self.width])  (called at split_ring.py)
      float t[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t[i] = acc_1[i + 8];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_1[i] = t[i];
      float pieces[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces[i] = t_1[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float sums[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums[i] = pieces[i];
      // split_ring.py: px.cluster.store(there, sums, self.landed, cta=owner + self.SPLIT * (self.y + self.CN * self.z))  (called at split_ring.py)
      {
        const unsigned there_bar = ptx::mapa_shared_cluster(landed, 1);
        const unsigned a = ptx::mapa_shared_cluster(inbox_addr, 1) + 4 * (px_lane * 4 + px_warp_id * 128);
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::st_async<4>(a + 4 * (i >> 2) * 512, sums + i, there_bar);
        }
      }
      // split_ring.py: sums = by_thread(acc[:, piece * self.width : piece * self.width + self.width])  (called at split_ring.py)
      float t_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_2[i] = acc_1[i + 16];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_3[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_3[i] = t_2[i];
      float pieces_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces_1[i] = t_3[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float sums_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_1[i] = pieces_1[i];
      // split_ring.py: px.cluster.store(there, sums, self.landed, cta=owner + self.SPLIT * (self.y + self.CN * self.z))  (called at split_ring.py)
      {
        const unsigned there_bar = ptx::mapa_shared_cluster(landed, 2);
        const unsigned a = ptx::mapa_shared_cluster(inbox_addr, 2) + 4 * (px_lane * 4 + px_warp_id * 128);
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::st_async<4>(a + 4 * (i >> 2) * 512, sums_1 + i, there_bar);
        }
      }
      // split_ring.py: sums = by_thread(acc[:, piece * self.width : piece * self.width + self.width])  (called at split_ring.py)
      float t_4[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_4[i] = acc_1[i + 24];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_5[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_5[i] = t_4[i];
      float pieces_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces_2[i] = t_5[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float sums_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_2[i] = pieces_2[i];
      // split_ring.py: px.cluster.store(there, sums, self.landed, cta=owner + self.SPLIT * (self.y + self.CN * self.z))  (called at split_ring.py)
      {
        const unsigned there_bar = ptx::mapa_shared_cluster(landed, 3);
        const unsigned a = ptx::mapa_shared_cluster(inbox_addr, 3) + 4 * (px_lane * 4 + px_warp_id * 128);
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::st_async<4>(a + 4 * (i >> 2) * 512, sums_2 + i, there_bar);
        }
      }
    }
    // split_ring.py: if self.s == me:  (called at split_ring.py)
    if (rank_x == 1) {
      // split_ring.py: sums = by_thread(acc[:, piece * self.width : piece * self.width + self.width])  (called at split_ring.py)
      float t[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t[i] = acc_1[i + 16];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_1[i] = t[i];
      float pieces[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces[i] = t_1[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float sums[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums[i] = pieces[i];
      // split_ring.py: px.cluster.store(there, sums, self.landed, cta=owner + self.SPLIT * (self.y + self.CN * self.z))  (called at split_ring.py)
      {
        const unsigned there_bar = ptx::mapa_shared_cluster(landed, 2);
        const unsigned a = ptx::mapa_shared_cluster(inbox_addr, 2) + 4 * (px_lane * 4 + px_warp_id * 128);
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::st_async<4>(a + 4 * ((i >> 2) * 512 + 1024), sums + i, there_bar);
        }
      }
      // split_ring.py: sums = by_thread(acc[:, piece * self.width : piece * self.width + self.width])  (called at split_ring.py)
      float t_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_2[i] = acc_1[i + 24];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_3[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_3[i] = t_2[i];
      float pieces_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces_1[i] = t_3[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float sums_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_1[i] = pieces_1[i];
      // split_ring.py: px.cluster.store(there, sums, self.landed, cta=owner + self.SPLIT * (self.y + self.CN * self.z))  (called at split_ring.py)
      {
        const unsigned there_bar = ptx::mapa_shared_cluster(landed, 3);
        const unsigned a = ptx::mapa_shared_cluster(inbox_addr, 3) + 4 * (px_lane * 4 + px_warp_id * 128);
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::st_async<4>(a + 4 * ((i >> 2) * 512 + 1024), sums_1 + i, there_bar);
        }
      }
      // split_ring.py: sums = by_thread(acc[:, piece * self.width : piece * self.width + self.width])  (called at split_ring.py)
      float t_4[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_4[i] = acc_1[i];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_5[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_5[i] = t_4[i];
      float pieces_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces_2[i] = t_5[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float sums_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_2[i] = pieces_2[i];
      // split_ring.py: px.cluster.store(there, sums, self.landed, cta=owner + self.SPLIT * (self.y + self.CN * self.z))  (called at split_ring.py)
      {
        const unsigned there_bar = ptx::mapa_shared_cluster(landed, 0);
        const unsigned a = ptx::mapa_shared_cluster(inbox_addr, 0) + 4 * (px_lane * 4 + px_warp_id * 128);
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::st_async<4>(a + 4 * (i >> 2) * 512, sums_2 + i, there_bar);
        }
      }
    }
    // split_ring.py: if self.s == me:  (called at split_ring.py)
    if (rank_x == 2) {
      // split_ring.py: sums = by_thread(acc[:, piece * self.width : piece * self.width + self.width])  (called at split_ring.py)
      float t[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t[i] = acc_1[i + 24];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_1[i] = t[i];
      float pieces[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces[i] = t_1[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float sums[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums[i] = pieces[i];
      // split_ring.py: px.cluster.store(there, sums, self.landed, cta=owner + self.SPLIT * (self.y + self.CN * self.z))  (called at split_ring.py)
      {
        const unsigned there_bar = ptx::mapa_shared_cluster(landed, 3);
        const unsigned a = ptx::mapa_shared_cluster(inbox_addr, 3) + 4 * (px_lane * 4 + px_warp_id * 128);
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::st_async<4>(a + 4 * ((i >> 2) * 512 + 2048), sums + i, there_bar);
        }
      }
      // split_ring.py: sums = by_thread(acc[:, piece * self.width : piece * self.width + self.width])  (called at split_ring.py)
      float t_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_2[i] = acc_1[i];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_3[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_3[i] = t_2[i];
      float pieces_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces_1[i] = t_3[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float sums_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_1[i] = pieces_1[i];
      // split_ring.py: px.cluster.store(there, sums, self.landed, cta=owner + self.SPLIT * (self.y + self.CN * self.z))  (called at split_ring.py)
      {
        const unsigned there_bar = ptx::mapa_shared_cluster(landed, 0);
        const unsigned a = ptx::mapa_shared_cluster(inbox_addr, 0) + 4 * (px_lane * 4 + px_warp_id * 128);
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::st_async<4>(a + 4 * ((i >> 2) * 512 + 1024), sums_1 + i, there_bar);
        }
      }
      // split_ring.py: sums = by_thread(acc[:, piece * self.width : piece * self.width + self.width])  (called at split_ring.py)
      float t_4[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_4[i] = acc_1[i + 8];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_5[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_5[i] = t_4[i];
      float pieces_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces_2[i] = t_5[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float sums_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_2[i] = pieces_2[i];
      // split_ring.py: px.cluster.store(there, sums, self.landed, cta=owner + self.SPLIT * (self.y + self.CN * self.z))  (called at split_ring.py)
      {
        const unsigned there_bar = ptx::mapa_shared_cluster(landed, 1);
        const unsigned a = ptx::mapa_shared_cluster(inbox_addr, 1) + 4 * (px_lane * 4 + px_warp_id * 128);
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::st_async<4>(a + 4 * ((i >> 2) * 512 + 1024), sums_2 + i, there_bar);
        }
      }
    }
    // split_ring.py: if self.s == me:  (called at split_ring.py)
    if (rank_x == 3) {
      // split_ring.py: sums = by_thread(acc[:, piece * self.width : piece * self.width + self.width])  (called at split_ring.py)
      float t[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t[i] = acc_1[i];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_1[i] = t[i];
      float pieces[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces[i] = t_1[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float sums[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums[i] = pieces[i];
      // split_ring.py: px.cluster.store(there, sums, self.landed, cta=owner + self.SPLIT * (self.y + self.CN * self.z))  (called at split_ring.py)
      {
        const unsigned there_bar = ptx::mapa_shared_cluster(landed, 0);
        const unsigned a = ptx::mapa_shared_cluster(inbox_addr, 0) + 4 * (px_lane * 4 + px_warp_id * 128);
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::st_async<4>(a + 4 * ((i >> 2) * 512 + 2048), sums + i, there_bar);
        }
      }
      // split_ring.py: sums = by_thread(acc[:, piece * self.width : piece * self.width + self.width])  (called at split_ring.py)
      float t_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_2[i] = acc_1[i + 8];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_3[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_3[i] = t_2[i];
      float pieces_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces_1[i] = t_3[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float sums_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_1[i] = pieces_1[i];
      // split_ring.py: px.cluster.store(there, sums, self.landed, cta=owner + self.SPLIT * (self.y + self.CN * self.z))  (called at split_ring.py)
      {
        const unsigned there_bar = ptx::mapa_shared_cluster(landed, 1);
        const unsigned a = ptx::mapa_shared_cluster(inbox_addr, 1) + 4 * (px_lane * 4 + px_warp_id * 128);
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::st_async<4>(a + 4 * ((i >> 2) * 512 + 2048), sums_1 + i, there_bar);
        }
      }
      // split_ring.py: sums = by_thread(acc[:, piece * self.width : piece * self.width + self.width])  (called at split_ring.py)
      float t_4[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_4[i] = acc_1[i + 16];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_5[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_5[i] = t_4[i];
      float pieces_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces_2[i] = t_5[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float sums_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_2[i] = pieces_2[i];
      // split_ring.py: px.cluster.store(there, sums, self.landed, cta=owner + self.SPLIT * (self.y + self.CN * self.z))  (called at split_ring.py)
      {
        const unsigned there_bar = ptx::mapa_shared_cluster(landed, 2);
        const unsigned a = ptx::mapa_shared_cluster(inbox_addr, 2) + 4 * (px_lane * 4 + px_warp_id * 128);
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::st_async<4>(a + 4 * ((i >> 2) * 512 + 2048), sums_2 + i, there_bar);
        }
      }
    }
    // split_ring.py: if self.s < self.PIECES:  (called at split_ring.py)
    if (rank_x < 4) {
      // split_ring.py: self.landed.wait(0)  (called at split_ring.py)
      ptx::mbarrier_wait_parity(landed, 0);
    }
    // split_ring.py: if q * SPLIT + s < config.pieces:
    if (rank_x < 4) {
      // split_ring.py: sums = by_thread(acc[:, q * self.SPLIT * width : q * self.SPLIT * width + width])  (called at split_ring.py)
      float t[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t[i] = acc_1[i];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_1[i] = t[i];
      float pieces[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces[i] = t_1[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float sums[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums[i] = pieces[i];
      // split_ring.py: sums = px.where(self.s == owner, by_thread(acc[:, left : left + width]), sums)  (called at split_ring.py)
      float t_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_2[i] = acc_1[i + 8];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_3[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_3[i] = t_2[i];
      float pieces_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces_1[i] = t_3[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float t_4[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_4[i] = pieces_1[i];
      // split_ring.py: sums = px.where(self.s == owner, by_thread(acc[:, left : left + width]), sums)  (called at split_ring.py)
      float sums_1[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_1[i] = (rank_x == 1) ? t_4[i] : sums[i];
      float t_5[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_5[i] = acc_1[i + 16];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_6[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_6[i] = t_5[i];
      float pieces_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces_2[i] = t_6[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float t_7[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_7[i] = pieces_2[i];
      // split_ring.py: sums = px.where(self.s == owner, by_thread(acc[:, left : left + width]), sums)  (called at split_ring.py)
      float sums_2[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_2[i] = (rank_x == 2) ? t_7[i] : sums_1[i];
      float t_8[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_8[i] = acc_1[i + 24];
      // sums.py: pieces = tile.reshape(rows // 16, 2, 8, columns // 8, 4, 2).permute(3, 0, 2, 4, 1, 5)  (called at split_ring.py)
      float t_9[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_9[i] = t_8[i];
      float pieces_3[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) pieces_3[i] = t_9[i];
      // sums.py: return pieces.reshape(rows * columns) if FLAT else pieces.reshape(columns // 8, rows * 2, 4)  (called at split_ring.py)
      float t_10[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_10[i] = pieces_3[i];
      // split_ring.py: sums = px.where(self.s == owner, by_thread(acc[:, left : left + width]), sums)  (called at split_ring.py)
      float sums_3[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_3[i] = (rank_x == 3) ? t_10[i] : sums_2[i];
      // split_ring.py: sums = sums + px.load(self.inbox[other, q])  (called at split_ring.py)
      float t_11[8];
      {
        float* const p = inbox + px_lane * 4 + px_warp_id * 128;
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::load_vector<4>(t_11 + i, p + (i >> 2) * 512);
        }
      }
      float sums_4[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_4[i] = sums_3[i] + t_11[i];
      float t_12[8];
      {
        float* const p = inbox + px_lane * 4 + px_warp_id * 128;
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::load_vector<4>(t_12 + i, p + (i >> 2) * 512 + 1024);
        }
      }
      float sums_5[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_5[i] = sums_4[i] + t_12[i];
      float t_13[8];
      {
        float* const p = inbox + px_lane * 4 + px_warp_id * 128;
        #pragma unroll
        for (int i = 0; i < 8; i += 4) {
          ptx::load_vector<4>(t_13 + i, p + (i >> 2) * 512 + 2048);
        }
      }
      float sums_6[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) sums_6[i] = sums_5[i] + t_13[i];
      // sums.py: tile = pieces.reshape(columns // 8, rows // 16, 8, 4, 2, 2)  (called at split_ring.py)
      float tile[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) tile[i] = sums_6[i];
      // sums.py: return tile.permute(1, 4, 2, 0, 3, 5).reshape(rows, columns)  (called at split_ring.py)
      float t_14[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) t_14[i] = tile[i];
      float c[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) c[i] = t_14[i];
      // split_ring.py: summed = m + (q * SPLIT + s) * width
      const int summed = ptx::wrap_add(m, ptx::wrap_mul(rank_x, 16));
      // split_ring.py: px.store(out[q] if FLIPPED else out[q].T, activate(c, ACTIVATION).to(C.dtype))
      px_bf16 c_1[8];
      #pragma unroll
      for (int i = 0; i < 8; i += 2) ptx::bf16_pair_from_float(c_1 + i, c[i], c[i + 1]);
      ptx::bar_sync<1, 128>();  // w was read at line 102 before out, in its memory, is written
      {
        const unsigned a = out_addr + 16 * (((px_lane & 1) * 9) ^ (((px_lane >> 1) & 1) * 18) ^ (((px_lane >> 2) & 1) * 36) ^ (((px_lane >> 3) & 1)) ^ ((px_lane >> 4) * 64) ^ (px_warp_id * 2));
        unsigned words[4];
        ptx::pack_words<8>(words, c_1);
        ptx::stmatrix_x4_trans(a, words);
      }
      // split_ring.py: stored = px.load(out[q, row : row + at_once])
      ptx::bar_sync<1, 128>();  // out was written at line 322 before out is read
      px_bf16 stored[8];
      {
        px_bf16* const p = out + (((px_lane & 7) * 8) ^ (((px_lane >> 3) & 1) * 72) ^ ((px_lane >> 4) * 144) ^ ((px_warp_id & 1) * 288) ^ ((px_warp_id >> 1) * 512));
        ptx::load_vector<8>(stored, p);
      }
      // split_ring.py: px.store(C[top + row : top + row + at_once, left : left + wide], stored)
      {
        const unsigned x0 = (unsigned)summed + (px_lane >> 3) + px_warp_id * 4;
        const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
        px_bf16* const p = C.data + ((int)x0 * C.stride[0] + (int)x1);
        if (ptx::inside(x0, C.shape[0]) && ptx::inside(x1, C.shape[1])) ptx::store_vector<8>(p, stored);
      }
    }
  } else if (px_warp_id == 5) {  // warp 5
    const bool px_one = ptx::elect_sync();
    // split_ring.py: for step in range(self.first, self.end):  (called at split_ring.py)
    int stage = 0;
    int parity = 0;
    #pragma unroll 1
    for (int step = first; step < end; ++step) {
      // split_ring.py: k = step * BK  (called at split_ring.py)
      const int k = ptx::wrap_mul(step, 64);
      // split_ring.py: if step - self.first >= DEPTH:  (called at split_ring.py)
      if (ptx::wrap_sub(step, first) >= 6) {
        // split_ring.py: self.a_empty[stage].wait(self.a_ring.parity ^ 1)  (called at split_ring.py)
        ptx::mbarrier_wait_parity(a_empty + 8 * stage, parity ^ 1);
      }
      // split_ring.py: with full.transaction():  (called at split_ring.py)
      __syncwarp();  // all threads have passed the wait at line 132 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(a_full + 8 * stage, 8192);
        // split_ring.py: px.tma.load(here, there, full, multicast=mask, cache="evict_last")  (called at split_ring.py)
        // tensor copy: a box of 64 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_shared_global_cache_hint(a_addr + stage * 8192, &A_map, k, m, a_full + 8 * stage, 0x14f0000000000000ull);
      }
      // split_ring.py: self.a_ring.advance()  (called at split_ring.py)
      const int t = ptx::wrap_add(stage, 1);
      const bool t_1 = t == 6;
      stage = t_1 ? 0 : t;
      parity = parity ^ ((int)t_1);
    }
  } else if (px_warp_id == 4) {  // warp 4
    const bool px_one = ptx::elect_sync();
    // split_ring.py: for step in range(self.first, self.end):  (called at split_ring.py)
    int stage = 0;
    int parity = 0;
    #pragma unroll 1
    for (int step = first; step < end; ++step) {
      // split_ring.py: k = step * BK  (called at split_ring.py)
      const int k = ptx::wrap_mul(step, 64);
      // split_ring.py: if step >= self.first + self.STAGES:  (called at split_ring.py)
      if (step >= ptx::wrap_add(first, 6)) {
        // split_ring.py: self.w_empty[stage].wait(self.w_ring.parity ^ 1)  (called at split_ring.py)
        ptx::mbarrier_wait_parity(w_empty + 8 * stage, parity ^ 1);
      }
      // split_ring.py: with self.w_full[stage].transaction():  (called at split_ring.py)
      __syncwarp();  // all threads have passed the wait at line 168 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(w_full + 8 * stage, 8192);
        // split_ring.py: px.tma.load(  (called at split_ring.py)
        // tensor copy: a box of 64 x 64, 128-byte swizzle
        ptx::cp_async_bulk_tensor_2d_shared_global_cache_hint(w_addr + stage * 8192, &B_map, k, n, w_full + 8 * stage, 0x12f0000000000000ull);
      }
      // split_ring.py: self.w_ring.advance()  (called at split_ring.py)
      const int t = ptx::wrap_add(stage, 1);
      const bool t_1 = t == 6;
      stage = t_1 ? 0 : t;
      parity = parity ^ ((int)t_1);
    }
  }
}
