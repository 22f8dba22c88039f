// Each device function of the golden kernels, once.

// == argmax_takes
// Whether the element x at i comes before y at j: the larger one, of equals the first. A NaN is larger than all.
template <class T>
__device__ __forceinline__ bool argmax_takes(T x, int i, T y, int j) {
  return i < j ? x >= y || x != x : !(x <= y) && y == y;
}

// == atomic_add_i32_global
__device__ __forceinline__ int atomic_add_i32_global(int* p, int x) {
  int old;
  asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], %2;"
               : "=r"(old) : "l"(__cvta_generic_to_global(p)), "r"(x) : "memory");
  return old;
}

// == atomic_exch_i32_global
__device__ __forceinline__ int atomic_exch_i32_global(int* p, int x) {
  int old;
  asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], %2;"
               : "=r"(old) : "l"(__cvta_generic_to_global(p)), "r"(x) : "memory");
  return old;
}

// == bar_sync
template <int id, int threads>
__device__ __forceinline__ void bar_sync() {
  asm volatile("bar.sync %0, %1;" :: "n"(id), "n"(threads) : "memory");
}

// == bar_sync_of
template <int threads>
__device__ __forceinline__ void bar_sync_of(int id) {
  asm volatile("bar.sync %0, %1;" :: "r"(id), "n"(threads) : "memory");
}

// == barrier_cluster_arrive_relaxed_aligned
__device__ __forceinline__ void barrier_cluster_arrive_relaxed_aligned() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

// == barrier_cluster_arrive_release_aligned
__device__ __forceinline__ void barrier_cluster_arrive_release_aligned() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// == barrier_cluster_wait_acquire_aligned
__device__ __forceinline__ void barrier_cluster_wait_acquire_aligned() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// == bf16_pair_from_float
__device__ __forceinline__ void bf16_pair_from_float(px_bf16* y, float low, float high) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  y[0] = (px_bf16)pair;
  y[1] = (px_bf16)(pair >> 16);
}

// == bf16_to_float
__device__ __forceinline__ float bf16_to_float(px_bf16 x) {
  return __uint_as_float((unsigned)x << 16);
}

// == bits
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

// == bulk_load
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

// == bulk_store
template <class T>
__device__ __forceinline__ void bulk_store(T* dst, int start, int size, int n, const T* src) {
  const px_inside<T> in(start, size, n);
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) cp_async_bulk_global_shared(dst + in.first, shared_address(src + in.first), bytes);
  for (int i = in.whole; i < in.last; ++i) dst[i] = src[i];
}

// == bulk_zeros
// Zeros in place of the elements [i, end) of a run that begins at a multiple of 16 bytes.
template <class T>
__device__ __forceinline__ void bulk_zeros(T* dst, int i, int end) {
  constexpr int vector = 16 / (int)sizeof(T);
  for (; i < end && i % vector != 0; ++i) dst[i] = T(0);
  for (; i + vector <= end; i += vector) *reinterpret_cast<uint4*>(dst + i) = make_uint4(0, 0, 0, 0);
  for (; i < end; ++i) dst[i] = T(0);
}

// == bytes_inside_2x2
__device__ __forceinline__ unsigned bytes_inside_2x2(unsigned x, int n) {
  const unsigned left = x < (unsigned)n ? (unsigned)n - x : 0;
  return (left < 2 ? left : 2) * 2;
}

// == bytes_inside_8x2
__device__ __forceinline__ unsigned bytes_inside_8x2(unsigned x, int n) {
  const unsigned left = x < (unsigned)n ? (unsigned)n - x : 0;
  return (left < 8 ? left : 8) * 2;
}

// == cluster_ctaid_x
__device__ __forceinline__ int cluster_ctaid_x() {
  unsigned value;
  asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(value));
  return (int)value;
}

// == cluster_ctarank
__device__ __forceinline__ int cluster_ctarank() {
  unsigned value;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(value));
  return (int)value;
}

// == clusterlaunchcontrol_query_cancel
__device__ __forceinline__ bool clusterlaunchcontrol_query_cancel(unsigned response, int& x, int& y, int& z) {
  // Whether a cluster was granted, and its first block; what that is where none was, PTX leaves open.
  unsigned granted;
  asm volatile("{ .reg .b128 r; .reg .pred p; ld.shared::cta.b128 r, [%4]; "
               "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r; selp.u32 %0, 1, 0, p; "
               "mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0; "
               "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, %2, %3, _}, r; }"
               : "=r"(granted), "=r"(x), "=r"(y), "=r"(z) : "r"(response) : "memory");
  return granted != 0;
}

// == clusterlaunchcontrol_try_cancel
__device__ __forceinline__ void clusterlaunchcontrol_try_cancel(unsigned response, unsigned bar) {
  asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
               :: "r"(response), "r"(bar) : "memory");
}

// == clusterlaunchcontrol_try_cancel_multicast
__device__ __forceinline__ void clusterlaunchcontrol_try_cancel_multicast(unsigned response, unsigned bar) {
  asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], [%1];"
               :: "r"(response), "r"(bar) : "memory");
}

// == cp_async_16
__device__ __forceinline__ void cp_async_16(unsigned to, const void* from, unsigned found) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(found) : "memory");
}

// == cp_async_4
__device__ __forceinline__ void cp_async_4(unsigned to, const void* from, unsigned found) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(to), "l"(from), "r"(found) : "memory");
}

// == cp_async_bulk_commit_group
__device__ __forceinline__ void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// == cp_async_bulk_global_shared
__device__ __forceinline__ void cp_async_bulk_global_shared(void* dst, unsigned src, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(dst), "r"(src), "r"(bytes) : "memory");
}

// == cp_async_bulk_prefetch_tensor_2d_L2_global_tile
__device__ __forceinline__ void cp_async_bulk_prefetch_tensor_2d_L2_global_tile(
    const void* map, int c0, int c1) {
  asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];"
               :: "l"(map), "r"(c0), "r"(c1) : "memory");
}

// == cp_async_bulk_shared_global
__device__ __forceinline__ void cp_async_bulk_shared_global(
    unsigned dst, const void* src, unsigned bytes, unsigned bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}

// == cp_async_bulk_shared_shared
__device__ __forceinline__ void cp_async_bulk_shared_shared(
    unsigned dst, unsigned src, unsigned bytes, unsigned bar) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(dst), "r"(src), "r"(bytes), "r"(bar) : "memory");
}

// == cp_async_bulk_tensor_2d_gather4_pair
__device__ __forceinline__ void cp_async_bulk_tensor_2d_gather4_pair(
    unsigned dst, const void* map, int column, int r0, int r1, int r2, int r3, unsigned bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes.cta_group::2 [%0], [%1, {%2, %3, %4, %5, %6}], [%7];"
               :: "r"(dst), "l"(map), "r"(column), "r"(r0), "r"(r1), "r"(r2), "r"(r3), "r"(bar) : "memory");
}

