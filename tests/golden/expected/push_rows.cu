// parts(BM=24, BN=64, R=4, H=32, CLUSTER=(2, 1, 1)) for sm_90a, from cluster_cases.py:78
// 128 threads, 44560 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

namespace ptx {

__device__ __forceinline__ void mbarrier_init_shared_cta(unsigned bar, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}

__device__ __forceinline__ void fence_mbarrier_init_release_cluster() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_cluster_arrive_relaxed_aligned() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ int cluster_ctarank() {
  unsigned value;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(value));
  return (int)value;
}

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

template <int N, class T, class V>
__device__ __forceinline__ void fill_vector(T* x, V value) {
  #pragma unroll
  for (int j = 0; j < N; ++j) x[j] = (T)value;
}

__device__ __forceinline__ void barrier_cluster_wait_acquire_aligned() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
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

__device__ __forceinline__ void fence_proxy_async_shared_cta() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive_expect_tx_shared_cta(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}

// A count that is negative or not below the width shifts everything out; C++ leaves that open.
template <class T>
__device__ __forceinline__ T shift_left(T a, T by) {
  constexpr int width = 8 * sizeof(T);
  if ((unsigned long long)by >= width) return 0;
  if constexpr (width == 64) return (T)((unsigned long long)a << by);
  else return (T)((unsigned)a << by);
}

__device__ __forceinline__ void cp_async_bulk_shared_shared(
    unsigned dst, unsigned src, unsigned bytes, unsigned bar) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(dst), "r"(src), "r"(bytes), "r"(bar) : "memory");
}

__device__ __forceinline__ unsigned mapa_shared_cluster(unsigned address, unsigned cta) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(cta));
  return remote;
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

__device__ __forceinline__ void barrier_cluster_arrive_release_aligned() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ bool elect_sync() {
  unsigned elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  unsigned address;
  asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(pointer));
  return address;
}

}  // namespace ptx

