// exchange(BM=32, BN=64) for sm_90a, from cluster_exchange.py:10
// 128 threads, 8192 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

namespace ptx {

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

// Sums of indices wrap around: one below 0 or beyond 2^31 is no smaller than any extent.
__device__ __forceinline__ bool inside(unsigned i, int n) { return i < (unsigned)n; }

__device__ __forceinline__ void barrier_cluster_arrive_release_aligned() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void barrier_cluster_wait_acquire_aligned() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ unsigned mapa_shared_cluster(unsigned address, unsigned cta) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(cta));
  return remote;
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

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  unsigned address;
  asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(pointer));
  return address;
}

}  // namespace ptx

extern "C" __global__ void __launch_bounds__(128, 1) exchange_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 2> Y) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned inbox_addr = px_base;
  float* const inbox = reinterpret_cast<float*>(px_smem);
  // cluster_exchange.py:11: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int block_x = (int)blockIdx.x;
  const int block_y = (int)blockIdx.y;
  // cluster_exchange.py:12: rank = px.cluster.rank()
  const int rank = ptx::cluster_ctarank();
  // cluster_exchange.py:11: m, n = px.block_id(0) * BM, px.block_id(1) * BN
  const int m = ptx::wrap_mul(block_x, 32);
  const int n = ptx::wrap_mul(block_y, 64);
  // cluster_exchange.py:14: mine = px.load(X[m : m + BM, n : n + BN])
  float mine[16];
  {
    const unsigned x0 = (unsigned)m + px_warp_id;
    const unsigned x1 = (unsigned)n + px_lane;
    float* const p = X.data + ((int)x0 * X.stride[0] + (int)x1);
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
      mine[i] = ptx::inside(x0 + (i >> 1) * 4, X.shape[0]) && ptx::inside(x1 + (i & 1) * 32, X.shape[1]) ? *(p + (i >> 1) * 4 * X.stride[0] + (i & 1) * 32) : 0.0f;
    }
  }
  // cluster_exchange.py:15: px.cluster.sync()  # the neighbour has started: its shared memory exists
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // cluster_exchange.py:16: px.store(inbox.at(rank ^ 1), mine)
  {
    const unsigned a = ptx::mapa_shared_cluster(inbox_addr, (rank ^ 1)) + 4 * (px_lane + px_warp_id * 64);
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
      ptx::store_remote<1>(a + 4 * ((i & 1) * 32 + (i >> 1) * 256), mine + i);
    }
  }
  // cluster_exchange.py:17: px.cluster.sync()  # both tiles have arrived
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // cluster_exchange.py:18: theirs = px.load(inbox)
  float theirs[16];
  {
    float* const p = inbox + px_lane + px_warp_id * 64;
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
      theirs[i] = *(p + (i & 1) * 32 + (i >> 1) * 256);
    }
  }
  // cluster_exchange.py:19: px.store(Y[m : m + BM, n : n + BN], mine + theirs)
  float t[16];
  #pragma unroll
  for (int i = 0; i < 16; ++i) t[i] = mine[i] + theirs[i];
  {
    const unsigned x0 = (unsigned)m + px_warp_id;
    const unsigned x1 = (unsigned)n + px_lane;
    float* const p = Y.data + ((int)x0 * Y.stride[0] + (int)x1);
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
      if (ptx::inside(x0 + (i >> 1) * 4, Y.shape[0]) && ptx::inside(x1 + (i & 1) * 32, Y.shape[1])) *(p + (i >> 1) * 4 * Y.stride[0] + (i & 1) * 32) = t[i];
    }
  }
  // cluster_exchange.py:10: def exchange(X, Y, *, BM=32, BN=64):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