// == cp_async_bulk_tensor_2d_global_shared
__device__ __forceinline__ void cp_async_bulk_tensor_2d_global_shared(
    const void* map, int c0, int c1, unsigned src) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
               :: "l"(map), "r"(c0), "r"(c1), "r"(src) : "memory");
}

// == cp_async_bulk_tensor_2d_shared_global
__device__ __forceinline__ void cp_async_bulk_tensor_2d_shared_global(
    unsigned dst, const void* map, int c0, int c1, unsigned bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(bar) : "memory");
}

// == cp_async_bulk_tensor_2d_shared_global_cache_hint
__device__ __forceinline__ void cp_async_bulk_tensor_2d_shared_global_cache_hint(
    unsigned dst, const void* map, int c0, int c1, unsigned bar, unsigned long long policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;"
               :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(bar), "l"(policy) : "memory");
}

// == cp_async_bulk_tensor_2d_shared_global_multicast
__device__ __forceinline__ void cp_async_bulk_tensor_2d_shared_global_multicast(
    unsigned dst, const void* map, int c0, int c1, unsigned bar, unsigned short ctas) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
               :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(bar), "h"(ctas) : "memory");
}

// == cp_async_bulk_tensor_2d_shared_global_multicast_pair
__device__ __forceinline__ void cp_async_bulk_tensor_2d_shared_global_multicast_pair(
    unsigned dst, const void* map, int c0, int c1, unsigned bar, unsigned short ctas) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2 [%0], [%1, {%2, %3}], [%4], %5;"
               :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(bar), "h"(ctas) : "memory");
}

// == cp_async_bulk_tensor_2d_shared_global_pair
__device__ __forceinline__ void cp_async_bulk_tensor_2d_shared_global_pair(
    unsigned dst, const void* map, int c0, int c1, unsigned bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%0], [%1, {%2, %3}], [%4];"
               :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(bar) : "memory");
}

// == cp_async_bulk_tensor_3d_global_shared
__device__ __forceinline__ void cp_async_bulk_tensor_3d_global_shared(
    const void* map, int c0, int c1, int c2, unsigned src) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];"
               :: "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(src) : "memory");
}

// == cp_async_bulk_tensor_3d_shared_global
__device__ __forceinline__ void cp_async_bulk_tensor_3d_shared_global(
    unsigned dst, const void* map, int c0, int c1, int c2, unsigned bar) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
               :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(bar) : "memory");
}

// == cp_async_bulk_tensor_3d_shared_global_pair
__device__ __forceinline__ void cp_async_bulk_tensor_3d_shared_global_pair(
    unsigned dst, const void* map, int c0, int c1, int c2, unsigned bar) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%0], [%1, {%2, %3, %4}], [%5];"
               :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(bar) : "memory");
}

// == cp_async_bulk_tensor_4d_global_shared
__device__ __forceinline__ void cp_async_bulk_tensor_4d_global_shared(
    const void* map, int c0, int c1, int c2, int c3, unsigned src) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];"
               :: "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(src) : "memory");
}

// == cp_async_bulk_tensor_4d_shared_global
__device__ __forceinline__ void cp_async_bulk_tensor_4d_shared_global(
    unsigned dst, const void* map, int c0, int c1, int c2, int c3, unsigned bar) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];"
               :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(bar) : "memory");
}

// == cp_async_bulk_tensor_4d_shared_global_cache_hint
__device__ __forceinline__ void cp_async_bulk_tensor_4d_shared_global_cache_hint(
    unsigned dst, const void* map, int c0, int c1, int c2, int c3, unsigned bar, unsigned long long policy) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7;"
               :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(bar), "l"(policy) : "memory");
}

// == cp_async_bulk_tensor_4d_shared_global_multicast_pair
__device__ __forceinline__ void cp_async_bulk_tensor_4d_shared_global_multicast_pair(
    unsigned dst, const void* map, int c0, int c1, int c2, int c3, unsigned bar, unsigned short ctas) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2 [%0], [%1, {%2, %3, %4, %5}], [%6], %7;"
               :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(bar), "h"(ctas) : "memory");
}

// == cp_async_bulk_tensor_4d_shared_global_pair
__device__ __forceinline__ void cp_async_bulk_tensor_4d_shared_global_pair(
    unsigned dst, const void* map, int c0, int c1, int c2, int c3, unsigned bar) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 [%0], [%1, {%2, %3, %4, %5}], [%6];"
               :: "r"(dst), "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(bar) : "memory");
}

// == cp_async_bulk_wait_group_0
__device__ __forceinline__ void cp_async_bulk_wait_group_0() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// == cp_async_bulk_wait_group_read_0
__device__ __forceinline__ void cp_async_bulk_wait_group_read_0() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// == cp_async_bulk_wait_group_read_1
__device__ __forceinline__ void cp_async_bulk_wait_group_read_1() {
  asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
}

// == cp_async_mbarrier_arrive
__device__ __forceinline__ void cp_async_mbarrier_arrive(unsigned bar) {
  asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" :: "r"(bar) : "memory");
}

// == cp_reduce_async_bulk_tensor_2d_global_shared_add
__device__ __forceinline__ void cp_reduce_async_bulk_tensor_2d_global_shared_add(
    const void* map, int c0, int c1, unsigned src) {
  asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];"
               :: "l"(map), "r"(c0), "r"(c1), "r"(src) : "memory");
}

// == elect_sync
__device__ __forceinline__ bool elect_sync() {
  unsigned elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

// == exp2_approx
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// == f4e2m1_pair_from_float
__device__ __forceinline__ void f4e2m1_pair_from_float(px_f4e2m1* y, float low, float high) {
  unsigned short pair;
  asm("{ .reg .b8 both; cvt.rn.satfinite.e2m1x2.f32 both, %1, %2; mov.b16 %0, {both, both}; }" : "=h"(pair) : "f"(high), "f"(low));
  y[0] = (px_f4e2m1)(pair & 15);
  y[1] = (px_f4e2m1)(pair >> 4 & 15);
}

// == f8e4m3_four_from_float
__device__ __forceinline__ void f8e4m3_four_from_float(px_f8e4m3* y, float x0, float x1, float x2, float x3) {
  unsigned word;
  asm("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; mov.b32 %0, {low, high}; }"
      : "=r"(word) : "f"(x0), "f"(x1), "f"(x2), "f"(x3));
  y[0] = (px_f8e4m3)word;
  y[1] = (px_f8e4m3)(word >> 8);
  y[2] = (px_f8e4m3)(word >> 16);
  y[3] = (px_f8e4m3)(word >> 24);
}

// == f8e4m3_pair_from_float
__device__ __forceinline__ void f8e4m3_pair_from_float(px_f8e4m3* y, float low, float high) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  y[0] = (px_f8e4m3)pair;
  y[1] = (px_f8e4m3)(pair >> 8);
}

// == f8e4m3_to_float
__device__ __forceinline__ float f8e4m3_to_float(px_f8e4m3 x) {
  unsigned pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x));
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)pair));
  return y;
}

// == fence_acq_rel_cluster
__device__ __forceinline__ void fence_acq_rel_cluster() {
  asm volatile("fence.acq_rel.cluster;" ::: "memory");
}

