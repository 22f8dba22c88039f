// softmax(BM=4, BN=1024) for sm_90a, from softmax.py:10
// 128 threads, 0 bytes of shared memory

template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

namespace ptx {

// Signed integers wrap around, as the machine's do; C++ leaves that open.
__device__ __forceinline__ int wrap_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
__device__ __forceinline__ long long wrap_mul(long long a, long long b) {
  return (long long)((unsigned long long)a * (unsigned long long)b);
}

// Sums of indices wrap around: one below 0 or beyond 2^31 is no smaller than any extent.
__device__ __forceinline__ bool inside(unsigned i, int n) { return i < (unsigned)n; }

__device__ __forceinline__ float max_NaN_f32(float a, float b) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

// Over all lanes. Floats go as integers of the same order; a NaN goes as the largest of them, 0x7fffffff.
__device__ __forceinline__ float warp_max(float x) {
  const int i = (int)__float_as_uint(max_NaN_f32(x, __int_as_float(0xff800000)));
  const int found = __reduce_max_sync(0xffffffffu, i ^ (i >> 31 & 0x7fffffff));
  return __int_as_float(found ^ (found >> 31 & 0x7fffffff));
}

// An element from its bits, and back.
template <class T>
struct bits {
  static __device__ __forceinline__ T from(unsigned long long b) { return (T)b; }
  static __device__ __forceinline__ unsigned long long of(T x) {
    if constexpr (sizeof(T) == 1) return (unsigned char)x;
    else if constexpr (sizeof(T) == 2) return (unsigned short)x;
    else if constexpr (sizeof(T) == 4) return (unsigned)x;
    else return (unsigned long long)x;
  }
};
template <>
struct bits<float> {
  static __device__ __forceinline__ float from(unsigned long long b) { return __uint_as_float((unsigned)b); }
  static __device__ __forceinline__ unsigned long long of(float x) { return __float_as_uint(x); }
};
template <>
struct bits<double> {
  static __device__ __forceinline__ double from(unsigned long long b) {
    return __longlong_as_double((long long)b);
  }
  static __device__ __forceinline__ unsigned long long of(double x) {
    return (unsigned long long)__double_as_longlong(x);
  }
};

template <class T>
__device__ __forceinline__ T shuffle_xor(T x, int mask) {
  const unsigned long long b = bits<T>::of(x);
  unsigned long long got = (unsigned)__shfl_xor_sync(0xffffffffu, (unsigned)b, mask);
  if constexpr (sizeof(T) == 8)
    got |= (unsigned long long)__shfl_xor_sync(0xffffffffu, (unsigned)(b >> 32), mask) << 32;
  return bits<T>::from(got);
}

}  // namespace ptx

extern "C" __global__ void __launch_bounds__(128, 1) softmax_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 2> Y) {
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  // softmax.py:11: m = px.block_id(0) * BM
  const int block_x = (int)blockIdx.x;
  const int m = ptx::wrap_mul(block_x, 4);
  // softmax.py:12: x = px.load(X[m : m + BM, 0:BN], fill=-float("inf")).to(px.f32)
  float x[32];
  {
    const unsigned x0 = (unsigned)m + px_warp_id;
    float* const p = X.data + ((int)x0 * X.stride[0] + px_lane);
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
      x[i] = ptx::inside(x0, X.shape[0]) && ptx::inside(px_lane + i * 32, X.shape[1]) ? *(p + i * 32) : __int_as_float(0xff800000);
    }
  }
  // softmax.py:13: e = px.exp(x - px.max(x, axis=1, keepdims=True))
  float x_max[1];
  {
    x_max[0] = __int_as_float(0xff800000);
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
      x_max[0] = ptx::max_NaN_f32(x_max[0], x[i]);
    }
    x_max[0] = ptx::warp_max(x_max[0]);
  }
  float t[1];
  #pragma unroll
  for (int i = 0; i < 1; ++i) t[i] = x_max[i];
  float t_1[32];
  #pragma unroll
  for (int i = 0; i < 32; ++i) t_1[i] = x[i] - t[0];
  float e[32];
  #pragma unroll
  for (int i = 0; i < 32; ++i) e[i] = expf(t_1[i]);
  // softmax.py:14: px.store(Y[m : m + BM, 0:BN], (e / px.sum(e, axis=1, keepdims=True)).to(Y.dtype))
  float e_sum[1];
  {
    e_sum[0] = 0.0f;
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
      e_sum[0] = e_sum[0] + e[i];
    }
    #pragma unroll
    for (int mask = 1; mask <= 16; mask *= 2) {
      e_sum[0] = e_sum[0] + ptx::shuffle_xor(e_sum[0], mask);
    }
  }
  float t_2[1];
  #pragma unroll
  for (int i = 0; i < 1; ++i) t_2[i] = e_sum[i];
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
