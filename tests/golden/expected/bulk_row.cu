// bulk_row(N=4096) for sm_90a, from kernels.py:79
// 32 threads, 8208 bytes of shared memory

typedef unsigned short px_bf16;
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

__device__ __forceinline__ void mbarrier_arrive_expect_tx_shared_cta(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  unsigned address;
  asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(pointer));
  return address;
}

__device__ __forceinline__ void cp_async_bulk_shared_global(
    unsigned dst, const void* src, unsigned bytes, unsigned bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(dst), "l"(src), "r"(bytes), "r"(bar) : "memory");
}

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

__device__ __forceinline__ void fence_proxy_async_shared_cta() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_complete_tx_relaxed_cta_shared_cta(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}

template <class T>
__device__ __forceinline__ void bulk_load(T* dst, const T* src, int start, int size, int n, unsigned bar) {
  const px_inside<T> in(start, size, n);
  if (in.first == 0 && in.whole == n) {
    cp_async_bulk_shared_global(shared_address(dst), src, n * sizeof(T), bar);
    return;
  }
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) cp_async_bulk_shared_global(shared_address(dst + in.first), src + in.first, bytes, bar);
  for (int i = 0; i < in.first; ++i) dst[i] = T(0);
  for (int i = in.whole; i < n; ++i) dst[i] = i < in.last ? src[i] : T(0);
  __threadfence_block();  // whoever waits for the credit below sees these stores,
  fence_proxy_async_shared_cta();  // and so does a copy that reads them later
  mbarrier_complete_tx_relaxed_cta_shared_cta(bar, n * sizeof(T) - bytes);
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

__device__ __forceinline__ void cp_async_bulk_global_shared(void* dst, unsigned src, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(dst), "r"(src), "r"(bytes) : "memory");
}

template <class T>
__device__ __forceinline__ void bulk_store(T* dst, int start, int size, int n, const T* src) {
  const px_inside<T> in(start, size, n);
  const unsigned bytes = (in.whole - in.first) * sizeof(T);
  if (bytes != 0) cp_async_bulk_global_shared(dst + in.first, shared_address(src + in.first), bytes);
  for (int i = in.whole; i < in.last; ++i) dst[i] = src[i];
}

__device__ __forceinline__ void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ __forceinline__ void cp_async_bulk_wait_group_0() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

__device__ __forceinline__ bool elect_sync() {
  unsigned elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

}  // namespace ptx

extern "C" __global__ void __launch_bounds__(32, 1) bulk_row_kernel(
    const __grid_constant__ px_array<px_bf16, 2> X,
    const __grid_constant__ px_array<px_bf16, 2> Y) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned ready = px_base + 8192;
  px_bf16* const s = reinterpret_cast<px_bf16*>(px_smem);
  const bool px_one = ptx::elect_sync();
  // kernels.py:82: ready = px.barrier()
  if (px_one) {
    ptx::mbarrier_init_shared_cta(ready, 1);
    // kernels.py:79: def bulk_row(X, Y, *, N=4096):
    ptx::fence_mbarrier_init_release_cluster();
  }
  __syncwarp();  // barriers are initialised before their first use
  // kernels.py:83: row = px.block_id(0)
  const int block_x = (int)blockIdx.x;
  // kernels.py:84: ready.arrive_and_expect_tx(s.nbytes)
  if (px_one) {
    ptx::mbarrier_arrive_expect_tx_shared_cta(ready, 8192);
    // kernels.py:85: px.tma.load(X[row, 0:N], s, ready)
    // bulk copy: one contiguous run of 8192 bytes from a multiple of 16 bytes
    ptx::bulk_load(s, X.data + (long long)block_x * X.stride[0], 0, ((unsigned)block_x < (unsigned)X.shape[0] ? X.shape[1] : 0), 4096, ready);
  }
  // kernels.py:86: ready.wait(0)
  ptx::mbarrier_wait_parity(ready, 0);
  // kernels.py:87: px.tma.store(s, Y[row, 0:N])
  if (px_one) {
    // bulk copy: one contiguous run of 8192 bytes from a multiple of 16 bytes
    ptx::bulk_store(Y.data + (long long)block_x * Y.stride[0], 0, ((unsigned)block_x < (unsigned)Y.shape[0] ? Y.shape[1] : 0), 4096, s);
    // kernels.py:88: px.tma.commit()
    ptx::cp_async_bulk_commit_group();
    // kernels.py:89: px.tma.wait(0)
    ptx::cp_async_bulk_wait_group_0();
  }
}