// == fence_mbarrier_init_release_cluster
__device__ __forceinline__ void fence_mbarrier_init_release_cluster() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// == fence_proxy_async_shared_cta
__device__ __forceinline__ void fence_proxy_async_shared_cta() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// == fill_vector
template <int N, class T, class V>
__device__ __forceinline__ void fill_vector(T* x, V value) {
  #pragma unroll
  for (int j = 0; j < N; ++j) x[j] = (T)value;
}

// == fill_words
// N narrow elements of type T. T is named by the caller: the value's own type may be wider.
template <int N, class T>
__device__ __forceinline__ void fill_words(unsigned* words, T value) {
  unsigned word = (unsigned)bits<T>::of(value);
  if constexpr (sizeof(T) == 2) word *= 0x10001u;
  if constexpr (sizeof(T) == 1) word *= 0x1010101u;
  #pragma unroll
  for (int j = 0; j < N * (int)sizeof(T) / 4; ++j) words[j] = word;
}

// == finish
// Nothing at run time, for `never` is 0, which no compiler knows: what x follows from is computed before this point.
__device__ __forceinline__ void finish(unsigned x, unsigned never, unsigned address) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p st.shared.u32 [%2], %0; }"
               :: "r"(x), "r"(never), "r"(address) : "memory");
}

// == floor_div
// Rounds down. By 0: 0. By -1: the negative number, which wraps around.
template <class T>
__device__ __forceinline__ T floor_div(T a, T b) {
  if constexpr ((T)-1 < (T)1) {
    if (b == 0 || b == -1) return b == 0 ? 0 : (T)(0 - (unsigned long long)a);
    return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));
  } else {
    return b == 0 ? 0 : (T)(a / b);
  }
}

// == floor_mod
// The remainder has the divisor's sign. By 0 and by -1: 0.
template <class T>
__device__ __forceinline__ T floor_mod(T a, T b) {
  if constexpr ((T)-1 < (T)1) {
    if (b == 0 || b == -1) return 0;
    const T r = (T)(a % b);
    return (T)(r != 0 && (r < 0) != (b < 0) ? r + b : r);
  } else {
    return b == 0 ? 0 : (T)(a % b);
  }
}

// == fold_bits
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

// == fold_scalar
template <class T>
__device__ __forceinline__ unsigned fold_scalar(T x) {
  const unsigned long long b = bits<T>::of(x);
  return (unsigned)b ^ (unsigned)(b >> 32);
}

// == griddepcontrol_launch_dependents
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// == griddepcontrol_wait
__device__ __forceinline__ void griddepcontrol_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// == halves_of
__device__ __forceinline__ void halves_of(unsigned short* y, unsigned pair) {
  y[0] = (unsigned short)pair;
  y[1] = (unsigned short)(pair >> 16);
}

// == hold_descriptors
template <int N>
__device__ __forceinline__ void hold_descriptors(unsigned long long* x) {
  #pragma unroll
  for (int i = 0; i < N; ++i) asm("" : "+l"(x[i]));
}

// == inside
// Sums of indices wrap around: one below 0 or beyond 2^31 is no smaller than any extent.
__device__ __forceinline__ bool inside(unsigned i, int n) { return i < (unsigned)n; }

// == keep_float
template <int N>
__device__ __forceinline__ void keep_float(float* x) {
  #pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(x[i]));
}

// == keep_scalar
template <class T>
__device__ __forceinline__ T keep_scalar(T x) { return bits<T>::from(bits<T>::of(x) + unknown_zero()); }

// == keep_words
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

// == lane_here
__device__ __forceinline__ int lane_here() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// == ldmatrix_x4
__device__ __forceinline__ void ldmatrix_x4(unsigned* words, unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(address) : "memory");
}

// == ldmatrix_x4_trans
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned* words, unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(address) : "memory");
}

// == load_remote
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

// == load_vector
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

// == load_words
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

// == load_words_once
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

// == mapa_shared_cluster
__device__ __forceinline__ unsigned mapa_shared_cluster(unsigned address, unsigned cta) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(cta));
  return remote;
}

// == max_NaN_f32
__device__ __forceinline__ float max_NaN_f32(float a, float b) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

// == max_bf16x2
__device__ __forceinline__ unsigned max_bf16x2(unsigned a, unsigned b) {
  unsigned d;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

// == maximum
template <class T>
__device__ __forceinline__ T maximum(T a, T b) { return a > b ? a : b; }

// == mbarrier_arrive_expect_tx_shared_cta
__device__ __forceinline__ void mbarrier_arrive_expect_tx_shared_cta(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}

// == mbarrier_arrive_release_cluster_shared_cluster
__device__ __forceinline__ void mbarrier_arrive_release_cluster_shared_cluster(unsigned bar) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(bar) : "memory");
}

// == mbarrier_arrive_shared_cluster
__device__ __forceinline__ void mbarrier_arrive_shared_cluster(unsigned bar) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(bar) : "memory");
}

// == mbarrier_arrive_shared_cta
__device__ __forceinline__ void mbarrier_arrive_shared_cta(unsigned bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory");
}

// == mbarrier_complete_tx_relaxed_cluster_shared_cluster
__device__ __forceinline__ void mbarrier_complete_tx_relaxed_cluster_shared_cluster(
    unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;"
               :: "r"(bar), "r"(bytes) : "memory");
}

// == mbarrier_complete_tx_relaxed_cta_shared_cta
__device__ __forceinline__ void mbarrier_complete_tx_relaxed_cta_shared_cta(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}

// == mbarrier_init_shared_cta
__device__ __forceinline__ void mbarrier_init_shared_cta(unsigned bar, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}

// == mbarrier_try_wait_parity_acquire_cluster_shared_cta
__device__ __forceinline__ bool mbarrier_try_wait_parity_acquire_cluster_shared_cta(
    unsigned bar, unsigned parity) {
  unsigned done;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  return done != 0;
}

// == mbarrier_try_wait_parity_shared_cta
__device__ __forceinline__ bool mbarrier_try_wait_parity_shared_cta(unsigned bar, unsigned parity) {
  unsigned done;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  return done != 0;
}

// == mbarrier_wait_parity
__device__ __forceinline__ void mbarrier_wait_parity(unsigned bar, unsigned parity) {
  while (!mbarrier_try_wait_parity_shared_cta(bar, parity)) {}
}

// == mbarrier_wait_parity_acquire_cluster
__device__ __forceinline__ void mbarrier_wait_parity_acquire_cluster(unsigned bar, unsigned parity) {
  while (!mbarrier_try_wait_parity_acquire_cluster_shared_cta(bar, parity)) {}
}

// == minimum
template <class T>
__device__ __forceinline__ T minimum(T a, T b) { return a < b ? a : b; }

