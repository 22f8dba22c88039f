// pack_scale_tiles(COLUMNS=16) for sm_100a, from quantize.py
// 128 threads, 8192 bytes of shared memory

typedef unsigned char px_f8e8m0;
template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   griddepcontrol_wait
//   griddepcontrol_launch_dependents
//   wrap_mul
//   inside
//   load_words
//   bits
//   fill_words
//   unpack_words
//   unpack
//   store_vector

extern "C" __global__ void __launch_bounds__(128, 1) pack_scale_tiles_kernel(
    const __grid_constant__ px_array<px_f8e8m0, 2> S,
    const __grid_constant__ px_array<px_f8e8m0, 5> PACKED) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  // quantize.py: row = px.block_id(0)
  const int block_x = (int)blockIdx.x;
  // quantize.py: column = px.block_id(1) * COLUMNS
  const int block_y = (int)blockIdx.y;
  // launches.py: px.wait_prior()  (called at quantize.py)
  ptx::griddepcontrol_wait();
  // launches.py: px.launch_dependents()  (called at quantize.py)
  ptx::griddepcontrol_launch_dependents();
  // quantize.py: column = px.block_id(1) * COLUMNS
  const int column = ptx::wrap_mul(block_y, 16);
  // quantize.py: first = column * TOGETHER
  const int first = ptx::wrap_mul(column, 4);
  // quantize.py: scales = px.load(S[row * ROWS : row * ROWS + ROWS, first : first + COLUMNS * TOGETHER])
  px_f8e8m0 scales[64];
  {
    const unsigned x0 = (unsigned)ptx::wrap_mul(block_x, 128) + (px_lane >> 2) + px_warp_id * 8;
    const unsigned x1 = (unsigned)first + (px_lane & 3) * 16;
    px_f8e8m0* const p = S.data + ((int)x0 * S.stride[0] + (int)x1);
    unsigned words[16];
    #pragma unroll
    for (int i = 0; i < 64; i += 16) {
      if (ptx::inside(x0 + (i >> 4) * 32, S.shape[0]) && ptx::inside(x1, S.shape[1])) ptx::load_words<16>(words + i / 4, p + (i >> 4) * 32 * S.stride[0]);
      else ptx::fill_words<16, px_f8e8m0>(words + i / 4, (px_f8e8m0)0x00);
    }
    ptx::unpack_words<64>(scales, words);
  }
  // quantize.py: blocks = scales.reshape(ROWS // LANES, LANES, COLUMNS, TOGETHER).permute(2, 1, 0, 3)  (called at quantize.py)
  px_f8e8m0 t[64];
  #pragma unroll
  for (int i = 0; i < 64; ++i) t[i] = scales[i];
  px_f8e8m0 blocks[64];
  #pragma unroll
  for (int i = 0; i < 64; ++i) blocks[i] = t[i];
  // quantize.py: px.store(PACKED[row, column : column + COLUMNS, 0:LANES, 0 : ROWS // LANES, 0:TOGETHER], blocks)  (called at quantize.py)
  px_f8e8m0 blocks_1[64];
  {
    px_f8e8m0* const scratch = reinterpret_cast<px_f8e8m0*>((px_smem + 0));
    {
      auto* const p = scratch + (px_lane & 3) * 2048 + (px_lane >> 2) * 16 + px_warp_id * 128;
      #pragma unroll
      for (int i = 0; i < 64; i += 4) {
        ptx::store_vector<4>(p + ((i >> 2) & 3) * 512 + (i >> 4) * 4, blocks + (i >> 2) * 4);
      }
    }
    __syncthreads();
    {
      auto* const p = scratch + px_lane + px_warp_id * 512;
      #pragma unroll
      for (int i = 0; i < 64; ++i) {
        blocks_1[i] = *(p + (i & 15) * 32 + (i >> 4) * 2048);
      }
    }
  }
  {
    const unsigned x1 = (unsigned)column + px_warp_id;
    const int x2 = (px_lane >> 4);
    const int x3 = ((px_lane >> 2) & 3);
    const int x4 = (px_lane & 3);
    px_f8e8m0* const p = PACKED.data + (block_x * PACKED.stride[0] + (int)x1 * PACKED.stride[1] + x2 * PACKED.stride[2] + x3 * PACKED.stride[3] + x4);
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
      if (ptx::inside(block_x, PACKED.shape[0]) && ptx::inside(x1 + (i >> 4) * 4, PACKED.shape[1]) && ptx::inside(x2 + (i & 15) * 2, PACKED.shape[2]) && ptx::inside(x3, PACKED.shape[3]) && ptx::inside(x4, PACKED.shape[4])) *(p + (i >> 4) * 4 * PACKED.stride[1] + (i & 15) * 2 * PACKED.stride[2]) = blocks_1[i];
    }
  }
}
