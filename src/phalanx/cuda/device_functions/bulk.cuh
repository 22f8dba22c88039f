/// Plain bulk copies of a run of elements. The hardware knows no array bounds here, so these functions do.
///
/// `start` is the index of the run's first element in a row of `size` elements, `n` the run's length. The part inside
/// the row is copied in whole 16-byte pieces; the rest, less than 16 bytes of data and what lies outside, is done by
/// ordinary accesses.

// The elements [first, last) of a run lie inside the row; up to `whole` they are whole 16-byte pieces.
template <class T>
struct px_inside {
  int first, last, whole;
  __device__ __forceinline__ px_inside(int start, int size, int n) {
    const long long left = (long long)size - start;
    first = start < 0 ? (start > -n ? -start : n) : 0;
    last = left < first ? first : left < n ? (int)left : n;
    whole = first + (last - first) * (int)sizeof(T) / 16 * 16 / (int)sizeof(T);
  }
};

// Zeros in place of the elements [i, end) of a run that begins at a multiple of 16 bytes.
template <class T>
__device__ __forceinline__ void bulk_zeros(T* dst, int i, int end) {
  constexpr int vector = 16 / (int)sizeof(T);
  for (; i < end && i % vector != 0; ++i) dst[i] = T(0);
  for (; i + vector <= end; i += vector) *reinterpret_cast<uint4*>(dst + i) = make_uint4(0, 0, 0, 0);
  for (; i < end; ++i) dst[i] = T(0);
}

// What a bulk copy to several CTAs leaves of a run, stored in one of them: the bytes [whole, last), and zeros for
// those outside [first, last).
__device__ __forceinline__ void bulk_spread_rest(unsigned there, const unsigned char* src, unsigned first,
                                                 unsigned whole, unsigned last, unsigned n) {
  for (unsigned at = first != 0 ? 0 : whole; at < n;) {
    if (at == first && whole > first) {
      at = whole;
    } else if (at % 16 == 0 && at + 16 <= n && (at + 16 <= first || at >= last)) {
      asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %1, %1, %1};" :: "r"(there + at), "r"(0) : "memory");
      at += 16;
    } else {
      const unsigned byte = at >= whole && at < last ? src[at] : 0;
      asm volatile("st.shared::cluster.b8 [%0], %1;" :: "r"(there + at), "r"(byte) : "memory");
      ++at;
    }
  }
}

__device__ __forceinline__ void fence_proxy_async_shared_cta() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void fence_proxy_async_shared_cluster() {
  asm volatile("fence.proxy.async.shared::cluster;" ::: "memory");
}

__device__ __forceinline__ void fence_acq_rel_cluster() {
  asm volatile("fence.acq_rel.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_complete_tx_relaxed_cta_shared_cta(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}

/// The credit of bytes to a barrier of a peer, for what ordinary stores have written.
__device__ __forceinline__ void mbarrier_complete_tx_relaxed_cluster_shared_cluster(
    unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;"
               :: "r"(bar), "r"(bytes) : "memory");
}

/// One bulk copy of contiguous bytes from global to shared memory, credited to a barrier there.
__device__ __forceinline__ void cp_async_bulk_shared_global(
    unsigned dst, const void* src, unsigned bytes, unsigned bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_shared_global_cache_hint(
    unsigned dst, const void* src, unsigned bytes, unsigned bar, unsigned long long policy) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
               :: "r"(dst), "l"(src), "r"(bytes), "r"(bar), "l"(policy) : "memory");
}

/// One bulk copy of contiguous bytes from global to the shared memory of each CTA of a mask, credited to a barrier
/// there.
__device__ __forceinline__ void cp_async_bulk_shared_global_multicast(
    unsigned dst, const void* src, unsigned bytes, unsigned bar, unsigned short ctas) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
               :: "r"(dst), "l"(src), "r"(bytes), "r"(bar), "h"(ctas) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_shared_global_multicast_cache_hint(
    unsigned dst, const void* src, unsigned bytes, unsigned bar, unsigned short ctas, unsigned long long policy) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1], %2, [%3], %4, %5;"
               :: "r"(dst), "l"(src), "r"(bytes), "r"(bar), "h"(ctas), "l"(policy) : "memory");
}

