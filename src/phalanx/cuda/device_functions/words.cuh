/// Elements, their bits, and the 32-bit words that hold several.

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

// needs: bits
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

template <int N, class T, class V>
__device__ __forceinline__ void fill_vector(T* x, V value) {
  #pragma unroll
  for (int j = 0; j < N; ++j) x[j] = (T)value;
}

// needs: bits
// N narrow elements from the words that hold them, and back.
template <int N, class T>
__device__ __forceinline__ void unpack_words(T* x, const unsigned* words) {
  constexpr int per_word = 4 / sizeof(T);
  #pragma unroll
  for (int j = 0; j < N; ++j)
    x[j] = bits<T>::from(words[j / per_word] >> j % per_word * 8 * sizeof(T) & (1u << 8 * sizeof(T)) - 1);
}

// needs: bits
template <int N, class T>
__device__ __forceinline__ void pack_words(unsigned* words, const T* x) {
  constexpr int per_word = 4 / sizeof(T);
  #pragma unroll
  for (int j = 0; j < N; j += per_word) {
    unsigned word = 0;
    #pragma unroll
    for (int k = 0; k < per_word; ++k) word |= (unsigned)bits<T>::of(x[j + k]) << k * 8 * sizeof(T);
    words[j / per_word] = word;
  }
}

// needs: bits
// N narrow elements of type T. T is named by the caller: the value's own type may be wider.
template <int N, class T>
__device__ __forceinline__ void fill_words(unsigned* words, T value) {
  unsigned word = (unsigned)bits<T>::of(value);
  if constexpr (sizeof(T) == 2) word *= 0x10001u;
  if constexpr (sizeof(T) == 1) word *= 0x1010101u;
  #pragma unroll
  for (int j = 0; j < N * (int)sizeof(T) / 4; ++j) words[j] = word;
}

__device__ __forceinline__ unsigned pair_of(unsigned short low, unsigned short high) {
  return low | (unsigned)high << 16;
}

__device__ __forceinline__ void halves_of(unsigned short* y, unsigned pair) {
  y[0] = (unsigned short)pair;
  y[1] = (unsigned short)(pair >> 16);
}

// needs: bits
template <class T>
__device__ __forceinline__ unsigned fold_scalar(T x) {
  const unsigned long long b = bits<T>::of(x);
  return (unsigned)b ^ (unsigned)(b >> 32);
}

// needs: pack_words fold_scalar
// One word that needs all of N elements.
template <int N, class T>
__device__ __forceinline__ unsigned fold_bits(const T* x) {
  unsigned all = 0;
  if constexpr (sizeof(T) < 4 && N * sizeof(T) % 4 == 0) {
    unsigned words[N * sizeof(T) / 4];
    pack_words<N>(words, x);
    #pragma unroll
    for (int j = 0; j < N * (int)sizeof(T) / 4; ++j) all ^= words[j];
  } else {
    #pragma unroll
    for (int j = 0; j < N; ++j) all ^= fold_scalar(x[j]);
  }
  return all;
}

// Nothing at run time, for `never` is 0, which no compiler knows: what x follows from is computed before this point.
__device__ __forceinline__ void finish(unsigned x, unsigned never, unsigned address) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p st.shared.u32 [%2], %0; }"
               :: "r"(x), "r"(never), "r"(address) : "memory");
}

// A zero that only the running machine knows: no compiler can share what was computed before it was added with
// what is computed after.
__device__ __forceinline__ unsigned unknown_zero() {
  unsigned size;
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
  return size >> 31;
}

// needs: bits unknown_zero
template <class T>
__device__ __forceinline__ T keep_scalar(T x) { return bits<T>::from(bits<T>::of(x) + unknown_zero()); }

// needs: unpack_words pack_words unknown_zero
template <int N, class T>
__device__ __forceinline__ void keep_words(T* y, const T* x) {
  const unsigned zero = unknown_zero();
  if constexpr (sizeof(T) < 4) {
    unsigned words[N * sizeof(T) / 4];
    pack_words<N>(words, x);
    #pragma unroll
    for (int j = 0; j < N * (int)sizeof(T) / 4; ++j) words[j] += zero;
    unpack_words<N>(y, words);
  } else {
    #pragma unroll
    for (int j = 0; j < N; ++j) y[j] = bits<T>::from(bits<T>::of(x[j]) + zero);
  }
}
