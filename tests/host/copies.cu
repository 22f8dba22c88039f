// Copies of an image of shared memory to tensor memory, and all its cells back.
extern "C" __global__ void __launch_bounds__(128) run(const unsigned char* image, unsigned* cells) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  __shared__ alignas(8) u64 bar;
  __shared__ unsigned where;
  const int warp = threadIdx.x / 32;
  for (int i = threadIdx.x; i < 32768; i += 128) bytes[i] = image[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  if (threadIdx.x == 0) {
    start(place(&bar), 1);
    started();
  }
  if (warp == 0) columns<1>(place(&where), 128);
  __syncthreads();
  const unsigned t = where, mine = t + (warp * 32 << 16);
  unsigned* const own = cells + threadIdx.x * 128;
  for (int c = 0; c < 128; ++c) write1(mine + c, own[c]);
  was_written();
  before_others();
  __syncthreads();
  after_others();
  if (threadIdx.x == 0) {
    COPIES;
    commit<1>(place(&bar));
    wait_for(place(&bar), 0);
  }
  __syncthreads();
  after_others();
  for (int c = 0; c < 128; ++c) fetch1(own + c, mine + c);
  before_others();
  __syncthreads();
  after_others();
  if (warp == 0) give_back<1>(t, 128);
}
