// ring_copy(BM=64, BN=64, STAGES=2) for sm_90a, from ring_copy.py:14
// 64 threads, 32800 bytes of shared memory

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
__device__ __forceinline__ int wrap_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
__device__ __forceinline__ long long wrap_add(long long a, long long b) {
  return (long long)((unsigned long long)a + (unsigned long long)b);
}

// Signed integers wrap around, as the machine's do; C++ leaves that open.
__device__ __forceinline__ int wrap_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
__device__ __forceinline__ long long wrap_mul(long long a, long long b) {
  return (long long)((unsigned long long)a * (unsigned long long)b);
}

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

__device__ __forceinline__ void cp_async_bulk_tensor_2d_global_shared(
    const void* map, int c0, int c1, unsigned src) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
               :: "l"(map), "r"(c0), "r"(c1), "r"(src) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ __forceinline__ void cp_async_bulk_wait_group_read_0() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive_shared_cta(unsigned bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory");
}

__device__ __forceinline__ void cp_async_bulk_wait_group_0() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  unsigned address;
  asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(pointer));
  return address;
}

}  // namespace ptx

extern "C" __global__ void __launch_bounds__(64, 1) ring_copy_kernel(
    const __grid_constant__ px_array<float, 2> X,
    const __grid_constant__ px_array<float, 2> Y,
    const __grid_constant__ px_tensor_map X_map,
    const __grid_constant__ px_tensor_map Y_map) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned full = px_base + 32768;
  const unsigned empty = px_base + 32784;
  const unsigned stages_addr = px_base;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&X_map);
    ptx::prefetch_tensormap(&Y_map);
  }
  // ring_copy.py:16: full = px.barrier(STAGES)
  if (px_one) {
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(full + 8 * px_i, 1);
    // ring_copy.py:17: empty = px.barrier(STAGES)
    for (int px_i = 0; px_i < 2; ++px_i) ptx::mbarrier_init_shared_cta(empty + 8 * px_i, 1);
    // ring_copy.py:14: def ring_copy(X, Y, *, BM=64, BN=64, STAGES=4):
    ptx::fence_mbarrier_init_release_cluster();
  }
  __syncthreads();  // barriers are initialised before their first use
  // ring_copy.py:18: across = px.cdiv(X.shape[1], BN)
  const int X_size0 = X.shape[0];
  const int X_size1 = X.shape[1];
  // ring_copy.py:23: for tile in range(px.block_id(0), tiles, px.num_blocks(0)):
  const int block_x = (int)blockIdx.x;
  const int blocks_x = (int)gridDim.x;
  // ring_copy.py:18: across = px.cdiv(X.shape[1], BN)
  const int across = ptx::wrap_add((X_size1 >> 6), ((int)((X_size1 & 63) != 0)));
  // ring_copy.py:19: tiles = px.cdiv(X.shape[0], BM) * across
  const int t = ptx::wrap_add((X_size0 >> 6), ((int)((X_size0 & 63) != 0)));
  const int tiles = ptx::wrap_mul(t, across);
  // ring_copy.py:22: with px.warps(0, 1):
  if (px_warp_id == 0) {  // warp 0
    const bool px_one = ptx::elect_sync();
    // ring_copy.py:23: for tile in range(px.block_id(0), tiles, px.num_blocks(0)):
    int stage = 0;
    int parity = 0;
    #pragma unroll 1
    for (int tile = block_x; tile < tiles; tile += blocks_x) {
      // ring_copy.py:24: m, n = tile // across * BM, tile % across * BN
      const int m = ptx::wrap_mul((ptx::floor_div<int>(tile, across)), 64);
      const int n = ptx::wrap_mul((ptx::floor_mod<int>(tile, across)), 64);
      // ring_copy.py:25: empty[ring.stage].wait(ring.parity ^ 1)
      ptx::mbarrier_wait_parity(empty + 8 * stage, parity ^ 1);
      // ring_copy.py:26: with full[ring.stage].transaction():
      __syncwarp();  // all threads have passed the wait at line 25 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_expect_tx_shared_cta(full + 8 * stage, 16384);
        // ring_copy.py:27: px.tma.load(X[m : m + BM, n : n + BN], stages[ring.stage], full[ring.stage])
        // tensor copy: a box of 64 x 64
        ptx::cp_async_bulk_tensor_2d_shared_global(stages_addr + stage * 16384, &X_map, n, m, full + 8 * stage);
      }
      // ring_copy.py:28: ring.advance()
      const int t_1 = ptx::wrap_add(stage, 1);
      const bool t_2 = t_1 == 2;
      stage = t_2 ? 0 : t_1;
      parity = parity ^ ((int)t_2);
    }
  } else if (px_warp_id == 1) {  // warp 1
    const bool px_one = ptx::elect_sync();
    // ring_copy.py:31: for tile in range(px.block_id(0), tiles, px.num_blocks(0)):
    int stage = 0;
    int parity = 0;
    #pragma unroll 1
    for (int tile = block_x; tile < tiles; tile += blocks_x) {
      // ring_copy.py:32: m, n = tile // across * BM, tile % across * BN
      const int m = ptx::wrap_mul((ptx::floor_div<int>(tile, across)), 64);
      const int n = ptx::wrap_mul((ptx::floor_mod<int>(tile, across)), 64);
      // ring_copy.py:33: full[ring.stage].wait(ring.parity)
      ptx::mbarrier_wait_parity(full + 8 * stage, parity);
      // ring_copy.py:34: px.tma.store(stages[ring.stage], Y[m : m + BM, n : n + BN])
      if (px_one) {
        // tensor copy: a box of 64 x 64
        ptx::cp_async_bulk_tensor_2d_global_shared(&Y_map, n, m, stages_addr + stage * 16384);
        // ring_copy.py:35: px.tma.commit()
        ptx::cp_async_bulk_commit_group();
        // ring_copy.py:36: px.tma.wait(0, read=True)  # the engine has read the stage
        ptx::cp_async_bulk_wait_group_read_0();
      }
      // ring_copy.py:37: empty[ring.stage].arrive()
      __syncwarp();  // all threads have passed the wait at line 33 before the elected thread goes on
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(empty + 8 * stage);
      }
      // ring_copy.py:38: ring.advance()
      const int t_1 = ptx::wrap_add(stage, 1);
      const bool t_2 = t_1 == 2;
      stage = t_2 ? 0 : t_1;
      parity = parity ^ ((int)t_2);
    }
    // ring_copy.py:39: px.tma.wait(0)
    if (px_one) {
      ptx::cp_async_bulk_wait_group_0();
    }
  }
}
