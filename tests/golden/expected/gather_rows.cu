// gather_rows(BM=32, BN=64) for sm_90a, from kernels.py:52
// 128 threads, 0 bytes of shared memory

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

// Signed integers wrap around, as the machine's do; C++ leaves that open.
__device__ __forceinline__ int wrap_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
__device__ __forceinline__ long long wrap_add(long long a, long long b) {
  return (long long)((unsigned long long)a + (unsigned long long)b);
}

// Sums of indices wrap around: one below 0 or beyond 2^31 is no smaller than any extent.
__device__ __forceinline__ bool inside(unsigned i, int n) { return i < (unsigned)n; }

// N consecutive narrow elements, aligned to their size, as words.
template <int N, class T>
__device__ __forceinline__ void load_words(unsigned* words, const T* p) {
  constexpr int bytes = N * sizeof(T);
  if constexpr (bytes == 16) {
    const uint4 v = *reinterpret_cast<const uint4*>(p);
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
  } else if constexpr (bytes == 8) {
    const uint2 v = *reinterpret_cast<const uint2*>(p);
    words[0] = v.x, words[1] = v.y;
  } else {
    words[0] = *reinterpret_cast<const unsigned*>(p);
  }
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

// N narrow elements of type T. T is named by the caller: the value's own type may be wider.
template <int N, class T>
__device__ __forceinline__ void fill_words(unsigned* words, T value) {
  unsigned word = (unsigned)bits<T>::of(value);
  if constexpr (sizeof(T) == 2) word *= 0x10001u;
  if constexpr (sizeof(T) == 1) word *= 0x1010101u;
  #pragma unroll
  for (int j = 0; j < N * (int)sizeof(T) / 4; ++j) words[j] = word;
}

// N narrow elements from the words that hold them, and back.
template <int N, class T>
__device__ __forceinline__ void unpack_words(T* x, const unsigned* words) {
  constexpr int per_word = 4 / sizeof(T);
  #pragma unroll
  for (int j = 0; j < N; ++j)
    x[j] = bits<T>::from(words[j / per_word] >> j % per_word * 8 * sizeof(T) & (1u << 8 * sizeof(T)) - 1);
}

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

// 8 or 16 bytes to global memory where `inside`, by one instruction. Where vectors lie strides apart, the compiler
// derives each word's address from the vector before, and a plain store of a vector falls apart into its words.
template <int N, class T>
__device__ __forceinline__ void store_vector_if(T* p, const T* x, bool inside) {
  constexpr int bytes = N * sizeof(T);
  unsigned words[4] = {0, 0, 0, 0};
  pack<N>(words, x);
  if constexpr (bytes == 16)
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p st.global.v4.u32 [%4], {%0, %1, %2, %3}; }"
                 :: "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "l"(p), "r"((unsigned)inside) : "memory");
  else
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p st.global.v2.u32 [%2], {%0, %1}; }"
                 :: "r"(words[0]), "r"(words[1]), "l"(p), "r"((unsigned)inside) : "memory");
}

}  // namespace ptx

extern "C" __global__ void __launch_bounds__(128, 1) gather_rows_kernel(
    const __grid_constant__ px_array<px_f16, 2> X,
    const __grid_constant__ px_array<int, 1> I,
    const __grid_constant__ px_array<px_f16, 2> Y) {
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  // kernels.py:54: span = Span(px.block_id(0) * BM, px.block_id(0) * BM + BM)
  const int block_x = (int)blockIdx.x;
  // kernels.py:55: span.clamp(Y.shape[0])
  const int Y_size0 = Y.shape[0];
  // kernels.py:57: for n in range(0, X.shape[1], BN):
  const int X_size1 = X.shape[1];
  // kernels.py:54: span = Span(px.block_id(0) * BM, px.block_id(0) * BM + BM)
  const int t = ptx::wrap_mul(block_x, 32);
  // kernels.py:18: if self.last > size:  (called at kernels.py:55)
  const bool t_1 = (ptx::wrap_add(ptx::wrap_mul(block_x, 32), 32)) > Y_size0;
  if (t_1) {
  }
  // kernels.py:56: rows = px.load(I[span.first : span.first + BM], fill=-1)
  int rows[2];
  {
    const unsigned x0 = (unsigned)t + (px_lane >> 3) + px_warp_id * 4;
    int* const p = I.data + ((int)x0);
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
      rows[i] = ptx::inside(x0 + i * 16, I.shape[0]) ? *(p + i * 16) : (-1);
    }
  }
  // kernels.py:57: for n in range(0, X.shape[1], BN):
  for (int n = 0; n < X_size1; n += 64) {
    // kernels.py:58: px.store(Y[span.first : span.first + BM, n : n + BN], px.load(X[rows, n : n + BN]))
    px_f16 t_2[16];
    {
      const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
      px_f16* const p = X.data + ((int)x1);
      unsigned words[8];
      #pragma unroll
      for (int i = 0; i < 16; i += 8) {
        if (ptx::inside(rows[i >> 3], X.shape[0]) && ptx::inside(x1, X.shape[1])) ptx::load_words<8>(words + i / 2, p + rows[i >> 3] * X.stride[0]);
        else ptx::fill_words<8, px_f16>(words + i / 2, (px_f16)0x0000);
      }
      ptx::unpack_words<16>(t_2, words);
    }
    {
      const unsigned x0 = (unsigned)t + (px_lane >> 3) + px_warp_id * 4;
      const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
      px_f16* const p = Y.data + ((int)x0 * Y.stride[0] + (int)x1);
      #pragma unroll
      for (int i = 0; i < 16; i += 8) {
        ptx::store_vector_if<8>(p + (i >> 3) * 16 * Y.stride[0], t_2 + i, ptx::inside(x0 + (i >> 3) * 16, Y.shape[0]) & ptx::inside(x1, Y.shape[1]));
      }
    }
  }
}
