// add(BLOCK=1024) for sm_90a, from vector_add.py:10
// 128 threads, 0 bytes of shared memory

template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   wrap_mul
//   inside
//   bits
//   unpack
//   load_vector
//   fill_vector
//   store_vector

extern "C" __global__ void __launch_bounds__(128, 1) add_kernel(
    const __grid_constant__ px_array<float, 1> X,
    const __grid_constant__ px_array<float, 1> Y,
    const __grid_constant__ px_array<float, 1> Z) {
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  // vector_add.py:11: i = px.block_id(0) * BLOCK
  const int block_x = (int)blockIdx.x;
  const int i = ptx::wrap_mul(block_x, 1024);
  // vector_add.py:12: x = px.load(X[i : i + BLOCK])
  float x[8];
  {
    const unsigned x0 = (unsigned)i + px_lane * 4 + px_warp_id * 128;
    float* const p = X.data + ((int)x0);
    if (X.shape[0] % 4 == 0 || i <= X.shape[0] - 1024) {
      #pragma unroll
      for (int i_1 = 0; i_1 < 8; i_1 += 4) {
        if (ptx::inside(x0 + (i_1 >> 2) * 512, X.shape[0])) ptx::load_vector<4>(x + i_1, p + (i_1 >> 2) * 512);
        else ptx::fill_vector<4>(x + i_1, 0.0f);
      }
    } else {
      #pragma unroll
      for (int i_1 = 0; i_1 < 8; ++i_1) {
        x[i_1] = ptx::inside(x0 + (i_1 & 3) + (i_1 >> 2) * 512, X.shape[0]) ? *(p + (i_1 & 3) + (i_1 >> 2) * 512) : 0.0f;
      }
    }
  }
  // vector_add.py:13: y = px.load(Y[i : i + BLOCK])
  float y[8];
  {
    const unsigned x0 = (unsigned)i + px_lane * 4 + px_warp_id * 128;
    float* const p = Y.data + ((int)x0);
    if (Y.shape[0] % 4 == 0 || i <= Y.shape[0] - 1024) {
      #pragma unroll
      for (int i_1 = 0; i_1 < 8; i_1 += 4) {
        if (ptx::inside(x0 + (i_1 >> 2) * 512, Y.shape[0])) ptx::load_vector<4>(y + i_1, p + (i_1 >> 2) * 512);
        else ptx::fill_vector<4>(y + i_1, 0.0f);
      }
    } else {
      #pragma unroll
      for (int i_1 = 0; i_1 < 8; ++i_1) {
        y[i_1] = ptx::inside(x0 + (i_1 & 3) + (i_1 >> 2) * 512, Y.shape[0]) ? *(p + (i_1 & 3) + (i_1 >> 2) * 512) : 0.0f;
      }
    }
  }
  // vector_add.py:14: px.store(Z[i : i + BLOCK], x + y)
  float t[8];
  #pragma unroll
  for (int i_1 = 0; i_1 < 8; ++i_1) t[i_1] = x[i_1] + y[i_1];
  {
    const unsigned x0 = (unsigned)i + px_lane * 4 + px_warp_id * 128;
    float* const p = Z.data + ((int)x0);
    if (Z.shape[0] % 4 == 0 || i <= Z.shape[0] - 1024) {
      #pragma unroll
      for (int i_1 = 0; i_1 < 8; i_1 += 4) {
        if (ptx::inside(x0 + (i_1 >> 2) * 512, Z.shape[0])) ptx::store_vector<4>(p + (i_1 >> 2) * 512, t + i_1);
      }
    } else {
      #pragma unroll
      for (int i_1 = 0; i_1 < 8; ++i_1) {
        if (ptx::inside(x0 + (i_1 & 3) + (i_1 >> 2) * 512, Z.shape[0])) *(p + (i_1 & 3) + (i_1 >> 2) * 512) = t[i_1];
      }
    }
  }
}
