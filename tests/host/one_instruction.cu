// One tcgen05.mma, or as many as `steps`, between images of shared and of tensor memory, which come from outside: 128
// threads, one CTA or a pair.
extern "C" __global__ void __launch_bounds__(128)
one(const unsigned char* images, const u64* words, unsigned* cells, int which, int steps) {
  extern __shared__ __align__(1024) unsigned char image[];
  __shared__ alignas(8) u64 done;
  __shared__ unsigned where;
  enum { BYTES = 65536, COLUMNS = 512 };
  const unsigned rank = rank_in_cluster(), mine = threadIdx.x / 32 * 32 << 16;
  for (int i = threadIdx.x; i < BYTES; i += 128) image[i] = images[rank * BYTES + i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  if (threadIdx.x == 0) {
    start(place(&done), 1);
    started();
  }
  if (threadIdx.x < 32) columns<GROUP>(place(&where), COLUMNS);
  before_others();
  everyone_in_cluster();
  after_others();
  const unsigned t = *(volatile unsigned*)&where;
  unsigned* const own = cells + (rank * 128 + threadIdx.x) * COLUMNS;
  for (int c = 0; c < COLUMNS; c += 4)
    asm volatile("tcgen05.st.sync.aligned.32x32b.x4.b32 [%0], {%1, %2, %3, %4};"
                 :: "r"(t + mine + c), "r"(own[c]), "r"(own[c + 1]), "r"(own[c + 2]), "r"(own[c + 3]) : "memory");
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
  before_others();
  everyone_in_cluster();
  after_others();
  if (threadIdx.x == 0 && rank == 0) {
    for (int step = 0; step < steps; ++step, words += 8) {
      const u64 a = words[0], b = words[1];
      const unsigned word = (unsigned)words[2], d = t + (unsigned)words[3], ta = t + (unsigned)words[4];
      const unsigned sa = t + (unsigned)words[5], sb = t + (unsigned)words[6], more = (unsigned)words[7];
      switch (which) {
    CASES;
      }
    }
    commit<GROUP>(place(&done));
    wait_for(place(&done), 0);
  }
  everyone_in_cluster();
  after_others();
  for (int c = 0; c < COLUMNS; c += 4) {
    unsigned part[4];
    read4(part, t + mine + c);
    was_read();
    for (int i = 0; i < 4; ++i) own[c + i] = part[i];
  }
  before_others();
  everyone_in_cluster();
  after_others();
  if (threadIdx.x < 32) give_back<GROUP>(t, COLUMNS);
}
