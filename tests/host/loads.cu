// Cells of tensor memory that come from outside, and the registers of each thread that were loaded from them.
extern "C" __global__ void __launch_bounds__(THREADS) run(const unsigned* cells, unsigned* out) {
  __shared__ unsigned where;
  const int warp = threadIdx.x / 32;
  if (warp == 0) columns<1>(place(&where), 512);
  __syncthreads();
  const unsigned t = where;
  if (warp < 4) {
    for (int c = 0; c < 512; ++c) write1(t + (warp * 32 << 16) + c, cells[threadIdx.x * 512 + c]);
    was_written();
  }
  before_others();
  __syncthreads();
  after_others();
  LOADS;
  was_read();
  for (int i = 0; i < COUNT; ++i) out[threadIdx.x * COUNT + i] = words[i];
  before_others();
  __syncthreads();
  after_others();
  if (warp == 0) give_back<1>(t, 512);
}
