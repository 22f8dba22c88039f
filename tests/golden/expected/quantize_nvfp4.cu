// quantize_tiles(BN=128, BLOCK=16, LARGEST=6.0) for sm_100a, from quantize.py
// 256 threads, 32768 bytes of shared memory

typedef unsigned short px_bf16;
typedef unsigned char px_f8e4m3;
typedef unsigned char px_f4e2m1;
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
//   load_words_once
//   bits
//   fill_words
//   unpack_words
//   bf16_to_float
//   max_NaN_f32
//   shuffle_xor
//   f8e4m3_four_from_float
//   f8e4m3_to_float
//   unpack
//   store_vector
//   load_vector
//   f4e2m1_pair_from_float

extern "C" __global__ void __launch_bounds__(256, 1) quantize_tiles_kernel(
    const __grid_constant__ px_array<px_bf16, 2> X,
    const __grid_constant__ px_array<unsigned char, 2> CODES,
    const __grid_constant__ px_array<px_f8e4m3, 5> PACKED,
    const float tensor_scale) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  // quantize.py: row = px.block_id(0)
  const int block_x = (int)blockIdx.x;
  // quantize.py: n = px.block_id(1) * BN
  const int block_y = (int)blockIdx.y;
  // launches.py: px.wait_prior()  (called at quantize.py)
  ptx::griddepcontrol_wait();
  // launches.py: px.launch_dependents()  (called at quantize.py)
  ptx::griddepcontrol_launch_dependents();
  // quantize.py: n = px.block_id(1) * BN
  const int n = ptx::wrap_mul(block_y, 128);
  // quantize.py: x = px.load(X[row * ROWS : row * ROWS + ROWS, n : n + BN], once=True).to(px.f32).reshape(ROWS, BN // BLOCK, BLOCK)
  px_bf16 t[64];
  {
    const unsigned x0 = (unsigned)ptx::wrap_mul(block_x, 128) + (px_lane >> 4) + px_warp_id * 2;
    const unsigned x1 = (unsigned)n + (px_lane & 15) * 8;
    px_bf16* const p = X.data + ((int)x0 * X.stride[0] + (int)x1);
    unsigned words[32];
    #pragma unroll
    for (int i = 0; i < 64; i += 8) {
      ptx::fill_words<8, px_bf16>(words + i / 2, (px_bf16)0x0000);
      ptx::load_words_once<8>(words + i / 2, p + (i >> 3) * 16 * X.stride[0], ptx::inside(x0 + (i >> 3) * 16, X.shape[0]) & ptx::inside(x1, X.shape[1]));
    }
    ptx::unpack_words<64>(t, words);
  }
  float t_1[64];
  #pragma unroll
  for (int i = 0; i < 64; ++i) t_1[i] = ptx::bf16_to_float(t[i]);
  float x[64];
  #pragma unroll
  for (int i = 0; i < 64; ++i) x[i] = t_1[i];
  // quantize.py: scale = (px.max(px.abs(x), 2) / (tensor_scale * LARGEST)).to(PACKED.dtype)
  float t_2[64];
  #pragma unroll
  for (int i = 0; i < 64; ++i) t_2[i] = fabsf(x[i]);
  float t_max[8];
  {
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      t_max[i] = __int_as_float(0xff800000);
    }
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
      t_max[i >> 3] = ptx::max_NaN_f32(t_max[i >> 3], t_2[i]);
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      t_max[i] = ptx::max_NaN_f32(t_max[i], ptx::shuffle_xor(t_max[i], 1));
    }
  }
  float t_3[8];
  #pragma unroll
  for (int i = 0; i < 8; ++i) t_3[i] = t_max[i];
  float t_4[8];
  #pragma unroll
  for (int i = 0; i < 8; ++i) t_4[i] = t_3[i] / (tensor_scale * 6.0f);
  px_f8e4m3 scale[8];
  #pragma unroll
  for (int i = 0; i < 8; i += 4) ptx::f8e4m3_four_from_float(scale + i, t_4[i], t_4[i + 1], t_4[i + 2], t_4[i + 3]);
  // quantize.py: store_in_blocks(PACKED, scale, row, px.block_id(1) * COLUMNS, COLUMNS)
  // quantize.py: blocks = scales.reshape(ROWS // LANES, LANES, COLUMNS, TOGETHER).permute(2, 1, 0, 3)  (called at quantize.py)
  px_f8e4m3 t_5[8];
  #pragma unroll
  for (int i = 0; i < 8; ++i) t_5[i] = scale[i];
  px_f8e4m3 blocks[8];
  #pragma unroll
  for (int i = 0; i < 8; ++i) blocks[i] = t_5[i];
  // quantize.py: px.store(PACKED[row, column : column + COLUMNS, 0:LANES, 0 : ROWS // LANES, 0:TOGETHER], blocks)  (called at quantize.py)
  if ((px_lane & 1) == 0) {
    const unsigned x1 = (unsigned)ptx::wrap_mul(block_y, 2) + ((px_lane >> 3) & 1);
    const int x2 = (px_lane >> 4) + px_warp_id * 2;
    const int x4 = ((px_lane >> 1) & 3);
    px_f8e4m3* const p = PACKED.data + (block_x * PACKED.stride[0] + (int)x1 * PACKED.stride[1] + x2 * PACKED.stride[2] + x4);
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (ptx::inside(block_x, PACKED.shape[0]) && ptx::inside(x1, PACKED.shape[1]) && ptx::inside(x2 + (i & 1) * 16, PACKED.shape[2]) && ptx::inside((i >> 1), PACKED.shape[3]) && ptx::inside(x4, PACKED.shape[4])) *(p + (i & 1) * 16 * PACKED.stride[2] + (i >> 1) * PACKED.stride[3]) = blocks[i];
    }
  }
  // quantize.py: factor = (scale.to(px.f32) * tensor_scale)[:, :, None]
  float scale_1[8];
  #pragma unroll
  for (int i = 0; i < 8; ++i) scale_1[i] = ptx::f8e4m3_to_float(scale[i]);
  float t_6[8];
  #pragma unroll
  for (int i = 0; i < 8; ++i) t_6[i] = scale_1[i] * tensor_scale;
  float factor[8];
  #pragma unroll
  for (int i = 0; i < 8; ++i) factor[i] = t_6[i];
  // quantize.py: codes = px.where(factor == 0.0, 0.0, x / factor)  # a block too small for a scale is 0
  bool t_7[8];
  #pragma unroll
  for (int i = 0; i < 8; ++i) t_7[i] = factor[i] == 0.0f;
  float t_8[64];
  #pragma unroll
  for (int i = 0; i < 64; ++i) t_8[i] = x[i] / factor[i >> 3];
  float codes[64];
  #pragma unroll
  for (int i = 0; i < 64; ++i) codes[i] = t_7[i >> 3] ? 0.0f : t_8[i];
  // quantize.py: px.store(CODES[row * ROWS : row * ROWS + ROWS, n : n + BN], codes.reshape(ROWS, BN).to(CODES.dtype))
  float t_9[64];
  #pragma unroll
  for (int i = 0; i < 64; ++i) t_9[i] = codes[i];
  float t_10[64];
  {
    float* const scratch = reinterpret_cast<float*>((px_smem + 0));
    {
      auto* const p = scratch + px_lane * 8 + px_warp_id * 256;
      #pragma unroll
      for (int i = 0; i < 32; i += 4) {
        ptx::store_vector<4>(p + ((i >> 2) & 1) * 4 + (i >> 3) * 2048, t_9 + (i >> 2) * 4);
      }
    }
    __syncthreads();
    {
      auto* const p = scratch + px_lane * 4 + px_warp_id * 128;
      #pragma unroll
      for (int i = 0; i < 32; i += 4) {
        ptx::load_vector<4>(t_10 + (i >> 2) * 4, p + (i >> 2) * 1024);
      }
    }
    __syncthreads();  // the next part
    {
      auto* const p = scratch + px_lane * 8 + px_warp_id * 256;
      #pragma unroll
      for (int i = 0; i < 32; i += 4) {
        ptx::store_vector<4>(p + ((i >> 2) & 1) * 4 + (i >> 3) * 2048, t_9 + (i >> 2) * 4 + 32);
      }
    }
    __syncthreads();
    {
      auto* const p = scratch + px_lane * 4 + px_warp_id * 128;
      #pragma unroll
      for (int i = 0; i < 32; i += 4) {
        ptx::load_vector<4>(t_10 + (i >> 2) * 4 + 32, p + (i >> 2) * 1024);
      }
    }
  }
  px_f4e2m1 t_11[64];
  #pragma unroll
  for (int i = 0; i < 64; i += 2) ptx::f4e2m1_pair_from_float(t_11 + i, t_10[i], t_10[i + 1]);
  const int n_1 = n >> 1;
  unsigned char t_12[32];
  #pragma unroll
  for (int i = 0; i < 32; ++i) t_12[i] = (unsigned char)(t_11[i * 2] << 0 | t_11[i * 2 + 1] << 4);
  {
    const unsigned x0 = (unsigned)ptx::wrap_mul(block_x, 128) + px_warp_id;
    const unsigned x1 = (unsigned)n_1 + px_lane * 2;
    unsigned char* const p = CODES.data + ((int)x0 * CODES.stride[0] + (int)x1);
    #pragma unroll
    for (int i = 0; i < 32; i += 2) {
      if (ptx::inside(x0 + (i >> 1) * 8, CODES.shape[0]) && ptx::inside(x1, CODES.shape[1])) ptx::store_vector<2>(p + (i >> 1) * 8 * CODES.stride[0], t_12 + i);
    }
  }
}