extern "C" __global__ void __launch_bounds__(128, 1) parts_kernel(
    const __grid_constant__ px_array<float, 3> X,
    const __grid_constant__ px_array<float, 3> Y) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned full = px_base + 44544;
  float* const mine = reinterpret_cast<float*>(px_smem);
  const unsigned mine_addr = px_base;
  const unsigned inbox_addr = px_base + 12288;
  float* const inbox = reinterpret_cast<float*>(px_smem + 12288);
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  // cluster_cases.py:83: full = px.barrier()
  if (px_one) {
    ptx::mbarrier_init_shared_cta(full, 1);
    // cluster_cases.py:78: def parts(X, Y, *, CLUSTER, BM=24, BN=64, R=4, H=32):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // cluster_cases.py:81: me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int rank = ptx::cluster_ctarank();
  const int me = ptx::wrap_add(ptx::wrap_mul(cluster, 2), rank);
  const int to = ptx::wrap_add(rank, 1) & 1;
  // cluster_cases.py:85: px.store(mine[half], px.load(X[me, half * BM : half * BM + BM, 0:BN]))
  float t[12];
  {
    const int x1 = (px_lane >> 4) + px_warp_id * 2;
    const int x2 = (px_lane & 15) * 4;
    float* const p = X.data + (me * X.stride[0] + x1 * X.stride[1] + x2);
    #pragma unroll
    for (int i = 0; i < 12; i += 4) {
      if (ptx::inside(me, X.shape[0]) && ptx::inside(x1 + (i >> 2) * 8, X.shape[1]) && ptx::inside(x2, X.shape[2])) ptx::load_vector<4>(t + i, p + (i >> 2) * 8 * X.stride[1]);
      else ptx::fill_vector<4>(t + i, 0.0f);
    }
  }
  // cluster_cases.py:78: def parts(X, Y, *, CLUSTER, BM=24, BN=64, R=4, H=32):
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // cluster_cases.py:85: px.store(mine[half], px.load(X[me, half * BM : half * BM + BM, 0:BN]))
  {
    float* const p = mine + px_lane * 4 + px_warp_id * 128;
    #pragma unroll
    for (int i = 0; i < 12; i += 4) {
      ptx::store_vector<4>(p + (i >> 2) * 512, t + i);
    }
  }
  float t_1[12];
  {
    const int x1 = 24 + (px_lane >> 4) + px_warp_id * 2;
    const int x2 = (px_lane & 15) * 4;
    float* const p = X.data + (me * X.stride[0] + x1 * X.stride[1] + x2);
    #pragma unroll
    for (int i = 0; i < 12; i += 4) {
      if (ptx::inside(me, X.shape[0]) && ptx::inside(x1 + (i >> 2) * 8, X.shape[1]) && ptx::inside(x2, X.shape[2])) ptx::load_vector<4>(t_1 + i, p + (i >> 2) * 8 * X.stride[1]);
      else ptx::fill_vector<4>(t_1 + i, 0.0f);
    }
  }
  {
    float* const p = mine + px_lane * 4 + px_warp_id * 128;
    #pragma unroll
    for (int i = 0; i < 12; i += 4) {
      ptx::store_vector<4>(p + ((((i >> 2) & 1) * 3584) ^ ((i >> 3) * 3072) ^ 1536), t_1 + i);
    }
  }
  // cluster_cases.py:86: px.fence.async_proxy()
  ptx::fence_proxy_async_shared_cta();
  // cluster_cases.py:87: with full.transaction():
  __syncthreads();  // all threads are done with mine at line 85 before the elected thread arrives
  if (px_one) {
    ptx::mbarrier_arrive_expect_tx_shared_cta(full, 6144);
  }
  // cluster_cases.py:88: px.cluster.copy(mine[:, :, 0:H], inbox[1:3, R : R + BM, H : 2 * H], full, cta=to)
  // bulk rows: 48 contiguous runs of 128 bytes
  if (px_warp_id == 0) {
    __syncwarp();
    const unsigned there_bar = ptx::mapa_shared_cluster(full, to);
    const unsigned here = mine_addr;
    const unsigned there = ptx::mapa_shared_cluster(inbox_addr + 12416, to);
    for (int i = px_lane; i < 48; i += 32) {
      ptx::cp_async_bulk_shared_shared(there + (i / 24) * 10752 + (i % 24) * 384, here + (i / 24) * 6144 + (i % 24) * 256, 128, there_bar);
    }
    __syncwarp();
  }
  // cluster_cases.py:89: full.wait(0)
  ptx::mbarrier_wait_parity(full, 0);
  // cluster_cases.py:91: px.store(Y[me, half * BM : half * BM + BM, 0:H], px.load(inbox[1 + half, R : R + BM, H : 2 * H]))
  float t_2[8];
  {
    float* const p = inbox + ((px_lane >> 3) + px_warp_id * 4) * 96 + (px_lane & 7) * 4;
    #pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const int c0 = (px_lane >> 3) + px_warp_id * 4;
      if (c0 + (i >> 2) * 16 < 24) ptx::load_vector<4>(t_2 + i, p + (((i >> 2) * 7680) ^ 3104));
    }
  }
  {
    const int c0 = (px_lane >> 3) + px_warp_id * 4;
    const int x2 = (px_lane & 7) * 4;
    float* const p = Y.data + (me * Y.stride[0] + c0 * Y.stride[1] + x2);
    #pragma unroll
    for (int i = 0; i < 8; i += 4) {
      ptx::store_vector_if<4>(p + (i >> 2) * 16 * Y.stride[1], t_2 + i, (c0 + (i >> 2) * 16 < 24) & ptx::inside(me, Y.shape[0]) & ptx::inside(c0 + (i >> 2) * 16, Y.shape[1]) & ptx::inside(x2, Y.shape[2]));
    }
  }
  float t_3[8];
  {
    float* const p = inbox + ((px_lane >> 3) + px_warp_id * 4) * 96 + (px_lane & 7) * 4;
    #pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const int c0 = (px_lane >> 3) + px_warp_id * 4;
      if (c0 + (i >> 2) * 16 < 24) ptx::load_vector<4>(t_3 + i, p + (((i >> 2) * 2560) ^ 5792));
    }
  }
  {
    const int c0 = (px_lane >> 3) + px_warp_id * 4;
    const int x1 = 24 + c0;
    const int x2 = (px_lane & 7) * 4;
    float* const p = Y.data + (me * Y.stride[0] + x1 * Y.stride[1] + x2);
    #pragma unroll
    for (int i = 0; i < 8; i += 4) {
      ptx::store_vector_if<4>(p + (i >> 2) * 16 * Y.stride[1], t_3 + i, (c0 + (i >> 2) * 16 < 24) & ptx::inside(me, Y.shape[0]) & ptx::inside(x1 + (i >> 2) * 16, Y.shape[1]) & ptx::inside(x2, Y.shape[2]));
    }
  }
  // cluster_cases.py:78: def parts(X, Y, *, CLUSTER, BM=24, BN=64, R=4, H=32):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