/// One bulk copy of contiguous bytes from shared to global memory, in the current bulk group.
__device__ __forceinline__ void cp_async_bulk_global_shared(void* dst, unsigned src, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(dst), "r"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_global_shared_cache_hint(
    void* dst, unsigned src, unsigned bytes, unsigned long long policy) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;"
               :: "l"(dst), "r"(src), "r"(bytes), "l"(policy) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_prefetch_L2_global(const void* src, unsigned bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_prefetch_L2_global_L2_cache_hint(
    const void* src, unsigned bytes, unsigned long long policy) {
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;"
               :: "l"(src), "r"(bytes), "l"(policy) : "memory");
}

/// Elements outside the row become zeros; all bytes of the run are credited to the barrier.
// needs: shared_address cp_async_bulk_shared_global px_inside bulk_zeros fence_proxy_async_shared_cta
// needs: mbarrier_complete_tx_relaxed_cta_shared_cta
template <class T>
__device__ __forceinline__ void bulk_load(T* dst, const T* src, int start, int size, int n, unsigned bar) {
  const px_inside<T> in(start, size, n);
  if (in.first == 0 && in.whole == n) {
    cp_async_bulk_shared_global(shared_address(dst), src, n * sizeof(T), bar);
    return;
  }
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) cp_async_bulk_shared_global(shared_address(dst + in.first), src + in.first, bytes, bar);
  bulk_zeros(dst, 0, in.first);
  for (int i = in.whole; i < in.last; ++i) dst[i] = src[i];
  bulk_zeros(dst, in.last, n);
  __threadfence_block();  // whoever waits for the credit below sees these stores,
  fence_proxy_async_shared_cta();  // and so does a copy that reads them later
  mbarrier_complete_tx_relaxed_cta_shared_cta(bar, n * sizeof(T) - bytes);
}

// needs: shared_address cp_async_bulk_shared_global_cache_hint px_inside bulk_zeros fence_proxy_async_shared_cta
// needs: mbarrier_complete_tx_relaxed_cta_shared_cta
template <class T>
__device__ __forceinline__ void bulk_load_cache_hint(T* dst, const T* src, int start, int size, int n, unsigned bar, unsigned long long policy) {
  const px_inside<T> in(start, size, n);
  if (in.first == 0 && in.whole == n) {
    cp_async_bulk_shared_global_cache_hint(shared_address(dst), src, n * sizeof(T), bar, policy);
    return;
  }
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) cp_async_bulk_shared_global_cache_hint(shared_address(dst + in.first), src + in.first, bytes, bar, policy);
  bulk_zeros(dst, 0, in.first);
  for (int i = in.whole; i < in.last; ++i) dst[i] = src[i];
  bulk_zeros(dst, in.last, n);
  __threadfence_block();  // whoever waits for the credit below sees these stores,
  fence_proxy_async_shared_cta();  // and so does a copy that reads them later
  mbarrier_complete_tx_relaxed_cta_shared_cta(bar, n * sizeof(T) - bytes);
}

/// In each CTA of a mask elements outside the row become zeros, and all bytes of the run are credited to its barrier.
// needs: shared_address mapa_shared_cluster cp_async_bulk_shared_global_multicast px_inside bulk_spread_rest
// needs: fence_proxy_async_shared_cluster fence_acq_rel_cluster mbarrier_complete_tx_relaxed_cluster_shared_cluster
template <class T>
__device__ __forceinline__ void bulk_multicast(T* dst, const T* src, int start, int size, int n, unsigned bar,
                                       unsigned short ctas) {
  const px_inside<T> in(start, size, n);
  const unsigned bytes = (in.whole - in.first) * sizeof(T), all = n * sizeof(T);
  if (bytes != 0) cp_async_bulk_shared_global_multicast(shared_address(dst + in.first), src + in.first, bytes, bar, ctas);
  if (bytes == all) return;
  const unsigned here = shared_address(dst), first = in.first * sizeof(T), whole = in.whole * sizeof(T);
  const unsigned char* const from = reinterpret_cast<const unsigned char*>(src);
  for (int cta = 0; cta < 16; ++cta)
    if (ctas >> cta & 1)
      bulk_spread_rest(mapa_shared_cluster(here, cta), from, first, whole, in.last * sizeof(T), all);
  fence_proxy_async_shared_cluster();  // a copy that reads these stores later sees them,
  fence_acq_rel_cluster();  // and so does whoever waits for the credit below
  for (int cta = 0; cta < 16; ++cta)
    if (ctas >> cta & 1) mbarrier_complete_tx_relaxed_cluster_shared_cluster(mapa_shared_cluster(bar, cta), all - bytes);
}