// == mma_m16n8k16_f32_bf16_bf16
__device__ __forceinline__ void mma_m16n8k16_f32_bf16_bf16(float* d, const unsigned* a, const unsigned* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// == mma_m16n8k32_mxf8f6f4_1x_e4m3_e4m3_ue8m0
__device__ __forceinline__ void mma_m16n8k32_mxf8f6f4_1x_e4m3_e4m3_ue8m0(float* d, const unsigned* a, const unsigned* b, unsigned sa, unsigned sb) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, %10, {0, 0}, %11, {0, 0};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(sa), "r"(sb));
}

// == mma_m16n8k64_mxf4nvf4_4x_e2m1_e2m1_ue4m3
__device__ __forceinline__ void mma_m16n8k64_mxf4nvf4_4x_e2m1_e2m1_ue4m3(float* d, const unsigned* a, const unsigned* b, unsigned sa, unsigned sb) {
  asm volatile("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, %10, {0, 0}, %11, {0, 0};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(sa), "r"(sb));
}

// == pack_words
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

// == pair_of
__device__ __forceinline__ unsigned pair_of(unsigned short low, unsigned short high) {
  return low | (unsigned)high << 16;
}

// == prefetch_tensormap
__device__ __forceinline__ void prefetch_tensormap(const void* map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}

// == px_inside
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

// == px_stop
__device__ __noinline__ void px_stop(unsigned long long* debug, int site, unsigned parity, int index) {
  // The first thread to come here leaves a record for the host and ends the grid; the others give it the time.
  unsigned long long claimed;
  asm volatile("atom.relaxed.sys.global.cas.b64 %0, [%1], 0, 1;" : "=l"(claimed) : "l"(debug) : "memory");
  if (claimed == 0) {
    volatile unsigned long long* record = debug;
    record[1] = site;
    record[2] = blockIdx.x + gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    record[3] = threadIdx.x / 32;
    record[4] = parity;
    record[5] = (long long)index;
    __threadfence_system();
    record[0] = 2;
    __threadfence_system();
  } else {
    for (int i = 0; i < 1000; ++i) __nanosleep(1000000);
  }
  asm volatile("trap;");
}

// == reciprocal_approx
__device__ __forceinline__ float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// == reduce_add_f32_remote
__device__ __forceinline__ void reduce_add_f32_remote(unsigned address, float x) {
  asm volatile("red.relaxed.cluster.shared::cluster.add.f32 [%0], %1;" :: "r"(address), "f"(x) : "memory");
}

// == reduce_add_i32_global
__device__ __forceinline__ void reduce_add_i32_global(int* p, int x) {
  asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" :: "l"(__cvta_generic_to_global(p)), "r"(x) : "memory");
}

// == scale_word_1
__device__ __forceinline__ unsigned scale_word_1(const unsigned char* s) {
  return (unsigned)s[0];
}

// == scale_word_4
__device__ __forceinline__ unsigned scale_word_4(const unsigned char* s) {
  return (unsigned)s[0] | (unsigned)s[1] << 8 | (unsigned)s[2] << 16 | (unsigned)s[3] << 24;
}

// == setmaxnreg_dec
template <int registers>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(registers));
}

// == setmaxnreg_inc
template <int registers>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(registers));
}

// == shared_address
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  unsigned address;
  asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(pointer));
  return address;
}

// == shift_left
// A count that is negative or not below the width shifts everything out; C++ leaves that open.
template <class T>
__device__ __forceinline__ T shift_left(T a, T by) {
  constexpr int width = 8 * sizeof(T);
  if ((unsigned long long)by >= width) return 0;
  if constexpr (width == 64) return (T)((unsigned long long)a << by);
  else return (T)((unsigned)a << by);
}

// == shift_right
// A count that is negative or not below the width leaves copies of the sign; C++ leaves that open.
template <class T>
__device__ __forceinline__ T shift_right(T a, T by) {
  constexpr int width = 8 * sizeof(T);
  return (T)((unsigned long long)by < width ? a >> by : a >> (width - 1) >> 1);
}

// == shuffle
// An element of any size from another lane.
template <class T>
__device__ __forceinline__ T shuffle(T x, int lane) {
  const unsigned long long b = bits<T>::of(x);
  unsigned long long got = (unsigned)__shfl_sync(0xffffffffu, (unsigned)b, lane);
  if constexpr (sizeof(T) == 8)
    got |= (unsigned long long)__shfl_sync(0xffffffffu, (unsigned)(b >> 32), lane) << 32;
  return bits<T>::from(got);
}

// == shuffle_xor
template <class T>
__device__ __forceinline__ T shuffle_xor(T x, int mask) {
  const unsigned long long b = bits<T>::of(x);
  unsigned long long got = (unsigned)__shfl_xor_sync(0xffffffffu, (unsigned)b, mask);
  if constexpr (sizeof(T) == 8)
    got |= (unsigned long long)__shfl_xor_sync(0xffffffffu, (unsigned)(b >> 32), mask) << 32;
  return bits<T>::from(got);
}

// == st_async
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

// == stmatrix_x4
// Four 8 x 8 matrices of 16-bit elements; r holds this lane's two elements of each, address is that of one row.
__device__ __forceinline__ void stmatrix_x4(unsigned address, const unsigned* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

// == stmatrix_x4_trans
// Four 8 x 8 matrices of 16-bit elements, transposed; r holds this lane's two elements of each, address is that of one row.
__device__ __forceinline__ void stmatrix_x4_trans(unsigned address, const unsigned* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

// == store_part_once
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

// == store_remote
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

// == store_vector
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

// == store_vector_if
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

// == store_vector_once
template <int N, class T>
__device__ __forceinline__ void store_vector_once(T* p, const T* x, bool inside) {
  unsigned words[4] = {0, 0, 0, 0};
  pack<N>(words, x);
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p st.global.L1::no_allocate.v4.u32 [%4], {%0, %1, %2, %3}; }"
                 :: "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "l"(p), "r"((unsigned)inside) : "memory");
}

// == swizzle
// The swizzle of TMA on an element offset: bits three places up are XORed into those of the mask.
template <int mask>
__device__ __forceinline__ int swizzle(int offset) { return offset ^ (offset >> 3 & mask); }

// == tcgen05_alloc_cta_group_1_128
__device__ __forceinline__ void tcgen05_alloc_cta_group_1_128(unsigned address) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128;" :: "r"(address) : "memory");
}

// == tcgen05_alloc_cta_group_1_512
__device__ __forceinline__ void tcgen05_alloc_cta_group_1_512(unsigned address) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 512;" :: "r"(address) : "memory");
}

// == tcgen05_alloc_cta_group_1_64
__device__ __forceinline__ void tcgen05_alloc_cta_group_1_64(unsigned address) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" :: "r"(address) : "memory");
}

// == tcgen05_alloc_cta_group_2_256
__device__ __forceinline__ void tcgen05_alloc_cta_group_2_256(unsigned address) {
  asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 256;" :: "r"(address) : "memory");
}

// == tcgen05_alloc_cta_group_2_512
__device__ __forceinline__ void tcgen05_alloc_cta_group_2_512(unsigned address) {
  asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 512;" :: "r"(address) : "memory");
}

