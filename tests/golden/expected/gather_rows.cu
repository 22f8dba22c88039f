// gather_rows(BM=32, BN=64) for sm_90a, from kernels.py:59
// 128 threads, 0 bytes of shared memory

typedef unsigned short px_f16;
template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   wrap_mul
//   wrap_add
//   inside
//   load_words
//   bits
//   fill_words
//   unpack_words
//   unpack
//   store_vector_if

extern "C" __global__ void __launch_bounds__(128, 1) gather_rows_kernel(
    const __grid_constant__ px_array<px_f16, 2> X,
    const __grid_constant__ px_array<int, 1> I,
    const __grid_constant__ px_array<px_f16, 2> Y) {
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  // kernels.py:61: span = Span(px.block_id(0) * BM, px.block_id(0) * BM + BM)
  const int block_x = (int)blockIdx.x;
  // kernels.py:62: span.clamp(Y.shape[0])
  const int Y_size0 = Y.shape[0];
  // kernels.py:64: for n in range(0, X.shape[1], BN):
  const int X_size1 = X.shape[1];
  // kernels.py:61: span = Span(px.block_id(0) * BM, px.block_id(0) * BM + BM)
  const int t = ptx::wrap_mul(block_x, 32);
  // kernels.py:25: if self.last > size:  (called at kernels.py:62)
  const bool t_1 = (ptx::wrap_add(ptx::wrap_mul(block_x, 32), 32)) > Y_size0;
  if (t_1) {
  }
  // kernels.py:63: rows = px.load(I[span.first : span.first + BM], fill=-1)
  int rows[2];
  {
    const unsigned x0 = (unsigned)t + (px_lane >> 3) + px_warp_id * 4;
    int* const p = I.data + ((int)x0);
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
      rows[i] = ptx::inside(x0 + i * 16, I.shape[0]) ? *(p + i * 16) : (-1);
    }
  }
  // kernels.py:64: for n in range(0, X.shape[1], BN):
  for (int n = 0; n < X_size1; n += 64) {
    // kernels.py:65: px.store(Y[span.first : span.first + BM, n : n + BN], px.load(X[rows, n : n + BN]))
    px_f16 t_2[16];
    {
      const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
      px_f16* const p = X.data + ((int)x1);
      unsigned words[8];
      #pragma unroll
      for (int i = 0; i < 16; i += 8) {
        if (ptx::inside(rows[i >> 3], X.shape[0]) && ptx::inside(x1, X.shape[1])) ptx::load_words<8>(words + i / 2, p + rows[i >> 3] * X.stride[0]);
        else ptx::fill_words<8, px_f16>(words + i / 2, (px_f16)0x0000);
      }
      ptx::unpack_words<16>(t_2, words);
    }
    {
      const unsigned x0 = (unsigned)t + (px_lane >> 3) + px_warp_id * 4;
      const unsigned x1 = (unsigned)n + (px_lane & 7) * 8;
      px_f16* const p = Y.data + ((int)x0 * Y.stride[0] + (int)x1);
      #pragma unroll
      for (int i = 0; i < 16; i += 8) {
        ptx::store_vector_if<8>(p + (i >> 3) * 16 * Y.stride[0], t_2 + i, ptx::inside(x0 + (i >> 3) * 16, Y.shape[0]) & ptx::inside(x1, Y.shape[1]));
      }
    }
  }
}
