// softmax(BM=4, BN=1024) for sm_90a, from softmax.py
// 128 threads, 0 bytes of shared memory

template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   wrap_mul
//   inside
//   max_NaN_f32
//   warp_max
//   bits
//   shuffle_xor

extern "C" __global__ void __launch_bounds__(128, 1) softmax_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 2> Y) {
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  // softmax.py: m = px.block_id(0) * BM
  const int block_x = (int)blockIdx.x;
  const int m = ptx::wrap_mul(block_x, 4);
  // softmax.py: x = px.load(X[m : m + BM, 0:BN], fill=-float("inf")).to(px.f32)
  float x[32];
  {
    const unsigned x0 = (unsigned)m + px_warp_id;
    float* const p = X.data + ((int)x0 * X.stride[0] + px_lane);
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
      x[i] = ptx::inside(x0, X.shape[0]) && ptx::inside(px_lane + i * 32, X.shape[1]) ? *(p + i * 32) : __int_as_float(0xff800000);
    }
  }
  // softmax.py: e = px.exp(x - px.max(x, axis=1, keepdims=True))
  float x_max[1];
  {
    float x_max_parts[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      x_max_parts[i & 3] = x[i];
    }
    #pragma unroll
    for (int i = 4; i < 32; ++i) {
      x_max_parts[i & 3] = ptx::max_NaN_f32(x_max_parts[i & 3], x[i]);
    }
    x_max[0] = ptx::max_NaN_f32(ptx::max_NaN_f32(ptx::max_NaN_f32(x_max_parts[0], x_max_parts[1]), x_max_parts[2]), x_max_parts[3]);
    x_max[0] = ptx::warp_max(x_max[0]);
  }
  float t[1];
  t[0] = x_max[0];
  float t_1[32];
  #pragma unroll
  for (int i = 0; i < 32; ++i) t_1[i] = x[i] - t[0];
  float e[32];
  #pragma unroll
  for (int i = 0; i < 32; ++i) e[i] = expf(t_1[i]);
  // softmax.py: px.store(Y[m : m + BM, 0:BN], (e / px.sum(e, axis=1, keepdims=True)).to(Y.dtype))
  float e_sum[1];
  {
    float e_sum_parts[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      e_sum_parts[i & 3] = e[i];
    }
    #pragma unroll
    for (int i = 4; i < 32; ++i) {
      e_sum_parts[i & 3] = e_sum_parts[i & 3] + e[i];
    }
    e_sum[0] = ((e_sum_parts[0] + e_sum_parts[1]) + e_sum_parts[2]) + e_sum_parts[3];
    #pragma unroll
    for (int mask = 1; mask <= 16; mask *= 2) {
      e_sum[0] = e_sum[0] + ptx::shuffle_xor(e_sum[0], mask);
    }
  }
  float t_2[1];
  t_2[0] = e_sum[0];
  float t_3[32];
  #pragma unroll
  for (int i = 0; i < 32; ++i) t_3[i] = e[i] / t_2[0];
  {
    const unsigned x0 = (unsigned)m + px_warp_id;
    float* const p = Y.data + ((int)x0 * Y.stride[0] + px_lane);
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (ptx::inside(x0, Y.shape[0]) && ptx::inside(px_lane + i * 32, Y.shape[1])) *(p + i * 32) = t_3[i];
    }
  }
}
