// transpose(BM=64, BN=64) for sm_90a, from transpose.py:10
// 128 threads, 8192 bytes of shared memory

typedef unsigned short px_f16;
template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   wrap_mul
//   inside
//   bits
//   unpack
//   load_vector

extern "C" __global__ void __launch_bounds__(128, 1) transpose_kernel(
    const __grid_constant__ px_array<px_f16, 2> X,
    const __grid_constant__ px_array<px_f16, 2> Y) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  px_f16* const s = reinterpret_cast<px_f16*>(px_smem);
  // transpose.py:11: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int block_x = (int)blockIdx.x;
  const int block_y = (int)blockIdx.y;
  const int m = ptx::wrap_mul(block_x, 64);
  const int n = ptx::wrap_mul(block_y, 64);
  // transpose.py:13: px.store(s, px.load(X[m : m + BM, n : n + BN]))
  px_f16 t[32];
  {
    const unsigned x0 = (unsigned)m + px_warp_id;
    const unsigned x1 = (unsigned)n + px_lane;
    px_f16* const p = X.data + ((int)x0 * X.stride[0] + (int)x1);
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
      t[i] = ptx::inside(x0 + (i >> 1) * 4, X.shape[0]) && ptx::inside(x1 + (i & 1) * 32, X.shape[1]) ? *(p + (i >> 1) * 4 * X.stride[0] + (i & 1) * 32) : (px_f16)0x0000;
    }
  }
  {
    const int o = px_lane ^ ((px_warp_id & 1) * 32) ^ ((px_warp_id >> 1) * 72);
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
      *(s + (o ^ (((i >> 1) & 1) * 16)) + (i & 1) * 2048 + (i >> 1) * 128) = t[i];
    }
  }
  // transpose.py:14: px.store(Y[n : n + BN, m : m + BM], px.load(s.T))
  __syncthreads();  // s was written at line 13 before s is read
  px_f16 t_1[32];
  {
    px_f16* const p = s + (((px_lane & 1) * 32) ^ (((px_lane >> 1) & 1) * 72) ^ (((px_lane >> 2) & 1) * 144) ^ ((px_lane >> 3) * 256) ^ (px_warp_id * 8));
    #pragma unroll
    for (int i = 0; i < 32; i += 8) {
      ptx::load_vector<8>(t_1 + i, p + (i >> 3) * 1024);
    }
  }
  {
    const unsigned x0 = (unsigned)n + px_warp_id * 8;
    const unsigned x1 = (unsigned)m + px_lane;
    px_f16* const p = Y.data + ((int)x0 * Y.stride[0] + (int)x1);
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (ptx::inside(x0 + (i & 7) + (i >> 4) * 32, Y.shape[0]) && ptx::inside(x1 + ((i >> 3) & 1) * 32, Y.shape[1])) *(p + ((i & 7) + (i >> 4) * 32) * Y.stride[0] + ((i >> 3) & 1) * 32) = t_1[i];
    }
  }
}
