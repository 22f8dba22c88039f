// find_first(BLOCK=64) for sm_90a, from kernels.py:43
// 64 threads, 16 bytes of shared memory

template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   inside
//   warp_max_i32
//   maximum
//   wrap_add
//   wrap_mul
//   px_stop
//   elect_sync

extern "C" __global__ void __launch_bounds__(64, 1) find_first_kernel(
    const __grid_constant__ px_array<float, 1> X,
    const __grid_constant__ px_array<int, 1> R,
    const int n,
    unsigned long long* px_debug) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const int px_thread = (int)threadIdx.x;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  // kernels.py:47: while i < n:
  int i = 0;
  int found = -1;
  while (i < n) {
    // kernels.py:48: hit = px.max(px.where(px.load(X[i : i + BLOCK]) > 0.5, 1, 0))
    float t[1];
    {
      const unsigned x0 = (unsigned)i + px_lane + px_warp_id * 32;
      float* const p = X.data + ((int)x0);
      t[0] = ptx::inside(x0, X.shape[0]) ? *(p) : 0.0f;
    }
    bool t_1[1];
    t_1[0] = t[0] > 0.5f;
    int t_2[1];
    t_2[0] = t_1[0] ? 1 : 0;
    int hit_max[1];
    {
      hit_max[0] = t_2[0];
      hit_max[0] = ptx::warp_max_i32(hit_max[0]);
      int* const partial = reinterpret_cast<int*>((px_smem + 0));
      const int part = px_warp_id;
      __syncthreads();  // scratch memory is free
      if (px_lane == 0) {
        partial[part] = hit_max[0];
      }
      __syncthreads();
      hit_max[0] = partial[0];
      #pragma unroll
      for (int j = 1; j < 2; ++j) {
        hit_max[0] = ptx::maximum<int>(hit_max[0], partial[j]);
      }
    }
    const int hit = hit_max[0];
    // kernels.py:49: if hit == 1:
    if (hit == 1) {
      // kernels.py:47: while i < n:
      found = i;
      // kernels.py:51: break
      break;
    }
    // kernels.py:52: i += BLOCK
    i = ptx::wrap_add(i, 64);
  }
  // kernels.py:47: while i < n:
  // kernels.py:31: return px.cdiv(x, step) * step  (called at kernels.py:53)
  const int t = ptx::wrap_mul((ptx::wrap_add((n >> 6), ((int)((n & 63) != 0)))), 64);
  // kernels.py:53: px.device_assert(i <= first_multiple(n, BLOCK), "ran past the end")
  if (!(i <= t)) ptx::px_stop(px_debug, 0, 0, 0);
  // kernels.py:54: px.print("found in block", found)
  if (px_one) {
    printf("block (%d, %d, %d), all warps: found in block %d\n", (int)blockIdx.x, (int)blockIdx.y, (int)blockIdx.z, found);
  }
  // kernels.py:55: px.store(R[0], found)
  if (px_thread == 0 && ptx::inside(0, R.shape[0])) *(R.data) = found;
}
