// softmax(N=256, ROWS=3, CLUSTER=(4, 1, 1)) for sm_90a, from cluster_cases.py:229
// 128 threads, 176 bytes of shared memory, clusters of 4 x 1 x 1 (set at launch)

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

__device__ __forceinline__ void barrier_cluster_wait_acquire_aligned() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
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

__device__ __forceinline__ void mbarrier_arrive_expect_tx_shared_cta(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ unsigned mapa_shared_cluster(unsigned address, unsigned cta) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(cta));
  return remote;
}

// N consecutive elements into a peer's shared memory; their bytes complete on its barrier.
template <int N, class T>
__device__ __forceinline__ void st_async(unsigned address, const T* x, unsigned bar) {
  constexpr int bytes = N * sizeof(T);
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "st.async");
  unsigned words[4] = {0, 0, 0, 0};
  pack<N>(words, x);
  if constexpr (bytes == 16) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
                 :: "r"(address), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(bar) : "memory");
  } else if constexpr (bytes == 8) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];"
                 :: "r"(address), "r"(words[0]), "r"(words[1]), "r"(bar) : "memory");
  } else if constexpr (bytes == 4) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                 :: "r"(address), "r"(words[0]), "r"(bar) : "memory");
  }
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

template <class T>
__device__ __forceinline__ T shuffle_xor(T x, int mask) {
  const unsigned long long b = bits<T>::of(x);
  unsigned long long got = (unsigned)__shfl_xor_sync(0xffffffffu, (unsigned)b, mask);
  if constexpr (sizeof(T) == 8)
    got |= (unsigned long long)__shfl_xor_sync(0xffffffffu, (unsigned)(b >> 32), mask) << 32;
  return bits<T>::from(got);
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

extern "C" __global__ void __launch_bounds__(128, 1) softmax_kernel(
    const __grid_constant__ px_array<float, 3> X,
    const __grid_constant__ px_array<float, 3> Y) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned reduce_full = px_base + 160;
  unsigned turn = 0;  // exchanges over the cluster so far
  const unsigned reduce_inbox_addr = px_base;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  // cluster_cases.py:235: top = px.cluster.reduce(px.max(x), "max")
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(reduce_full + 8 * px_i, 1);
    // cluster_cases.py:229: def softmax(X, Y, *, CLUSTER, N=256, ROWS=3):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
  // cluster_cases.py:232: me = px.cluster.id() * size + px.cluster.rank()
  const int cluster = (int)blockIdx.x / 4 + ((int)gridDim.x / 4) * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int rank = ptx::cluster_ctarank();
  const int me = ptx::wrap_add(ptx::wrap_mul(cluster, 4), rank);
  // cluster_cases.py:233: for row in range(ROWS):
  #pragma unroll 1
  for (int row = 0; row < 3; ++row) {
    // cluster_cases.py:234: x = px.load(X[me, row, 0:N])
    float x[2];
    {
      const int x2 = px_lane * 2 + px_warp_id * 64;
      float* const p = X.data + (me * X.stride[0] + row * X.stride[1] + x2);
      if (ptx::inside(me, X.shape[0]) && ptx::inside(row, X.shape[1]) && ptx::inside(x2, X.shape[2])) ptx::load_vector<2>(x, p);
      else ptx::fill_vector<2>(x, 0.0f);
    }
    // cluster_cases.py:235: top = px.cluster.reduce(px.max(x), "max")
    float x_max[1];
    {
      x_max[0] = __int_as_float(0xff800000);
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        x_max[0] = ptx::max_NaN_f32(x_max[0], x[i]);
      }
      x_max[0] = ptx::warp_max(x_max[0]);
    }
    const float t = x_max[0];
    float top;
    {
      // max over the cluster: each warp sends its partial result to every CTA
      const unsigned inbox_bar = reduce_full + 8 * (turn & 1);
      const unsigned inbox = reduce_inbox_addr + 80 * (turn & 1);
      __syncwarp();  // this warp has read its inboxes of the turn before
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(inbox_bar, 64);
      }
      if (px_lane < 4) {
        const float value = t;
        ptx::st_async<1>(ptx::mapa_shared_cluster(inbox + ptx::cluster_ctarank() * 16 + px_warp_id * 4, px_lane), &value, ptx::mapa_shared_cluster(inbox_bar, px_lane));
      }
      ptx::mbarrier_wait_parity(inbox_bar, turn >> 1 & 1);
      const unsigned char* const received = px_smem + (inbox - px_base);
      float parts[16];
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        ptx::load_vector<4>(parts + i, (reinterpret_cast<const float*>(received)) + i);
      }
      float total = parts[0];
      #pragma unroll
      for (int j = 1; j < 16; ++j) total = ptx::max_NaN_f32(total, parts[j]);
      top = total;
      ++turn;
    }
    // cluster_cases.py:236: e = px.exp(x - top)
    float t_1[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) t_1[i] = x[i] - top;
    float e[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) e[i] = expf(t_1[i]);
    // cluster_cases.py:237: px.store(Y[me, row, 0:N], e / px.cluster.reduce(px.sum(e), "sum"))
    float e_sum[1];
    {
      e_sum[0] = 0.0f;
      #pragma unroll
      for (int i = 0; i < 2; ++i) {
        e_sum[0] = e_sum[0] + e[i];
      }
      #pragma unroll
      for (int mask = 1; mask <= 16; mask *= 2) {
        e_sum[0] = e_sum[0] + ptx::shuffle_xor(e_sum[0], mask);
      }
    }
    const float t_2 = e_sum[0];
    float t_3;
    {
      // sum over the cluster: each warp sends its partial result to every CTA
      const unsigned inbox_bar = reduce_full + 8 * (turn & 1);
      const unsigned inbox = reduce_inbox_addr + 80 * (turn & 1);
      __syncwarp();  // this warp has read its inboxes of the turn before
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(inbox_bar, 64);
      }
      if (px_lane < 4) {
        const float value = t_2;
        ptx::st_async<1>(ptx::mapa_shared_cluster(inbox + ptx::cluster_ctarank() * 16 + px_warp_id * 4, px_lane), &value, ptx::mapa_shared_cluster(inbox_bar, px_lane));
      }
      ptx::mbarrier_wait_parity(inbox_bar, turn >> 1 & 1);
      const unsigned char* const received = px_smem + (inbox - px_base);
      float parts[16];
      #pragma unroll
      for (int i = 0; i < 16; i += 4) {
        ptx::load_vector<4>(parts + i, (reinterpret_cast<const float*>(received)) + i);
      }
      float total = parts[0];
      #pragma unroll
      for (int j = 1; j < 16; ++j) total = total + parts[j];
      t_3 = total;
      ++turn;
    }
    float t_4[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) t_4[i] = e[i] / t_3;
    {
      const int x2 = px_lane * 2 + px_warp_id * 64;
      float* const p = Y.data + (me * Y.stride[0] + row * Y.stride[1] + x2);
      if (ptx::inside(me, Y.shape[0]) && ptx::inside(row, Y.shape[1]) && ptx::inside(x2, Y.shape[2])) ptx::store_vector<2>(p, t_4);
    }
  }
  // cluster_cases.py:229: def softmax(X, Y, *, CLUSTER, N=256, ROWS=3):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_relaxed_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
