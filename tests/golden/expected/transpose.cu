// transpose(BM=64, BN=64) for sm_90a, from transpose.py:10
// 128 threads, 8192 bytes of shared memory

typedef unsigned short px_f16;
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

// N elements from the words that one access brings, and back.
template <int N, class T>
__device__ __forceinline__ void unpack(T* x, const unsigned (&words)[4]) {
  #pragma unroll
  for (int j = 0; j < N; ++j) {
    if constexpr (sizeof(T) == 8)
      x[j] = bits<T>::from(words[2 * j] | (unsigned long long)words[2 * j + 1] << 32);
    else if constexpr (sizeof(T) == 4) x[j] = bits<T>::from(words[j]);
    else if constexpr (sizeof(T) == 2) x[j] = bits<T>::from((unsigned short)(words[j / 2] >> j % 2 * 16));
    else x[j] = bits<T>::from((unsigned char)(words[j / 4] >> j % 4 * 8));
  }
}
template <int N, class T>
__device__ __forceinline__ void pack(unsigned (&words)[4], const T* x) {
  #pragma unroll
  for (int j = 0; j < N; ++j) {
    const unsigned long long b = bits<T>::of(x[j]);
    if constexpr (sizeof(T) == 8) words[2 * j] = (unsigned)b, words[2 * j + 1] = (unsigned)(b >> 32);
    else if constexpr (sizeof(T) == 4) words[j] = (unsigned)b;
    else words[j * sizeof(T) / 4] |= (unsigned)b << j * sizeof(T) % 4 * 8;
  }
}

// N consecutive elements, aligned to their size, by one access.
template <int N, class T>
__device__ __forceinline__ void load_vector(T* x, const T* p) {
  constexpr int bytes = N * sizeof(T);
  unsigned words[4] = {0, 0, 0, 0};
  if constexpr (bytes == 16) {
    const uint4 v = *reinterpret_cast<const uint4*>(p);
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
  } else if constexpr (bytes == 8) {
    const uint2 v = *reinterpret_cast<const uint2*>(p);
    words[0] = v.x, words[1] = v.y;
  } else if constexpr (bytes == 4) {
    words[0] = *reinterpret_cast<const unsigned*>(p);
  } else {
    words[0] = *reinterpret_cast<const unsigned short*>(p);
  }
  unpack<N>(x, words);
}

}  // namespace ptx

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
      *(s + (o ^ ((i & 1) * 2048 + ((i >> 1) & 1) * 144 + (i >> 2) * 256))) = t[i];
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
