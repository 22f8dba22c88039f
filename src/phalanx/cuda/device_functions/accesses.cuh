/// Loads and stores of vectors: whole, where a condition holds, in part, and from where no vector begins.

// needs: unpack
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

// needs: unpack
template <int N, class T>
__device__ __forceinline__ void store_vector(T* p, const T* x) {
  constexpr int bytes = N * sizeof(T);
  unsigned words[4] = {0, 0, 0, 0};
  pack<N>(words, x);
  if constexpr (bytes == 16) *reinterpret_cast<uint4*>(p) = make_uint4(words[0], words[1], words[2], words[3]);
  else if constexpr (bytes == 8) *reinterpret_cast<uint2*>(p) = make_uint2(words[0], words[1]);
  else if constexpr (bytes == 4) *reinterpret_cast<unsigned*>(p) = words[0];
  else *reinterpret_cast<unsigned short*>(p) = (unsigned short)words[0];
}

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

// 16 bytes that nobody reads again soon, where `inside`: predicated, so that no branch separates loads.
template <int N, class T>
__device__ __forceinline__ void load_words_once(unsigned* words, const T* p, bool inside) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %5, 0;\n"
      "@p ld.global.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];\n"
      "}"
      : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3])
      : "l"(p), "r"((unsigned)inside) : "memory");
}

// needs: unpack load_words_once
template <int N, class T>
__device__ __forceinline__ void load_vector_once(T* x, const T* p, bool inside) {
  unsigned words[4] = {0, 0, 0, 0};
  pack<N>(words, x);
  load_words_once<N>(words, p, inside);
  unpack<N>(x, words);
}

// needs: unpack
template <int N, class T>
__device__ __forceinline__ void store_vector_once(T* p, const T* x, bool inside) {
  unsigned words[4] = {0, 0, 0, 0};
  pack<N>(words, x);
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p st.global.L1::no_allocate.v4.u32 [%4], {%0, %1, %2, %3}; }"
                 :: "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "l"(p), "r"((unsigned)inside) : "memory");
}

// needs: unpack
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

// needs: load_vector fill_vector
// N consecutive elements from index `at` on, of which those in [first, end) are there: whole vectors by one access.
template <int N, class T, class V>
__device__ __forceinline__ void load_part(T* x, const T* p, int at, int first, int end, V fill) {
  if (first <= at && at <= end - N) {
    load_vector<N>(x, p);
  } else {
    fill_vector<N>(x, fill);
    if (at > first - N && at < end) {
      #pragma unroll
      for (int j = 0; j < N; ++j)
        if (j >= first - at && j < end - at) x[j] = p[j];
    }
  }
}

// needs: load_words fill_words
// The same of narrow elements, as words: nothing waits for what a whole vector brings.
template <int N, class T>
__device__ __forceinline__ void load_part_words(unsigned* words, const T* p, int at, int first, int end, T fill) {
  if (first <= at && at <= end - N) {
    load_words<N>(words, p);
  } else {
    fill_words<N, T>(words, fill);
    if (at > first - N && at < end) {
      constexpr int per_word = 4 / sizeof(T), width = 8 * sizeof(T);
      #pragma unroll
      for (int j = 0; j < N; ++j) {
        if (j >= first - at && j < end - at) {
          const unsigned low = j % per_word * width, mask = ((1u << width) - 1) << low;
          words[j / per_word] = (words[j / per_word] & ~mask) | (unsigned)bits<T>::of(p[j]) << low;
        }
      }
    }
  }
}

// 16 bytes of two vectors, from so many bytes of the first one on.
__device__ __forceinline__ void shift_vectors(unsigned (&words)[4], const uint4 a, const uint4 b, unsigned bytes) {
  unsigned u[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  #pragma unroll
  for (int j = 0; j < 6; ++j) u[j] = bytes & 8 ? u[j + 2] : u[j];
  #pragma unroll
  for (int j = 0; j < 5; ++j) u[j] = bytes & 4 ? u[j + 1] : u[j];
  #pragma unroll
  for (int j = 0; j < 4; ++j) words[j] = __funnelshift_r(u[j], u[j + 1], bytes % 4 * 8);
}

// needs: shift_vectors
// 16 bytes of consecutive elements of a shared buffer, which has them all, from p on, which is `shift` elements
// behind a multiple of 16 bytes.
template <class T>
__device__ __forceinline__ void load_shifted_shared(unsigned (&words)[4], const T* p, int shift) {
  const uint4* const q = reinterpret_cast<const uint4*>(p - shift);
  shift_vectors(words, q[0], q[shift != 0], shift * sizeof(T));
}

// needs: unpack shift_vectors
// 16 bytes of consecutive elements from p on, which is `shift` elements behind a multiple of 16 bytes: from the two
// aligned vectors around them, where the row, from `at` elements before p to `end` behind it, has both; else element
// by element.
template <int N, class T>
__device__ __forceinline__ void load_shifted(
    unsigned (&words)[4], const T* p, int shift, int at, int end, T fill) {
  if (at >= shift && end >= 2 * N - shift) {
    const uint4* const q = reinterpret_cast<const uint4*>(p - shift);
    shift_vectors(words, q[0], q[1], shift * sizeof(T));
  } else {
    T x[N];
    #pragma unroll
    for (int j = 0; j < N; ++j) x[j] = j >= -at && j < end ? p[j] : fill;
    words[0] = words[1] = words[2] = words[3] = 0;
    pack<N>(words, x);
  }
}

// needs: load_words pack_words
// N consecutive narrow elements, 4 or 8 bytes, as words, from p on, which is `shift` elements behind a multiple of
// as many bytes: from the two aligned vectors around them, as above.
template <int N, class T, class F>
__device__ __forceinline__ void load_shifted_words(
    unsigned* words, const T* p, int shift, int at, int end, F fill) {
  if (at >= shift && end >= 2 * N - shift) {
    constexpr int count = N * sizeof(T) / 4;
    const unsigned bytes = shift * sizeof(T);
    unsigned u[2 * count];
    load_words<N>(u, p - shift), load_words<N>(u + count, p - shift + N);
    #pragma unroll
    for (int j = 0; j <= count; ++j) u[j] = bytes & 4 ? u[j + count - 1] : u[j];
    #pragma unroll
    for (int j = 0; j < count; ++j) words[j] = __funnelshift_r(u[j], u[j + 1], bytes % 4 * 8);
  } else {
    T x[N];
    #pragma unroll
    for (int j = 0; j < N; ++j) x[j] = j >= -at && j < end ? p[j] : (T)fill;
    pack_words<N>(words, x);
  }
}

// needs: store_vector
// N consecutive elements from index `at` on, of which those in [first, end) are stored.
template <int N, class T>
__device__ __forceinline__ void store_part(T* p, const T* x, int at, int first, int end) {
  if (first <= at && at <= end - N) {
    store_vector<N>(p, x);
  } else if (at > first - N && at < end) {
    #pragma unroll
    for (int j = 0; j < N; ++j)
      if (j >= first - at && j < end - at) p[j] = x[j];
  }
}

// needs: store_vector_once
// N consecutive elements from index `at` on, of which those in [first, end) are stored.
template <int N, class T>
__device__ __forceinline__ void store_part_once(T* p, const T* x, int at, int first, int end) {
  if (first <= at && at <= end - N) {
    store_vector_once<N>(p, x, true);
  } else if (at > first - N && at < end) {
    #pragma unroll
    for (int j = 0; j < N; ++j)
      if (j >= first - at && j < end - at) p[j] = x[j];
  }
}
