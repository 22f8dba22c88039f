// transposed(BM=16, BN=32, CLUSTER=(2, 1, 1)) for sm_90a, from cluster_cases.py:110
// 64 threads, 2064 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

typedef unsigned short px_f16;
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

__device__ __forceinline__ void barrier_cluster_wait_acquire_aligned() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
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

__device__ __forceinline__ unsigned mapa_shared_cluster(unsigned address, unsigned cta) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(cta));
  return remote;
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

template <int N, class T>
__device__ __forceinline__ void store_remote(unsigned address, const T* x) {
  constexpr int bytes = N * sizeof(T);
  unsigned words[4] = {0, 0, 0, 0};
  pack<N>(words, x);
  if constexpr (bytes == 16) {
    asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" :: "r"(address), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]) : "memory");
  } else if constexpr (bytes == 8) {
    asm volatile("st.shared::cluster.v2.b32 [%0], {%1, %2};" :: "r"(address), "r"(words[0]), "r"(words[1]) : "memory");
  } else if constexpr (bytes == 4) {
    asm volatile("st.shared::cluster.b32 [%0], %1;" :: "r"(address), "r"(words[0]) : "memory");
  } else if constexpr (bytes == 2) {
    asm volatile("st.shared::cluster.b16 [%0], %1;" :: "r"(address), "h"((unsigned short)words[0]) : "memory");
  } else if constexpr (bytes == 1) {
    asm volatile("st.shared::cluster.b8 [%0], %1;" :: "r"(address), "r"(words[0]) : "memory");
  }
}

__device__ __forceinline__ void fence_acq_rel_cluster() {
  asm volatile("fence.acq_rel.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_complete_tx_relaxed_cluster_shared_cluster(
    unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;"
               :: "r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ bool mbarrier_try_wait_parity_acquire_cluster_shared_cta(
    unsigned bar, unsigned parity) {
  unsigned done;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  return done != 0;
}

__device__ __forceinline__ void mbarrier_wait_parity_acquire_cluster(unsigned bar, unsigned parity) {
  while (!mbarrier_try_wait_parity_acquire_cluster_shared_cta(bar, parity)) {}
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

extern "C" __global__ void __launch_bounds__(64, 1) transposed_kernel(
    const __grid_constant__ px_array<px_f16, 3> X,
    const __grid_constant__ px_array<px_f16, 3> Y) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned full = px_base + 2048;
  px_f16* const mine = reinterpret_cast<px_f16*>(px_smem);
  const unsigned inbox_addr = px_base + 1024;
  px_f16* const inbox = reinterpret_cast<px_f16*>(px_smem + 1024);
  const int px_thread = (int)threadIdx.x;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  // cluster_cases.py:115: full = px.barrier()
  if (px_one) {
    ptx::mbarrier_init_shared_cta(full, 1);
    // cluster_cases.py:110: def transposed(X, Y, *, CLUSTER, BM=16, BN=32):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // cluster_cases.py:113: me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int rank = ptx::cluster_ctarank();
  const int me = ptx::wrap_add(ptx::wrap_mul(cluster, 2), rank);
  const int to = ptx::wrap_add(rank, 1) & 1;
  // cluster_cases.py:116: px.store(mine, px.load(X[me, 0:BM, 0:BN]))
  px_f16 t[8];
  {
    const int x1 = (px_lane >> 2) + px_warp_id * 8;
    const int x2 = (px_lane & 3) * 8;
    px_f16* const p = X.data + (me * X.stride[0] + x1 * X.stride[1] + x2);
    unsigned words[4];
    if (ptx::inside(me, X.shape[0]) && ptx::inside(x1, X.shape[1]) && ptx::inside(x2, X.shape[2])) ptx::load_words<8>(words, p);
    else ptx::fill_words<8, px_f16>(words, (px_f16)0x0000);
    ptx::unpack_words<8>(t, words);
  }
  // cluster_cases.py:110: def transposed(X, Y, *, CLUSTER, BM=16, BN=32):
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // cluster_cases.py:116: px.store(mine, px.load(X[me, 0:BM, 0:BN]))
  {
    px_f16* const p = mine + px_lane * 8 + px_warp_id * 256;
    ptx::store_vector<8>(p, t);
  }
  // cluster_cases.py:117: px.fence.async_proxy()
  ptx::fence_proxy_async_shared_cta();
  // cluster_cases.py:118: with full.transaction():
  __syncthreads();  // all threads are done with mine at line 116 before the elected thread arrives
  if (px_one) {
    ptx::mbarrier_arrive_expect_tx_shared_cta(full, 1024);
  }
  // cluster_cases.py:119: px.cluster.copy(mine, inbox.T, full, cta=to)
  // stores: a row is not contiguous in both: one of them is transposed; 2 bytes at a time, too few for st.async: a fence and a credit of 1024 bytes follow
  __syncthreads();  // all threads take part in the push
  {
    const unsigned there_bar = ptx::mapa_shared_cluster(full, to);
    const unsigned there = ptx::mapa_shared_cluster(inbox_addr, to);
    for (int i = px_thread; i < 512; i += 64) {
      const unsigned from = (i / 32) * 64 + (i % 32) * 2;
      const unsigned to_1 = (i % 32) * 32 + (i / 32) * 2;
      px_f16 piece[1];
      ptx::load_vector<1>(piece, reinterpret_cast<const px_f16*>(px_smem + 0 + (from)));
      ptx::store_remote<1>(there + (to_1), piece);
    }
    __syncthreads();  // all threads have stored
    if (px_one) {
      ptx::fence_acq_rel_cluster();
      ptx::mbarrier_complete_tx_relaxed_cluster_shared_cluster(there_bar, 1024);
    }
  }
  // cluster_cases.py:120: full.wait(0)
  ptx::mbarrier_wait_parity_acquire_cluster(full, 0);
  // cluster_cases.py:121: px.store(Y[me, 0:BN, 0:BM], px.load(inbox))
  px_f16 t_1[8];
  {
    px_f16* const p = inbox + px_lane * 8 + px_warp_id * 256;
    ptx::load_vector<8>(t_1, p);
  }
  {
    const int x1 = (px_lane >> 1) + px_warp_id * 16;
    const int x2 = (px_lane & 1) * 8;
    px_f16* const p = Y.data + (me * Y.stride[0] + x1 * Y.stride[1] + x2);
    if (ptx::inside(me, Y.shape[0]) && ptx::inside(x1, Y.shape[1]) && ptx::inside(x2, Y.shape[2])) ptx::store_vector<8>(p, t_1);
  }
  // cluster_cases.py:110: def transposed(X, Y, *, CLUSTER, BM=16, BN=32):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
