/// Shared memory of other CTAs of the cluster.

__device__ __forceinline__ unsigned mapa_shared_cluster(unsigned address, unsigned cta) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(cta));
  return remote;
}

// needs: unpack
// N consecutive elements of a peer's shared memory.
template <int N, class T>
__device__ __forceinline__ void load_remote(T* x, unsigned address) {
  constexpr int bytes = N * sizeof(T);
  unsigned words[4] = {0, 0, 0, 0};
  if constexpr (bytes == 16) {
    asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(address) : "memory");
  } else if constexpr (bytes == 8) {
    asm volatile("ld.shared::cluster.v2.b32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "r"(address) : "memory");
  } else if constexpr (bytes == 4) {
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(words[0]) : "r"(address) : "memory");
  } else if constexpr (bytes == 2) {
    unsigned short half;
    asm volatile("ld.shared::cluster.b16 %0, [%1];" : "=h"(half) : "r"(address) : "memory");
    words[0] = half;
  } else if constexpr (bytes == 1) {
    asm volatile("ld.shared::cluster.b8 %0, [%1];" : "=r"(words[0]) : "r"(address) : "memory");
  }
  unpack<N>(x, words);
}

// needs: unpack
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

// needs: unpack
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