// == tcgen05_commit_cta_group_1
__device__ __forceinline__ void tcgen05_commit_cta_group_1(unsigned bar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
               :: "r"(bar) : "memory");
}

// == tcgen05_commit_cta_group_2_multicast
__device__ __forceinline__ void tcgen05_commit_cta_group_2_multicast(unsigned bar, unsigned short ctas) {
  asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
               :: "r"(bar), "h"(ctas) : "memory");
}

// == tcgen05_cp_cta_group_2_32x128b_warpx4
__device__ __forceinline__ void tcgen05_cp_cta_group_2_32x128b_warpx4(unsigned d, unsigned long long s) {
  asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" :: "r"(d), "l"(s) : "memory");
}

// == tcgen05_dealloc_cta_group_1_128
__device__ __forceinline__ void tcgen05_dealloc_cta_group_1_128(unsigned address) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" :: "r"(address) : "memory");
}

// == tcgen05_dealloc_cta_group_1_512
__device__ __forceinline__ void tcgen05_dealloc_cta_group_1_512(unsigned address) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 512;" :: "r"(address) : "memory");
}

// == tcgen05_dealloc_cta_group_1_64
__device__ __forceinline__ void tcgen05_dealloc_cta_group_1_64(unsigned address) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" :: "r"(address) : "memory");
}

// == tcgen05_dealloc_cta_group_2_256
__device__ __forceinline__ void tcgen05_dealloc_cta_group_2_256(unsigned address) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 256;" :: "r"(address) : "memory");
}

// == tcgen05_dealloc_cta_group_2_512
__device__ __forceinline__ void tcgen05_dealloc_cta_group_2_512(unsigned address) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 512;" :: "r"(address) : "memory");
}

// == tcgen05_descriptor
__device__ __forceinline__ unsigned long long tcgen05_descriptor(unsigned address, unsigned long long fields) {
  // bits 0-13: address / 16; 16-29 and 32-45: byte offsets / 16; 46: version; 61-63: swizzle
  return fields | (address & 0x3ffff) >> 4;
}

// == tcgen05_fence_after_thread_sync
__device__ __forceinline__ void tcgen05_fence_after_thread_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// == tcgen05_fence_before_thread_sync
__device__ __forceinline__ void tcgen05_fence_before_thread_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

// == tcgen05_ld_16x256b_x2_float
__device__ __forceinline__ void tcgen05_ld_16x256b_x2_float(float* x, unsigned address) {
  asm volatile("tcgen05.ld.sync.aligned.16x256b.x2.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
    : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7])
    : "r"(address));
}

// == tcgen05_ld_16x256b_x4_float
__device__ __forceinline__ void tcgen05_ld_16x256b_x4_float(float* x, unsigned address) {
  asm volatile("tcgen05.ld.sync.aligned.16x256b.x4.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
    : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7]), "=f"(x[8]), "=f"(x[9]), "=f"(x[10]), "=f"(x[11]), "=f"(x[12]), "=f"(x[13]), "=f"(x[14]), "=f"(x[15])
    : "r"(address));
}

// == tcgen05_ld_16x256b_x8_float
__device__ __forceinline__ void tcgen05_ld_16x256b_x8_float(float* x, unsigned address) {
  asm volatile("tcgen05.ld.sync.aligned.16x256b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
    : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7]), "=f"(x[8]), "=f"(x[9]), "=f"(x[10]), "=f"(x[11]), "=f"(x[12]), "=f"(x[13]), "=f"(x[14]), "=f"(x[15]), "=f"(x[16]), "=f"(x[17]), "=f"(x[18]), "=f"(x[19]), "=f"(x[20]), "=f"(x[21]), "=f"(x[22]), "=f"(x[23]), "=f"(x[24]), "=f"(x[25]), "=f"(x[26]), "=f"(x[27]), "=f"(x[28]), "=f"(x[29]), "=f"(x[30]), "=f"(x[31])
    : "r"(address));
}

// == tcgen05_ld_32x32b_x128_float
__device__ __forceinline__ void tcgen05_ld_32x32b_x128_float(float* x, unsigned address) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x128.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, [%128];"
    : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7]), "=f"(x[8]), "=f"(x[9]), "=f"(x[10]), "=f"(x[11]), "=f"(x[12]), "=f"(x[13]), "=f"(x[14]), "=f"(x[15]), "=f"(x[16]), "=f"(x[17]), "=f"(x[18]), "=f"(x[19]), "=f"(x[20]), "=f"(x[21]), "=f"(x[22]), "=f"(x[23]), "=f"(x[24]), "=f"(x[25]), "=f"(x[26]), "=f"(x[27]), "=f"(x[28]), "=f"(x[29]), "=f"(x[30]), "=f"(x[31]), "=f"(x[32]), "=f"(x[33]), "=f"(x[34]), "=f"(x[35]), "=f"(x[36]), "=f"(x[37]), "=f"(x[38]), "=f"(x[39]), "=f"(x[40]), "=f"(x[41]), "=f"(x[42]), "=f"(x[43]), "=f"(x[44]), "=f"(x[45]), "=f"(x[46]), "=f"(x[47]), "=f"(x[48]), "=f"(x[49]), "=f"(x[50]), "=f"(x[51]), "=f"(x[52]), "=f"(x[53]), "=f"(x[54]), "=f"(x[55]), "=f"(x[56]), "=f"(x[57]), "=f"(x[58]), "=f"(x[59]), "=f"(x[60]), "=f"(x[61]), "=f"(x[62]), "=f"(x[63]), "=f"(x[64]), "=f"(x[65]), "=f"(x[66]), "=f"(x[67]), "=f"(x[68]), "=f"(x[69]), "=f"(x[70]), "=f"(x[71]), "=f"(x[72]), "=f"(x[73]), "=f"(x[74]), "=f"(x[75]), "=f"(x[76]), "=f"(x[77]), "=f"(x[78]), "=f"(x[79]), "=f"(x[80]), "=f"(x[81]), "=f"(x[82]), "=f"(x[83]), "=f"(x[84]), "=f"(x[85]), "=f"(x[86]), "=f"(x[87]), "=f"(x[88]), "=f"(x[89]), "=f"(x[90]), "=f"(x[91]), "=f"(x[92]), "=f"(x[93]), "=f"(x[94]), "=f"(x[95]), "=f"(x[96]), "=f"(x[97]), "=f"(x[98]), "=f"(x[99]), "=f"(x[100]), "=f"(x[101]), "=f"(x[102]), "=f"(x[103]), "=f"(x[104]), "=f"(x[105]), "=f"(x[106]), "=f"(x[107]), "=f"(x[108]), "=f"(x[109]), "=f"(x[110]), "=f"(x[111]), "=f"(x[112]), "=f"(x[113]), "=f"(x[114]), "=f"(x[115]), "=f"(x[116]), "=f"(x[117]), "=f"(x[118]), "=f"(x[119]), "=f"(x[120]), "=f"(x[121]), "=f"(x[122]), "=f"(x[123]), "=f"(x[124]), "=f"(x[125]), "=f"(x[126]), "=f"(x[127])
    : "r"(address));
}

