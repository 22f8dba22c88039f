// piped_2d(BM=16, BN=16, K=5, STAGES=2, CLUSTER=(2, 2, 1)) for sm_90a, from collective_cases.py:60
// 96 threads, 4128 bytes of shared memory, clusters of 2 x 2 x 1 (set at launch)

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

__device__ __forceinline__ int cluster_ctarank() {
  unsigned value;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(value));
  return (int)value;
}

__device__ __forceinline__ void fence_mbarrier_init_release_cluster() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_cluster_arrive_relaxed_aligned() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

__device__ __forceinline__ void barrier_cluster_wait_acquire_aligned() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// A count that is negative or not below the width leaves copies of the sign; C++ leaves that open.
template <class T>
__device__ __forceinline__ T shift_right(T a, T by) {
  constexpr int width = 8 * sizeof(T);
  return (T)((unsigned long long)by < width ? a >> by : a >> (width - 1) >> 1);
}

__device__ __forceinline__ int cluster_ctaid_x() {
  unsigned value;
  asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(value));
  return (int)value;
}

__device__ __forceinline__ int cluster_ctaid_y() {
  unsigned value;
  asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(value));
  return (int)value;
}

// Signed integers wrap around, as the machine's do; C++ leaves that open.
__device__ __forceinline__ int wrap_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
__device__ __forceinline__ long long wrap_mul(long long a, long long b) {
  return (long long)((unsigned long long)a * (unsigned long long)b);
}

// A count that is negative or not below the width shifts everything out; C++ leaves that open.
template <class T>
__device__ __forceinline__ T shift_left(T a, T by) {
  constexpr int width = 8 * sizeof(T);
  if ((unsigned long long)by >= width) return 0;
  if constexpr (width == 64) return (T)((unsigned long long)a << by);
  else return (T)((unsigned)a << by);
}

// Signed integers wrap around, as the machine's do; C++ leaves that open.
__device__ __forceinline__ int wrap_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
__device__ __forceinline__ long long wrap_add(long long a, long long b) {
  return (long long)((unsigned long long)a + (unsigned long long)b);
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

__device__ __forceinline__ void mbarrier_arrive_expect_tx_shared_cta(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_tensor_2d_shared_global_multicast(
    unsigned dst, const void* map, int c0, int c1, unsigned bar, unsigned short ctas) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
               :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(bar), "h"(ctas) : "memory");
}

__device__ __forceinline__ bool elect_sync() {
  unsigned elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
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

template <int id, int threads>
__device__ __forceinline__ void bar_sync() {
  asm volatile("bar.sync %0, %1;" :: "n"(id), "n"(threads) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive_shared_cluster(unsigned bar) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(bar) : "memory");
}

__device__ __forceinline__ unsigned mapa_shared_cluster(unsigned address, unsigned cta) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(cta));
  return remote;
}

// Sums of indices wrap around: one below 0 or beyond 2^31 is no smaller than any extent.
__device__ __forceinline__ bool inside(unsigned i, int n) { return i < (unsigned)n; }

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

__device__ __forceinline__ void barrier_cluster_arrive_release_aligned() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  unsigned address;
  asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(pointer));
  return address;
}

}  // namespace ptx

