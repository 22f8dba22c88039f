// computed(BM=128, BN=16, BK=32) for sm_90a, from pipelined.py:87
// 384 threads, 20768 bytes of shared memory

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
//   setmaxnreg_dec
//   inside
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   mbarrier_arrive_expect_tx_shared_cta
//   cp_async_bulk_tensor_2d_shared_global
//   shared_address
//   cp_async_bulk_shared_global
//   px_inside
//   bulk_zeros
//   fence_proxy_async_shared_cta
//   mbarrier_complete_tx_relaxed_cta_shared_cta
//   bulk_load
//   wrap_add
//   elect_sync
//   setmaxnreg_inc
//   ldmatrix_x4
//   bits
//   unpack_words
//   unpack
//   load_vector
//   mbarrier_arrive_shared_cta
//   bf16_to_float
//   max_NaN_f32
//   bf16_pair_from_float
//   bar_sync
//   store_vector
//   pack_words
//   wgmma_descriptor
//   wgmma_m64n16k16_f32_bf16_bf16_registers_x2_fenced
//   wgmma_commit_group_sync_aligned
//   wrap_sub
//   wgmma_wait_group_1
//   wgmma_wait_group_0
//   keep_float
//   store_vector_if

extern "C" __global__ void __launch_bounds__(384, 1) computed_kernel(
    const __grid_constant__ px_array<px_bf16, 2> A,
    const __grid_constant__ px_array<px_bf16, 2> W,
    const __grid_constant__ px_array<float, 2> S,
    const __grid_constant__ px_array<int, 1> ENDS,
    const __grid_constant__ px_array<float, 3> C,
    const __grid_constant__ px_tensor_map A_map,
    const __grid_constant__ px_tensor_map W_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned A_W_S_full = px_base + 20736;
  const unsigned A_W_S_empty = px_base + 20752;
  const unsigned A_ring_addr = px_base;
  const unsigned W_ring_addr = px_base + 18432;
  px_bf16* const W_ring = reinterpret_cast<px_bf16*>(px_smem + 18432);
  float* const S_ring = reinterpret_cast<float*>(px_smem + 20480);
  px_bf16* const w_tiles = reinterpret_cast<px_bf16*>(px_smem + 16384);
  const unsigned w_tiles_addr = px_base + 16384;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&A_map);
    ptx::prefetch_tensormap(&W_map);
  }
  // pipelined.py:92: a = px.maximum(px.load(A[0:BM, k : k + BK]).to(px.f32), 0.0)
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(A_W_S_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(A_W_S_empty + 8 * px_i, 8);
    // pipelined.py:87: def computed(A, W, S, ENDS, C, *, BM=128, BN=16, BK=32):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // pipelined.py:89: for t in px.persistent(ENDS.shape[0]):
  const int ENDS_size0 = ENDS.shape[0];
  const int cluster = (int)blockIdx.x + (int)gridDim.x * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int clusters = (int)gridDim.x * (int)gridDim.y * (int)gridDim.z;
  // pipelined.py:87: def computed(A, W, S, ENDS, C, *, BM=128, BN=16, BK=32):
  __syncthreads();  // barriers are initialised before their first use
  // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
  if (px_warp_id >= 8) {  // producer: warp 8
    const bool px_one = ptx::elect_sync();
    ptx::setmaxnreg_dec<40>();
    if (px_warp_id == 8) {
      int fill_stage = 0;
      int fill_parity = 0;
      // pipelined.py:89: for t in px.persistent(ENDS.shape[0]):
      #pragma unroll 1
      for (int t = cluster; t < ENDS_size0; t += clusters) {
        // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
        const int t_1 = ptx::inside(t, ENDS.shape[0]) ? *(ENDS.data + t) : 0;
        #pragma unroll 1
        for (int k = 0; k < t_1; k += 32) {
          // pipelined.py:92: a = px.maximum(px.load(A[0:BM, k : k + BK]).to(px.f32), 0.0)
          ptx::mbarrier_wait_parity(A_W_S_empty + 8 * fill_stage, fill_parity ^ 1);
          __syncwarp();  // all threads have passed the wait at line 92 before the elected thread goes on
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(A_W_S_full + 8 * fill_stage, 9344);
            // tensor copy: a box of 128 x 32, 64-byte swizzle
            ptx::cp_async_bulk_tensor_2d_shared_global(A_ring_addr + fill_stage * 8192, &A_map, k, 0, A_W_S_full + 8 * fill_stage);
            // pipelined.py:93: w = px.load(W[0:BN, k : k + BK]).to(px.f32) * px.load(S[t, k : k + BK])[None, :]
            // tensor copy: a box of 16 x 32
            ptx::cp_async_bulk_tensor_2d_shared_global(W_ring_addr + fill_stage * 1024, &W_map, k, 0, A_W_S_full + 8 * fill_stage);
            // bulk copy: one contiguous run of 128 bytes from a multiple of 16 bytes
            ptx::bulk_load(reinterpret_cast<float*>(px_smem + 20480 + fill_stage * 128), S.data + (long long)t * S.stride[0] + k, k, ((unsigned)t < (unsigned)S.shape[0] ? S.shape[1] : 0), 32, A_W_S_full + 8 * fill_stage);
          }
          // pipelined.py:92: a = px.maximum(px.load(A[0:BM, k : k + BK]).to(px.f32), 0.0)
          const int t_2 = ptx::wrap_add(fill_stage, 1);
          const bool wraps = t_2 == 2;
          fill_parity = fill_parity ^ ((int)wraps);
          fill_stage = wraps ? 0 : t_2;
        }
      }
    }
  } else if (px_warp_id < 8) {  // consumer: warps 0 to 7
    const bool px_warp_one = ptx::elect_sync();
    ptx::setmaxnreg_inc<232>();
    // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
    int take_stage = 0;
    int take_parity = 0;
    // pipelined.py:89: for t in px.persistent(ENDS.shape[0]):
    #pragma unroll 1
    for (int t = cluster; t < ENDS_size0; t += clusters) {
      // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
      const int t_1 = ptx::inside(t, ENDS.shape[0]) ? *(ENDS.data + t) : 0;
      // pipelined.py:90: acc = px.zeros((BM, BN), px.f32)
      float acc[8];
      #pragma unroll
      for (int i = 0; i < 8; ++i) acc[i] = 0.0f;
      // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
      float acc_1[8];
      #pragma unroll
      for (int px_r = 0; px_r < 8; ++px_r) acc_1[px_r] = acc[px_r];
      const bool ran = 0 < t_1;
      if (ran) {
        // pipelined.py:92: a = px.maximum(px.load(A[0:BM, k : k + BK]).to(px.f32), 0.0)
        const int take_stage_1 = take_stage;
        ptx::mbarrier_wait_parity(A_W_S_full + 8 * take_stage_1, take_parity);
        const int t_2 = ptx::wrap_add(take_stage_1, 1);
        const bool wraps = t_2 == 2;
        take_parity = take_parity ^ ((int)wraps);
        take_stage = wraps ? 0 : t_2;
        px_bf16 t_3[16];
        {
          const int o = ((px_lane & 1) * 4) ^ (((px_lane >> 1) & 1) * 9) ^ (((px_lane >> 2) & 1) * 18) ^ (((px_lane >> 3) & 1) * 32) ^ ((px_lane >> 4)) ^ (px_warp_id * 64);
          const unsigned px_address = A_ring_addr + 16 * take_stage_1 * 512;
          unsigned px_words[8];
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            ptx::ldmatrix_x4(px_words + 4 * i, px_address + 16 * (o ^ (i * 2)));
          }
          ptx::unpack_words<16>(t_3, px_words);
        }
        // pipelined.py:93: w = px.load(W[0:BN, k : k + BK]).to(px.f32) * px.load(S[t, k : k + BK])[None, :]
        px_bf16 t_4[2];
        {
          px_bf16* const p = W_ring + take_stage_1 * 512 + px_lane * 2 + px_warp_id * 64;
          ptx::load_vector<2>(t_4, p);
        }
        float t_5[2];
        {
          float* const p = S_ring + take_stage_1 * 32 + (px_lane & 15) * 2;
          ptx::load_vector<2>(t_5, p);
        }
        // pipelined.py:92: a = px.maximum(px.load(A[0:BM, k : k + BK]).to(px.f32), 0.0)
        __syncwarp();  // all lanes of this warp are done with the stage
        if (px_warp_one) {
          ptx::mbarrier_arrive_shared_cta(A_W_S_empty + 8 * take_stage_1);
        }
        float t_6[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) t_6[i] = ptx::bf16_to_float(t_3[i]);
        float a[16];
        #pragma unroll
        for (int i = 0; i < 16; ++i) a[i] = ptx::max_NaN_f32(t_6[i], 0.0f);
        // pipelined.py:93: w = px.load(W[0:BN, k : k + BK]).to(px.f32) * px.load(S[t, k : k + BK])[None, :]
        float t_7[2];
        t_7[0] = ptx::bf16_to_float(t_4[0]);
        t_7[1] = ptx::bf16_to_float(t_4[1]);
        float t_8[2];
        t_8[0] = t_5[0];
        t_8[1] = t_5[1];
        float w[2];
        w[0] = t_7[0] * t_8[0];
        w[1] = t_7[1] * t_8[1];
        // pipelined.py:94: acc = px.dot(a.to(A.dtype), w.to(A.dtype).T, acc)
        px_bf16 a_1[16];
        #pragma unroll
        for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(a_1 + i, a[i], a[i + 1]);
        px_bf16 w_1[2];
        ptx::bf16_pair_from_float(w_1, w[0], w[1]);
        ptx::bar_sync<1, 256>();  // w_tiles was read at line 94 before w_tiles is written
        {
          px_bf16* const p = w_tiles + ((px_lane * 2) ^ ((px_warp_id & 1) * 72) ^ (((px_warp_id >> 1) & 1) * 144) ^ ((px_warp_id >> 2) * 256));
          ptx::store_vector<2>(p, w_1);
        }
        // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
        ptx::fence_proxy_async_shared_cta();
        // pipelined.py:94: acc = px.dot(a.to(A.dtype), w.to(A.dtype).T, acc)
        ptx::bar_sync<1, 256>();  // w_tiles was written at line 94 before w_tiles is read
        {
          unsigned px_a[8];
          ptx::pack_words<16>(px_a, a_1);
          const unsigned long long px_b = ptx::wgmma_descriptor(w_tiles_addr, 0x8000002000010000ull);
          ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_x2_fenced<2>(acc_1, px_a, px_b, true);
        }
        // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
        ptx::wgmma_commit_group_sync_aligned();
        const int t_9 = ptx::wrap_add(0, 32);
        int following = t_9;
        #pragma unroll 1
        for (int k = t_9; k < ptx::wrap_sub(t_1, 32); k += 64) {
          // pipelined.py:92: a = px.maximum(px.load(A[0:BM, k : k + BK]).to(px.f32), 0.0)
          const int take_stage_2 = take_stage;
          ptx::mbarrier_wait_parity(A_W_S_full + 8 * take_stage_2, take_parity);
          const int t_10 = ptx::wrap_add(take_stage_2, 1);
          const bool wraps_1 = t_10 == 2;
          take_parity = take_parity ^ ((int)wraps_1);
          take_stage = wraps_1 ? 0 : t_10;
          px_bf16 t_11[16];
          {
            const int o = ((px_lane & 1) * 4) ^ (((px_lane >> 1) & 1) * 9) ^ (((px_lane >> 2) & 1) * 18) ^ (((px_lane >> 3) & 1) * 32) ^ ((px_lane >> 4)) ^ (px_warp_id * 64);
            const unsigned px_address = A_ring_addr + 16 * take_stage_2 * 512;
            unsigned px_words[8];
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              ptx::ldmatrix_x4(px_words + 4 * i, px_address + 16 * (o ^ (i * 2)));
            }
            ptx::unpack_words<16>(t_11, px_words);
          }
          // pipelined.py:93: w = px.load(W[0:BN, k : k + BK]).to(px.f32) * px.load(S[t, k : k + BK])[None, :]
          px_bf16 t_12[2];
          {
            px_bf16* const p = W_ring + take_stage_2 * 512 + px_lane * 2 + px_warp_id * 64;
            ptx::load_vector<2>(t_12, p);
          }
          float t_13[2];
          {
            float* const p = S_ring + take_stage_2 * 32 + (px_lane & 15) * 2;
            ptx::load_vector<2>(t_13, p);
          }
          // pipelined.py:92: a = px.maximum(px.load(A[0:BM, k : k + BK]).to(px.f32), 0.0)
          __syncwarp();  // all lanes of this warp are done with the stage
          if (px_warp_one) {
            ptx::mbarrier_arrive_shared_cta(A_W_S_empty + 8 * take_stage_2);
          }
          float t_14[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_14[i] = ptx::bf16_to_float(t_11[i]);
          float a_2[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) a_2[i] = ptx::max_NaN_f32(t_14[i], 0.0f);
          // pipelined.py:93: w = px.load(W[0:BN, k : k + BK]).to(px.f32) * px.load(S[t, k : k + BK])[None, :]
          float t_15[2];
          t_15[0] = ptx::bf16_to_float(t_12[0]);
          t_15[1] = ptx::bf16_to_float(t_12[1]);
          float t_16[2];
          t_16[0] = t_13[0];
          t_16[1] = t_13[1];
          float w_2[2];
          w_2[0] = t_15[0] * t_16[0];
          w_2[1] = t_15[1] * t_16[1];
          // pipelined.py:94: acc = px.dot(a.to(A.dtype), w.to(A.dtype).T, acc)
          px_bf16 a_3[16];
          #pragma unroll
          for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(a_3 + i, a_2[i], a_2[i + 1]);
          px_bf16 w_3[2];
          ptx::bf16_pair_from_float(w_3, w_2[0], w_2[1]);
          ptx::bar_sync<1, 256>();  // w_tiles was read at line 94 before w_tiles is written
          {
            px_bf16* const p = w_tiles + ((px_lane * 2) ^ ((px_warp_id & 1) * 72) ^ (((px_warp_id >> 1) & 1) * 144) ^ ((px_warp_id >> 2) * 256));
            ptx::store_vector<2>(p + 512, w_3);
          }
          // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
          ptx::fence_proxy_async_shared_cta();
          // pipelined.py:94: acc = px.dot(a.to(A.dtype), w.to(A.dtype).T, acc)
          ptx::bar_sync<1, 256>();  // w_tiles was written at line 94 before w_tiles is read
          {
            unsigned px_a[8];
            ptx::pack_words<16>(px_a, a_3);
            const unsigned long long px_b = ptx::wgmma_descriptor(w_tiles_addr + 1024, 0x8000002000010000ull);
            ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_x2_fenced<2>(acc_1, px_a, px_b, true);
          }
          // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
          ptx::wgmma_commit_group_sync_aligned();
          // pipelined.py:94: acc = px.dot(a.to(A.dtype), w.to(A.dtype).T, acc)
          ptx::wgmma_wait_group_1();
          // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
          // pipelined.py:92: a = px.maximum(px.load(A[0:BM, k : k + BK]).to(px.f32), 0.0)
          const int take_stage_3 = take_stage;
          ptx::mbarrier_wait_parity(A_W_S_full + 8 * take_stage_3, take_parity);
          const int t_17 = ptx::wrap_add(take_stage_3, 1);
          const bool wraps_2 = t_17 == 2;
          take_parity = take_parity ^ ((int)wraps_2);
          take_stage = wraps_2 ? 0 : t_17;
          px_bf16 t_18[16];
          {
            const int o = ((px_lane & 1) * 4) ^ (((px_lane >> 1) & 1) * 9) ^ (((px_lane >> 2) & 1) * 18) ^ (((px_lane >> 3) & 1) * 32) ^ ((px_lane >> 4)) ^ (px_warp_id * 64);
            const unsigned px_address = A_ring_addr + 16 * take_stage_3 * 512;
            unsigned px_words[8];
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              ptx::ldmatrix_x4(px_words + 4 * i, px_address + 16 * (o ^ (i * 2)));
            }
            ptx::unpack_words<16>(t_18, px_words);
          }
          // pipelined.py:93: w = px.load(W[0:BN, k : k + BK]).to(px.f32) * px.load(S[t, k : k + BK])[None, :]
          px_bf16 t_19[2];
          {
            px_bf16* const p = W_ring + take_stage_3 * 512 + px_lane * 2 + px_warp_id * 64;
            ptx::load_vector<2>(t_19, p);
          }
          float t_20[2];
          {
            float* const p = S_ring + take_stage_3 * 32 + (px_lane & 15) * 2;
            ptx::load_vector<2>(t_20, p);
          }
          // pipelined.py:92: a = px.maximum(px.load(A[0:BM, k : k + BK]).to(px.f32), 0.0)
          __syncwarp();  // all lanes of this warp are done with the stage
          if (px_warp_one) {
            ptx::mbarrier_arrive_shared_cta(A_W_S_empty + 8 * take_stage_3);
          }
          float t_21[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_21[i] = ptx::bf16_to_float(t_18[i]);
          float a_4[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) a_4[i] = ptx::max_NaN_f32(t_21[i], 0.0f);
          // pipelined.py:93: w = px.load(W[0:BN, k : k + BK]).to(px.f32) * px.load(S[t, k : k + BK])[None, :]
          float t_22[2];
          t_22[0] = ptx::bf16_to_float(t_19[0]);
          t_22[1] = ptx::bf16_to_float(t_19[1]);
          float t_23[2];
          t_23[0] = t_20[0];
          t_23[1] = t_20[1];
          float w_4[2];
          w_4[0] = t_22[0] * t_23[0];
          w_4[1] = t_22[1] * t_23[1];
          // pipelined.py:94: acc = px.dot(a.to(A.dtype), w.to(A.dtype).T, acc)
          px_bf16 a_5[16];
          #pragma unroll
          for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(a_5 + i, a_4[i], a_4[i + 1]);
          px_bf16 w_5[2];
          ptx::bf16_pair_from_float(w_5, w_4[0], w_4[1]);
          ptx::bar_sync<1, 256>();  // w_tiles was read at line 94 before w_tiles is written
          {
            px_bf16* const p = w_tiles + ((px_lane * 2) ^ ((px_warp_id & 1) * 72) ^ (((px_warp_id >> 1) & 1) * 144) ^ ((px_warp_id >> 2) * 256));
            ptx::store_vector<2>(p, w_5);
          }
          // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
          ptx::fence_proxy_async_shared_cta();
          // pipelined.py:94: acc = px.dot(a.to(A.dtype), w.to(A.dtype).T, acc)
          ptx::bar_sync<1, 256>();  // w_tiles was written at line 94 before w_tiles is read
          {
            unsigned px_a[8];
            ptx::pack_words<16>(px_a, a_5);
            const unsigned long long px_b = ptx::wgmma_descriptor(w_tiles_addr, 0x8000002000010000ull);
            ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_x2_fenced<2>(acc_1, px_a, px_b, true);
          }
          // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
          ptx::wgmma_commit_group_sync_aligned();
          // pipelined.py:94: acc = px.dot(a.to(A.dtype), w.to(A.dtype).T, acc)
          ptx::wgmma_wait_group_1();
          // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
          following = ptx::wrap_add(k, 64);
        }
        // pipelined.py:94: acc = px.dot(a.to(A.dtype), w.to(A.dtype).T, acc)
        ptx::wgmma_wait_group_0();
        ptx::keep_float<8>(acc_1);
        // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
        const bool inside = following < t_1;
        if (inside) {
          // pipelined.py:92: a = px.maximum(px.load(A[0:BM, k : k + BK]).to(px.f32), 0.0)
          const int take_stage_2 = take_stage;
          ptx::mbarrier_wait_parity(A_W_S_full + 8 * take_stage_2, take_parity);
          const int t_10 = ptx::wrap_add(take_stage_2, 1);
          const bool wraps_1 = t_10 == 2;
          take_parity = take_parity ^ ((int)wraps_1);
          take_stage = wraps_1 ? 0 : t_10;
          px_bf16 t_11[16];
          {
            const int o = ((px_lane & 1) * 4) ^ (((px_lane >> 1) & 1) * 9) ^ (((px_lane >> 2) & 1) * 18) ^ (((px_lane >> 3) & 1) * 32) ^ ((px_lane >> 4)) ^ (px_warp_id * 64);
            const unsigned px_address = A_ring_addr + 16 * take_stage_2 * 512;
            unsigned px_words[8];
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
              ptx::ldmatrix_x4(px_words + 4 * i, px_address + 16 * (o ^ (i * 2)));
            }
            ptx::unpack_words<16>(t_11, px_words);
          }
          // pipelined.py:93: w = px.load(W[0:BN, k : k + BK]).to(px.f32) * px.load(S[t, k : k + BK])[None, :]
          px_bf16 t_12[2];
          {
            px_bf16* const p = W_ring + take_stage_2 * 512 + px_lane * 2 + px_warp_id * 64;
            ptx::load_vector<2>(t_12, p);
          }
          float t_13[2];
          {
            float* const p = S_ring + take_stage_2 * 32 + (px_lane & 15) * 2;
            ptx::load_vector<2>(t_13, p);
          }
          // pipelined.py:92: a = px.maximum(px.load(A[0:BM, k : k + BK]).to(px.f32), 0.0)
          __syncwarp();  // all lanes of this warp are done with the stage
          if (px_warp_one) {
            ptx::mbarrier_arrive_shared_cta(A_W_S_empty + 8 * take_stage_2);
          }
          float t_14[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) t_14[i] = ptx::bf16_to_float(t_11[i]);
          float a_2[16];
          #pragma unroll
          for (int i = 0; i < 16; ++i) a_2[i] = ptx::max_NaN_f32(t_14[i], 0.0f);
          // pipelined.py:93: w = px.load(W[0:BN, k : k + BK]).to(px.f32) * px.load(S[t, k : k + BK])[None, :]
          float t_15[2];
          t_15[0] = ptx::bf16_to_float(t_12[0]);
          t_15[1] = ptx::bf16_to_float(t_12[1]);
          float t_16[2];
          t_16[0] = t_13[0];
          t_16[1] = t_13[1];
          float w_2[2];
          w_2[0] = t_15[0] * t_16[0];
          w_2[1] = t_15[1] * t_16[1];
          // pipelined.py:94: acc = px.dot(a.to(A.dtype), w.to(A.dtype).T, acc)
          px_bf16 a_3[16];
          #pragma unroll
          for (int i = 0; i < 16; i += 2) ptx::bf16_pair_from_float(a_3 + i, a_2[i], a_2[i + 1]);
          px_bf16 w_3[2];
          ptx::bf16_pair_from_float(w_3, w_2[0], w_2[1]);
          ptx::bar_sync<1, 256>();  // w_tiles was read at line 94 before w_tiles is written
          {
            px_bf16* const p = w_tiles + ((px_lane * 2) ^ ((px_warp_id & 1) * 72) ^ (((px_warp_id >> 1) & 1) * 144) ^ ((px_warp_id >> 2) * 256));
            ptx::store_vector<2>(p + 512, w_3);
          }
          // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
          ptx::fence_proxy_async_shared_cta();
          // pipelined.py:94: acc = px.dot(a.to(A.dtype), w.to(A.dtype).T, acc)
          ptx::bar_sync<1, 256>();  // w_tiles was written at line 94 before w_tiles is read
          {
            unsigned px_a[8];
            ptx::pack_words<16>(px_a, a_3);
            const unsigned long long px_b = ptx::wgmma_descriptor(w_tiles_addr + 1024, 0x8000002000010000ull);
            ptx::wgmma_m64n16k16_f32_bf16_bf16_registers_x2_fenced<2>(acc_1, px_a, px_b, true);
          }
          // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
          ptx::wgmma_commit_group_sync_aligned();
          // pipelined.py:94: acc = px.dot(a.to(A.dtype), w.to(A.dtype).T, acc)
          ptx::wgmma_wait_group_0();
          ptx::keep_float<8>(acc_1);
          // pipelined.py:91: for k in px.pipelined(range(0, ENDS[t], BK), stages=2):
        }
      }
      // pipelined.py:95: px.store(C[t, 0:BM, 0:BN], acc)
      {
        const int x1 = (px_lane >> 2) + px_warp_id * 16;
        const int x2 = (px_lane & 3) * 2;
        float* const p = C.data + (t * C.stride[0] + x1 * C.stride[1] + x2);
        #pragma unroll
        for (int i = 0; i < 8; i += 2) {
          ptx::store_vector_if<2>(p + ((i >> 1) & 1) * 8 * C.stride[1] + (i >> 2) * 8, acc_1 + i, ptx::inside(t, C.shape[0]) & ptx::inside(x1 + ((i >> 1) & 1) * 8, C.shape[1]) & ptx::inside(x2 + (i >> 2) * 8, C.shape[2]));
        }
      }
    }
  }
}