// == tcgen05_ld_32x32b_x16_float
__device__ __forceinline__ void tcgen05_ld_32x32b_x16_float(float* x, unsigned address) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
    : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7]), "=f"(x[8]), "=f"(x[9]), "=f"(x[10]), "=f"(x[11]), "=f"(x[12]), "=f"(x[13]), "=f"(x[14]), "=f"(x[15])
    : "r"(address));
}

// == tcgen05_ld_32x32b_x64_float
__device__ __forceinline__ void tcgen05_ld_32x32b_x64_float(float* x, unsigned address) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x64.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, [%64];"
    : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7]), "=f"(x[8]), "=f"(x[9]), "=f"(x[10]), "=f"(x[11]), "=f"(x[12]), "=f"(x[13]), "=f"(x[14]), "=f"(x[15]), "=f"(x[16]), "=f"(x[17]), "=f"(x[18]), "=f"(x[19]), "=f"(x[20]), "=f"(x[21]), "=f"(x[22]), "=f"(x[23]), "=f"(x[24]), "=f"(x[25]), "=f"(x[26]), "=f"(x[27]), "=f"(x[28]), "=f"(x[29]), "=f"(x[30]), "=f"(x[31]), "=f"(x[32]), "=f"(x[33]), "=f"(x[34]), "=f"(x[35]), "=f"(x[36]), "=f"(x[37]), "=f"(x[38]), "=f"(x[39]), "=f"(x[40]), "=f"(x[41]), "=f"(x[42]), "=f"(x[43]), "=f"(x[44]), "=f"(x[45]), "=f"(x[46]), "=f"(x[47]), "=f"(x[48]), "=f"(x[49]), "=f"(x[50]), "=f"(x[51]), "=f"(x[52]), "=f"(x[53]), "=f"(x[54]), "=f"(x[55]), "=f"(x[56]), "=f"(x[57]), "=f"(x[58]), "=f"(x[59]), "=f"(x[60]), "=f"(x[61]), "=f"(x[62]), "=f"(x[63])
    : "r"(address));
}

// == tcgen05_mma_cta_group_1_f16
__device__ __forceinline__ void tcgen05_mma_cta_group_1_f16(
    unsigned d, unsigned long long a, unsigned long long b, unsigned word, bool accumulate) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
    "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }"
    :: "r"(d), "l"(a), "l"(b), "r"(word), "r"((unsigned)accumulate) : "memory");
}

// == tcgen05_mma_cta_group_1_f16_tmem
__device__ __forceinline__ void tcgen05_mma_cta_group_1_f16_tmem(
    unsigned d, unsigned a, unsigned long long b, unsigned word, bool accumulate) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
    "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p; }"
    :: "r"(d), "r"(a), "l"(b), "r"(word), "r"((unsigned)accumulate) : "memory");
}

// == tcgen05_mma_cta_group_2_f16
__device__ __forceinline__ void tcgen05_mma_cta_group_2_f16(
    unsigned d, unsigned long long a, unsigned long long b, unsigned word, bool accumulate) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
    "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p; }"
    :: "r"(d), "l"(a), "l"(b), "r"(word), "r"((unsigned)accumulate) : "memory");
}

// == tcgen05_mma_cta_group_2_mxf4nvf4_block16
__device__ __forceinline__ void tcgen05_mma_cta_group_2_mxf4nvf4_block16(
    unsigned d, unsigned long long a, unsigned long long b, unsigned word, unsigned scale_a, unsigned scale_b, bool accumulate) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
    "tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block16 [%0], %1, %2, %3, [%4], [%5], p; }"
    :: "r"(d), "l"(a), "l"(b), "r"(word), "r"(scale_a), "r"(scale_b), "r"((unsigned)accumulate) : "memory");
}

// == tcgen05_mma_cta_group_2_mxf8f6f4_block32
__device__ __forceinline__ void tcgen05_mma_cta_group_2_mxf8f6f4_block32(
    unsigned d, unsigned long long a, unsigned long long b, unsigned word, unsigned scale_a, unsigned scale_b, bool accumulate) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
    "tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale.block32 [%0], %1, %2, %3, [%4], [%5], p; }"
    :: "r"(d), "l"(a), "l"(b), "r"(word), "r"(scale_a), "r"(scale_b), "r"((unsigned)accumulate) : "memory");
}

// == tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned
__device__ __forceinline__ void tcgen05_relinquish_alloc_permit_cta_group_1_sync_aligned() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}

// == tcgen05_relinquish_alloc_permit_cta_group_2_sync_aligned
__device__ __forceinline__ void tcgen05_relinquish_alloc_permit_cta_group_2_sync_aligned() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
}

// == tcgen05_st_16x256b_x4_float
__device__ __forceinline__ void tcgen05_st_16x256b_x4_float(unsigned address, const float* x) {
  asm volatile("tcgen05.st.sync.aligned.16x256b.x4.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16};"
    :: "r"(address), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "f"(x[4]), "f"(x[5]), "f"(x[6]), "f"(x[7]), "f"(x[8]), "f"(x[9]), "f"(x[10]), "f"(x[11]), "f"(x[12]), "f"(x[13]), "f"(x[14]), "f"(x[15]) : "memory");
}

// == tcgen05_st_32x32b_x16_float
__device__ __forceinline__ void tcgen05_st_32x32b_x16_float(unsigned address, const float* x) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16};"
    :: "r"(address), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "f"(x[4]), "f"(x[5]), "f"(x[6]), "f"(x[7]), "f"(x[8]), "f"(x[9]), "f"(x[10]), "f"(x[11]), "f"(x[12]), "f"(x[13]), "f"(x[14]), "f"(x[15]) : "memory");
}

// == tcgen05_st_32x32b_x8_unsigned
__device__ __forceinline__ void tcgen05_st_32x32b_x8_unsigned(unsigned address, const unsigned* x) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};"
    :: "r"(address), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7]) : "memory");
}

// == tcgen05_wait_ld_sync_aligned
__device__ __forceinline__ void tcgen05_wait_ld_sync_aligned() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