// needs: shared_address mapa_shared_cluster cp_async_bulk_shared_global_multicast_cache_hint px_inside bulk_spread_rest
// needs: fence_proxy_async_shared_cluster fence_acq_rel_cluster mbarrier_complete_tx_relaxed_cluster_shared_cluster
template <class T>
__device__ __forceinline__ void bulk_multicast_cache_hint(T* dst, const T* src, int start, int size, int n, unsigned bar,
                                       unsigned short ctas, unsigned long long policy) {
  const px_inside<T> in(start, size, n);
  const unsigned bytes = (in.whole - in.first) * sizeof(T), all = n * sizeof(T);
  if (bytes != 0) cp_async_bulk_shared_global_multicast_cache_hint(shared_address(dst + in.first), src + in.first, bytes, bar, ctas, policy);
  if (bytes == all) return;
  const unsigned here = shared_address(dst), first = in.first * sizeof(T), whole = in.whole * sizeof(T);
  const unsigned char* const from = reinterpret_cast<const unsigned char*>(src);
  for (int cta = 0; cta < 16; ++cta)
    if (ctas >> cta & 1)
      bulk_spread_rest(mapa_shared_cluster(here, cta), from, first, whole, in.last * sizeof(T), all);
  fence_proxy_async_shared_cluster();  // a copy that reads these stores later sees them,
  fence_acq_rel_cluster();  // and so does whoever waits for the credit below
  for (int cta = 0; cta < 16; ++cta)
    if (ctas >> cta & 1) mbarrier_complete_tx_relaxed_cluster_shared_cluster(mapa_shared_cluster(bar, cta), all - bytes);
}

/// Elements outside the row are not stored.
// needs: shared_address cp_async_bulk_global_shared px_inside
template <class T>
__device__ __forceinline__ void bulk_store(T* dst, int start, int size, int n, const T* src) {
  const px_inside<T> in(start, size, n);
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) cp_async_bulk_global_shared(dst + in.first, shared_address(src + in.first), bytes);
  for (int i = in.whole; i < in.last; ++i) dst[i] = src[i];
}

// needs: shared_address cp_async_bulk_global_shared_cache_hint px_inside
template <class T>
__device__ __forceinline__ void bulk_store_cache_hint(T* dst, int start, int size, int n, const T* src, unsigned long long policy) {
  const px_inside<T> in(start, size, n);
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) cp_async_bulk_global_shared_cache_hint(dst + in.first, shared_address(src + in.first), bytes, policy);
  for (int i = in.whole; i < in.last; ++i) dst[i] = src[i];
}

/// Whole 16-byte pieces inside the row are brought into L2.
// needs: cp_async_bulk_prefetch_L2_global px_inside
template <class T>
__device__ __forceinline__ void bulk_prefetch(const T* src, int start, int size, int n) {
  const px_inside<T> in(start, size, n);
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) cp_async_bulk_prefetch_L2_global(src + in.first, bytes);
}

// needs: cp_async_bulk_prefetch_L2_global_L2_cache_hint px_inside
template <class T>
__device__ __forceinline__ void bulk_prefetch_cache_hint(const T* src, int start, int size, int n, unsigned long long policy) {
  const px_inside<T> in(start, size, n);
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) cp_async_bulk_prefetch_L2_global_L2_cache_hint(src + in.first, bytes, policy);
}
