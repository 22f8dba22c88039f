// three_roles(BM=64, BN=64) for sm_90a, from kernels.py:93
// 384 threads, 32784 bytes of shared memory

template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

struct alignas(128) px_tensor_map { unsigned long long opaque[16]; };

namespace ptx {

__device__ __forceinline__ void prefetch_tensormap(const void* map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}

__device__ __forceinline__ void mbarrier_init_shared_cta(unsigned bar, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}

__device__ __forceinline__ void fence_mbarrier_init_release_cluster() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Signed integers wrap around, as the machine's do; C++ leaves that open.
__device__ __forceinline__ int wrap_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
__device__ __forceinline__ long long wrap_mul(long long a, long long b) {
  return (long long)((unsigned long long)a * (unsigned long long)b);
}

template <int registers>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(registers));
}

__device__ __forceinline__ void mbarrier_arrive_expect_tx_shared_cta(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_tensor_2d_shared_global(
    unsigned dst, const void* map, int c0, int c1, unsigned bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(bar) : "memory");
}

__device__ __forceinline__ bool elect_sync() {
  unsigned elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

template <int registers>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(registers));
}

__device__ __forceinline__ bool mbarrier_try_wait_parity_shared_cta(unsigned bar, unsigned parity) {
  unsigned done;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  return done != 0;
}

__device__ __forceinline__ void mbarrier_wait_parity(unsigned bar, unsigned parity) {
  while (!mbarrier_try_wait_parity_shared_cta(bar, parity)) {}
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

__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

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

template <int id, int threads>
__device__ __forceinline__ void bar_sync() {
  asm volatile("bar.sync %0, %1;" :: "n"(id), "n"(threads) : "memory");
}

// Sums of indices wrap around: one below 0 or beyond 2^31 is no smaller than any extent.
__device__ __forceinline__ bool inside(unsigned i, int n) { return i < (unsigned)n; }

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

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  unsigned address;
  asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(pointer));
  return address;
}

}  // namespace ptx

extern "C" __global__ void __launch_bounds__(384, 1) three_roles_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 2> Y,
    const __grid_constant__ px_tensor_map X_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned full = px_base + 32768;
  const unsigned s_addr = px_base;
  float* const s = reinterpret_cast<float*>(px_smem);
  float* const t_2 = reinterpret_cast<float*>(px_smem + 16384);
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&X_map);
  }
  // kernels.py:97: full = px.barrier(2, count=1)
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(full + 8 * px_i, 1);
    // kernels.py:93: def three_roles(X, Y, *, BM=64, BN=64):
    ptx::fence_mbarrier_init_release_cluster();
  }
  __syncthreads();  // barriers are initialised before their first use
  // kernels.py:98: m = px.block_id(0) * BM
  const int block_x = (int)blockIdx.x;
  const int m = ptx::wrap_mul(block_x, 64);
  // kernels.py:99: with px.warps(0, 4, regs=40):
  if (px_warp_id < 4) {  // warps 0 to 3
    const bool px_one = ptx::elect_sync();
    ptx::setmaxnreg_dec<40>();
    if (px_warp_id == 0) {
      // kernels.py:100: full[0].arrive_and_expect_tx(s.nbytes)
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(full, 16384);
        // kernels.py:101: px.tma.load(X[m : m + BM, 0:BN], s, full[0])
        // tensor copy: a box of 64 x 64
        ptx::cp_async_bulk_tensor_2d_shared_global(s_addr, &X_map, 0, m, full);
      }
    }
  } else if (px_warp_id >= 4) {  // warps 4 to 11
    const int px_warp = px_warp_id - 4;
    ptx::setmaxnreg_inc<232>();
    // kernels.py:103: full[0].wait(0)
    ptx::mbarrier_wait_parity(full, 0);
    // kernels.py:104: px.store(t, px.exp2(px.load(s)))
    float t[16];
    {
      float* const p = s + px_lane * 4 + px_warp * 128;
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        ptx::load_vector<4>(t + i, p + (i >> 2) * 1024);
      }
    }
    float t_1[16];
    #pragma unroll
    for (int i = 0; i < 16; ++i) t_1[i] = ptx::exp2_approx(t[i]);
    {
      float* const p = t_2 + px_lane * 4 + px_warp * 128;
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        ptx::store_vector<4>(p + (i >> 2) * 1024, t_1 + i);
      }
    }
    // kernels.py:105: px.store(Y[m : m + BM, 0:BN], px.load(t.T).T)
    ptx::bar_sync<1, 256>();  // t was written at line 104 before t is read
    float t_3[16];
    {
      float* const p = t_2 + px_lane * 4 + px_warp * 128;
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        ptx::load_vector<4>(t_3 + i, p + (i >> 2) * 1024);
      }
    }
    float t_4[16];
    #pragma unroll
    for (int i = 0; i < 16; ++i) t_4[i] = t_3[i];
    {
      const unsigned x0 = (unsigned)m + (px_lane >> 4) + px_warp * 2;
      const int x1 = (px_lane & 15) * 4;
      float* const p = Y.data + ((int)x0 * Y.stride[0] + x1);
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        ptx::store_vector_if<4>(p + (i >> 2) * 16 * Y.stride[0], t_4 + i, ptx::inside(x0 + (i >> 2) * 16, Y.shape[0]) & ptx::inside(x1, Y.shape[1]));
      }
    }
  }
}