extern "C" __global__ void __launch_bounds__(96, 1) piped_2d_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 3> Y,
    const __grid_constant__ px_array<float, 2> Z,
    const __grid_constant__ px_tensor_map X_map,
    const __grid_constant__ px_tensor_map Z_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned pipe_full = px_base + 4096;
  const unsigned pipe_empty = px_base + 4112;
  const unsigned a_addr = px_base;
  const unsigned b_addr = px_base + 2048;
  float* const a = reinterpret_cast<float*>(px_smem);
  float* const b = reinterpret_cast<float*>(px_smem + 2048);
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&X_map);
    ptx::prefetch_tensormap(&Z_map);
  }
  // collective_cases.py:69: pipe = px.pipe(STAGES)
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(pipe_full + 8 * px_i, 1);
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(pipe_empty + 8 * px_i, (0x8 >> ptx::cluster_ctarank() & 1 ? 1 : (0x1 >> ptx::cluster_ctarank() & 1 ? 3 : 2)));
    // collective_cases.py:60: def piped_2d(X, Y, Z, *, CLUSTER, BM=16, BN=16, K=5, STAGES=2):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // collective_cases.py:81: pipe.release()
  const int rank = ptx::cluster_ctarank();
  const int release_ctas = (((ptx::shift_right<int>(2, rank)) & 1) != 0) ? 3 : 1;
  const int release_ctas_1 = (((ptx::shift_right<int>(4, rank)) & 1) != 0) ? 5 : release_ctas;
  const int release_ctas_2 = (((ptx::shift_right<int>(8, rank)) & 1) != 0) ? 14 : release_ctas_1;
  // collective_cases.py:63: x, y = px.cluster.rank(0), px.cluster.rank(1)
  const int rank_x = ptx::cluster_ctaid_x();
  const int rank_y = ptx::cluster_ctaid_y();
  // collective_cases.py:82: number = px.cluster.id() * px.cluster.size() + px.cluster.rank()
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * (((int)blockIdx.y / 2) + ((int)gridDim.y / 2) * (int)blockIdx.z);
  const int rank_1 = ptx::cluster_ctarank();
  // collective_cases.py:65: across = ((1 << wide) - 1) << (wide * y)
  const int across = ptx::shift_left<int>(3, ptx::wrap_mul(2, rank_y));
  // collective_cases.py:68: down = down | 1 << (wide * row + x)
  const int down = 0 | (ptx::shift_left<int>(1, rank_x));
  const int t = ptx::shift_left<int>(1, ptx::wrap_add(2, rank_x));
  const int down_1 = down | t;
  // collective_cases.py:70: with px.warps(0, 1):
  if (px_warp_id == 0) {  // warp 0
    const bool px_one = ptx::elect_sync();
    // collective_cases.py:71: for k in range(K):
    int filling = 0;
    int filling_parity = 0;
    #pragma unroll 1
    for (int k = 0; k < 5; ++k) {
      // collective_cases.py:72: with pipe.produce() as s:
      ptx::mbarrier_wait_parity(pipe_empty + 8 * filling, filling_parity ^ 1);
      __syncwarp();  // all threads have passed the wait at line 72 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(pipe_full + 8 * filling, 2048);
      }
      // collective_cases.py:73: if x == 0:
      if (rank_x == 0) {
        // collective_cases.py:74: px.tma.load(X[y * BM : y * BM + BM, k * BN : k * BN + BN], a[s], pipe.full[s], multicast=across)
        if (px_one) {
          // tensor copy: a box of 16 x 16
          ptx::cp_async_bulk_tensor_2d_shared_global_multicast(a_addr + filling * 1024, &X_map, ptx::wrap_mul(k, 16), ptx::wrap_mul(rank_y, 16), pipe_full + 8 * filling, (unsigned short)across);
        }
      }
      // collective_cases.py:75: if y == 0:
      if (rank_y == 0) {
        // collective_cases.py:76: px.tma.load(Z[x * BM : x * BM + BM, k * BN : k * BN + BN], b[s], pipe.full[s], multicast=down)
        if (px_one) {
          // tensor copy: a box of 16 x 16
          ptx::cp_async_bulk_tensor_2d_shared_global_multicast(b_addr + filling * 1024, &Z_map, ptx::wrap_mul(k, 16), ptx::wrap_mul(rank_x, 16), pipe_full + 8 * filling, (unsigned short)down_1);
        }
      }
      // collective_cases.py:72: with pipe.produce() as s:
      const int t_1 = ptx::wrap_add(filling, 1);
      const bool t_2 = t_1 == 2;
      filling = t_2 ? 0 : t_1;
      filling_parity = filling_parity ^ ((int)t_2);
    }
  } else if (px_warp_id >= 1) {  // warps 1 to 2
    const int px_warp = px_warp_id - 1;
    // collective_cases.py:78: for k in range(K):
    int taking = 0;
    int taking_parity = 0;
    #pragma unroll 1
    for (int k = 0; k < 5; ++k) {
      // collective_cases.py:79: s = pipe.wait()
      ptx::mbarrier_wait_parity(pipe_full + 8 * taking, taking_parity);
      // collective_cases.py:80: tile = px.load(a[s]) + px.load(b[s])
      float t_1[4];
      {
        float* const p = a + taking * 256 + px_lane * 4 + px_warp * 128;
        ptx::load_vector<4>(t_1, p);
      }
      float t_2[4];
      {
        float* const p = b + taking * 256 + px_lane * 4 + px_warp * 128;
        ptx::load_vector<4>(t_2, p);
      }
      float tile[4];
      #pragma unroll
      for (int i = 0; i < 4; ++i) tile[i] = t_1[i] + t_2[i];
      // collective_cases.py:81: pipe.release()
      ptx::bar_sync<1, 64>();  // all threads have passed the wait at line 79 before the elected thread goes on
      if (px_warp_id == 1 && ((unsigned)release_ctas_2 >> px_lane & 1)) ptx::mbarrier_arrive_shared_cluster(ptx::mapa_shared_cluster(pipe_empty + 8 * taking, px_lane));
      const int t_3 = ptx::wrap_add(taking, 1);
      const bool t_4 = t_3 == 2;
      // collective_cases.py:82: number = px.cluster.id() * px.cluster.size() + px.cluster.rank()
      const int number = ptx::wrap_add(ptx::wrap_mul(cluster, 4), rank_1);
      // collective_cases.py:83: px.store(Y[number, 0:BM, k * BN : k * BN + BN], tile)
      {
        const int x1 = (px_lane >> 2) + px_warp * 8;
        const int x2 = ptx::wrap_mul(k, 16) + (px_lane & 3) * 4;
        float* const p = Y.data + (number * Y.stride[0] + x1 * Y.stride[1] + x2);
        if (ptx::inside(number, Y.shape[0]) && ptx::inside(x1, Y.shape[1]) && ptx::inside(x2, Y.shape[2])) ptx::store_vector<4>(p, tile);
      }
      taking = t_4 ? 0 : t_3;
      taking_parity = taking_parity ^ ((int)t_4);
    }
  }
  // collective_cases.py:60: def piped_2d(X, Y, Z, *, CLUSTER, BM=16, BN=16, K=5, STAGES=2):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