// == tcgen05_wait_st_sync_aligned
__device__ __forceinline__ void tcgen05_wait_st_sync_aligned() {
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

// == unknown_zero
// A zero that only the running machine knows: no compiler can share what was computed before it was added with
// what is computed after.
__device__ __forceinline__ unsigned unknown_zero() {
  unsigned size;
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
  return size >> 31;
}

// == unpack
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

// == unpack_words
// N narrow elements from the words that hold them, and back.
template <int N, class T>
__device__ __forceinline__ void unpack_words(T* x, const unsigned* words) {
  constexpr int per_word = 4 / sizeof(T);
  #pragma unroll
  for (int j = 0; j < N; ++j)
    x[j] = bits<T>::from(words[j / per_word] >> j % per_word * 8 * sizeof(T) & (1u << 8 * sizeof(T)) - 1);
}

// == warp_any
__device__ __forceinline__ bool warp_any(bool x) {
  return __any_sync(0xffffffffu, x);
}

// == warp_max
// Over all lanes. Floats go as integers of the same order; a NaN goes as the largest of them, 0x7fffffff.
__device__ __forceinline__ float warp_max(float x) {
  const int i = (int)__float_as_uint(max_NaN_f32(x, __int_as_float(0xff800000)));
  const int found = __reduce_max_sync(0xffffffffu, i ^ (i >> 31 & 0x7fffffff));
  return __int_as_float(found ^ (found >> 31 & 0x7fffffff));
}

// == warp_max_i32
__device__ __forceinline__ int warp_max_i32(int x) {
  return (int)__reduce_max_sync(0xffffffffu, (int)x);
}

// == warp_min_i32
__device__ __forceinline__ int warp_min_i32(int x) {
  return (int)__reduce_min_sync(0xffffffffu, (int)x);
}

// == warp_sum_i32
__device__ __forceinline__ int warp_sum_i32(int x) {
  return (int)__reduce_add_sync(0xffffffffu, (unsigned)x);
}

// == wgmma_commit_group_sync_aligned
__device__ __forceinline__ void wgmma_commit_group_sync_aligned() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// == wgmma_descriptor
__device__ __forceinline__ unsigned long long wgmma_descriptor(unsigned address, unsigned long long fields) {
  // bits 0-13: address / 16; 16-29 and 32-45: byte offsets / 16; 62-63: swizzle
  return fields | (address & 0x3ffff) >> 4;
}

// == wgmma_fence_sync_aligned
__device__ __forceinline__ void wgmma_fence_sync_aligned() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// == wgmma_m64n128k16_f32_bf16_bf16_registers_tb_x4_fenced
template <int b1, int b2, int b3>
__device__ __forceinline__ void wgmma_m64n128k16_f32_bf16_bf16_registers_tb_x4_fenced(float* d, const unsigned* a, unsigned long long b, bool accumulate) {
  asm volatile("{ .reg .pred p, more; .reg .b64 b<4>; setp.ne.b32 p, %84, 0; setp.eq.b32 more, 0, 0; wgmma.fence.sync.aligned;\n"
    "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%64, %65, %66, %67}, %80, p, 1, 1, 1;\n"
    "add.s64 b1, %80, %81; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%68, %69, %70, %71}, b1, more, 1, 1, 1;\n"
    "add.s64 b2, %80, %82; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%72, %73, %74, %75}, b2, more, 1, 1, 1;\n"
    "add.s64 b3, %80, %83; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%76, %77, %78, %79}, b3, more, 1, 1, 1; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(a[8]), "r"(a[9]), "r"(a[10]), "r"(a[11]), "r"(a[12]), "r"(a[13]), "r"(a[14]), "r"(a[15]), "l"(b), "n"(b1), "n"(b2), "n"(b3), "r"((int)accumulate));
}

// == wgmma_m64n16k16_f32_bf16_bf16_registers_tb_x2_fenced
template <int b1>
__device__ __forceinline__ void wgmma_m64n16k16_f32_bf16_bf16_registers_tb_x2_fenced(float* d, const unsigned* a, unsigned long long b, bool accumulate) {
  asm volatile("{ .reg .pred p, more; .reg .b64 b<2>; setp.ne.b32 p, %18, 0; setp.eq.b32 more, 0, 0; wgmma.fence.sync.aligned;\n"
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %16, p, 1, 1, 1;\n"
    "add.s64 b1, %16, %17; wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%12, %13, %14, %15}, b1, more, 1, 1, 1; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "l"(b), "n"(b1), "r"((int)accumulate));
}

// == wgmma_m64n16k16_f32_bf16_bf16_registers_x2_fenced
template <int b1>
__device__ __forceinline__ void wgmma_m64n16k16_f32_bf16_bf16_registers_x2_fenced(float* d, const unsigned* a, unsigned long long b, bool accumulate) {
  asm volatile("{ .reg .pred p, more; .reg .b64 b<2>; setp.ne.b32 p, %18, 0; setp.eq.b32 more, 0, 0; wgmma.fence.sync.aligned;\n"
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %16, p, 1, 1, 0;\n"
    "add.s64 b1, %16, %17; wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%12, %13, %14, %15}, b1, more, 1, 1, 0; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "l"(b), "n"(b1), "r"((int)accumulate));
}

// == wgmma_m64n32k16_f32_bf16_bf16
__device__ __forceinline__ void wgmma_m64n32k16_f32_bf16_bf16(float* d, unsigned long long a, unsigned long long b, bool accumulate) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %18, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, 0, 0; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
    : "l"(a), "l"(b), "r"((int)accumulate));
}

// == wgmma_m64n32k16_f32_bf16_bf16_x2
template <int a1, int b1>
__device__ __forceinline__ void wgmma_m64n32k16_f32_bf16_bf16_x2(float* d, unsigned long long a, unsigned long long b, bool accumulate) {
  asm volatile("{ .reg .pred p, more; .reg .b64 a<2>; .reg .b64 b<2>; setp.ne.b32 p, %20, 0; setp.eq.b32 more, 0, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %18, p, 1, 1, 0, 0;\n"
    "add.s64 a1, %16, %17; add.s64 b1, %18, %19; wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, a1, b1, more, 1, 1, 0, 0; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
    : "l"(a), "n"(a1), "l"(b), "n"(b1), "r"((int)accumulate));
}

// == wgmma_m64n32k16_f32_bf16_bf16_x4
template <int a1, int a2, int a3, int b1, int b2, int b3>
__device__ __forceinline__ void wgmma_m64n32k16_f32_bf16_bf16_x4(float* d, unsigned long long a, unsigned long long b, bool accumulate) {
  asm volatile("{ .reg .pred p, more; .reg .b64 a<4>; .reg .b64 b<4>; setp.ne.b32 p, %24, 0; setp.eq.b32 more, 0, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %20, p, 1, 1, 0, 0;\n"
    "add.s64 a1, %16, %17; add.s64 b1, %20, %21; wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, a1, b1, more, 1, 1, 0, 0;\n"
    "add.s64 a2, %16, %18; add.s64 b2, %20, %22; wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, a2, b2, more, 1, 1, 0, 0;\n"
    "add.s64 a3, %16, %19; add.s64 b3, %20, %23; wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, a3, b3, more, 1, 1, 0, 0; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
    : "l"(a), "n"(a1), "n"(a2), "n"(a3), "l"(b), "n"(b1), "n"(b2), "n"(b3), "r"((int)accumulate));
}

// == wgmma_m64n64k16_f32_bf16_bf16_registers_tb_x2_fenced
template <int b1>
__device__ __forceinline__ void wgmma_m64n64k16_f32_bf16_bf16_registers_tb_x2_fenced(float* d, const unsigned* a, unsigned long long b, bool accumulate) {
  asm volatile("{ .reg .pred p, more; .reg .b64 b<2>; setp.ne.b32 p, %42, 0; setp.eq.b32 more, 0, 0; wgmma.fence.sync.aligned;\n"
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %40, p, 1, 1, 1;\n"
    "add.s64 b1, %40, %41; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%36, %37, %38, %39}, b1, more, 1, 1, 1; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "l"(b), "n"(b1), "r"((int)accumulate));
}

// == wgmma_m64n64k16_f32_bf16_bf16_tb_x4_listed_a_listed_b
__device__ __forceinline__ void wgmma_m64n64k16_f32_bf16_bf16_tb_x4_listed_a_listed_b(float* d, const unsigned long long* a, const unsigned long long* b, bool accumulate) {
  asm volatile("{ .reg .pred p, more; setp.ne.b32 p, %40, 0; setp.eq.b32 more, 0, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %36, p, 1, 1, 0, 1;\n"
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %33, %37, more, 1, 1, 0, 1;\n"
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %34, %38, more, 1, 1, 0, 1;\n"
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %35, %39, more, 1, 1, 0, 1; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "l"(a[0]), "l"(a[1]), "l"(a[2]), "l"(a[3]), "l"(b[0]), "l"(b[1]), "l"(b[2]), "l"(b[3]), "r"((int)accumulate));
}

// == wgmma_m64n64k16_f32_bf16_bf16_x2
template <int a1, int b1>
__device__ __forceinline__ void wgmma_m64n64k16_f32_bf16_bf16_x2(float* d, unsigned long long a, unsigned long long b, bool accumulate) {
  asm volatile("{ .reg .pred p, more; .reg .b64 a<2>; .reg .b64 b<2>; setp.ne.b32 p, %36, 0; setp.eq.b32 more, 0, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %34, p, 1, 1, 0, 0;\n"
    "add.s64 a1, %32, %33; add.s64 b1, %34, %35; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a1, b1, more, 1, 1, 0, 0; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "l"(a), "n"(a1), "l"(b), "n"(b1), "r"((int)accumulate));
}

// == wgmma_m64n64k16_f32_bf16_bf16_x4
template <int a1, int a2, int a3, int b1, int b2, int b3>
__device__ __forceinline__ void wgmma_m64n64k16_f32_bf16_bf16_x4(float* d, unsigned long long a, unsigned long long b, bool accumulate) {
  asm volatile("{ .reg .pred p, more; .reg .b64 a<4>; .reg .b64 b<4>; setp.ne.b32 p, %40, 0; setp.eq.b32 more, 0, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %36, p, 1, 1, 0, 0;\n"
    "add.s64 a1, %32, %33; add.s64 b1, %36, %37; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a1, b1, more, 1, 1, 0, 0;\n"
    "add.s64 a2, %32, %34; add.s64 b2, %36, %38; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a2, b2, more, 1, 1, 0, 0;\n"
    "add.s64 a3, %32, %35; add.s64 b3, %36, %39; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a3, b3, more, 1, 1, 0, 0; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "l"(a), "n"(a1), "n"(a2), "n"(a3), "l"(b), "n"(b1), "n"(b2), "n"(b3), "r"((int)accumulate));
}

// == wgmma_m64n64k16_f32_bf16_bf16_x8
template <int a1, int a2, int a3, int a4, int a5, int a6, int a7, int b1, int b2, int b3, int b4, int b5, int b6, int b7>
__device__ __forceinline__ void wgmma_m64n64k16_f32_bf16_bf16_x8(float* d, unsigned long long a, unsigned long long b, bool accumulate) {
  asm volatile("{ .reg .pred p, more; .reg .b64 a<8>; .reg .b64 b<8>; setp.ne.b32 p, %48, 0; setp.eq.b32 more, 0, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %40, p, 1, 1, 0, 0;\n"
    "add.s64 a1, %32, %33; add.s64 b1, %40, %41; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a1, b1, more, 1, 1, 0, 0;\n"
    "add.s64 a2, %32, %34; add.s64 b2, %40, %42; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a2, b2, more, 1, 1, 0, 0;\n"
    "add.s64 a3, %32, %35; add.s64 b3, %40, %43; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a3, b3, more, 1, 1, 0, 0;\n"
    "add.s64 a4, %32, %36; add.s64 b4, %40, %44; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a4, b4, more, 1, 1, 0, 0;\n"
    "add.s64 a5, %32, %37; add.s64 b5, %40, %45; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a5, b5, more, 1, 1, 0, 0;\n"
    "add.s64 a6, %32, %38; add.s64 b6, %40, %46; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a6, b6, more, 1, 1, 0, 0;\n"
    "add.s64 a7, %32, %39; add.s64 b7, %40, %47; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a7, b7, more, 1, 1, 0, 0; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "l"(a), "n"(a1), "n"(a2), "n"(a3), "n"(a4), "n"(a5), "n"(a6), "n"(a7), "l"(b), "n"(b1), "n"(b2), "n"(b3), "n"(b4), "n"(b5), "n"(b6), "n"(b7), "r"((int)accumulate));
}

// == wgmma_m64n64k32_f32_e4m3_e4m3_x4
template <int a1, int a2, int a3, int b1, int b2, int b3>
__device__ __forceinline__ void wgmma_m64n64k32_f32_e4m3_e4m3_x4(float* d, unsigned long long a, unsigned long long b, bool accumulate) {
  asm volatile("{ .reg .pred p, more; .reg .b64 a<4>; .reg .b64 b<4>; setp.ne.b32 p, %40, 0; setp.eq.b32 more, 0, 0;\n"
    "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %36, p, 1, 1;\n"
    "add.s64 a1, %32, %33; add.s64 b1, %36, %37; wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a1, b1, more, 1, 1;\n"
    "add.s64 a2, %32, %34; add.s64 b2, %36, %38; wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a2, b2, more, 1, 1;\n"
    "add.s64 a3, %32, %35; add.s64 b3, %36, %39; wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, a3, b3, more, 1, 1; }"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
    : "l"(a), "n"(a1), "n"(a2), "n"(a3), "l"(b), "n"(b1), "n"(b2), "n"(b3), "r"((int)accumulate));
}

// == wgmma_wait_group_0
__device__ __forceinline__ void wgmma_wait_group_0() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// == wgmma_wait_group_1
__device__ __forceinline__ void wgmma_wait_group_1() {
  asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}

// == wrap_add
// Signed integers wrap around, as the machine's do; C++ leaves that open.
__device__ __forceinline__ int wrap_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
__device__ __forceinline__ long long wrap_add(long long a, long long b) {
  return (long long)((unsigned long long)a + (unsigned long long)b);
}

// == wrap_mul
// Signed integers wrap around, as the machine's do; C++ leaves that open.
__device__ __forceinline__ int wrap_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
__device__ __forceinline__ long long wrap_mul(long long a, long long b) {
  return (long long)((unsigned long long)a * (unsigned long long)b);
}

// == wrap_sub
// Signed integers wrap around, as the machine's do; C++ leaves that open.
__device__ __forceinline__ int wrap_sub(int a, int b) { return (int)((unsigned)a - (unsigned)b); }
__device__ __forceinline__ long long wrap_sub(long long a, long long b) {
  return (long long)((unsigned long long)a - (unsigned long long)b);
}
