/// What stands in a kernel whatever it computes.

template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

struct alignas(128) px_tensor_map { unsigned long long opaque[16]; };

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  unsigned address;
  asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(address) : "l"(pointer));
  return address;
}

__device__ __forceinline__ unsigned long long globaltimer() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

/// Called, not inlined: a bounded wait, or an assertion on a tile, has it at many places, and a compiler that finds its
/// loop at each of them takes a minute for what it does in less than a second.
///
/// The debug buffer in 64-bit words: [0] 0 free, 1 claimed, 2 written; [1] site; [2] linear block; [3] warp; [4]
/// parity; [5] index of the barrier.
__device__ __noinline__ void px_stop(unsigned long long* debug, int site, unsigned parity, int index) {
  // The first thread to come here leaves a record for the host and ends the grid; the others give it the time.
  unsigned long long claimed;
  asm volatile("atom.relaxed.sys.global.cas.b64 %0, [%1], 0, 1;" : "=l"(claimed) : "l"(debug) : "memory");
  if (claimed == 0) {
    volatile unsigned long long* record = debug;
    record[1] = site;
    record[2] = blockIdx.x + gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    record[3] = threadIdx.x / 32;
    record[4] = parity;
    record[5] = (long long)index;
    __threadfence_system();
    record[0] = 2;
    __threadfence_system();
  } else {
    for (int i = 0; i < 1000; ++i) __nanosleep(1000000);
  }
  asm volatile("trap;");
}

__device__ __forceinline__ unsigned long long px_seed(const unsigned long long* debug) {
  unsigned long long seed;
  asm volatile("ld.volatile.global.u64 %0, [%1];" : "=l"(seed) : "l"(debug + 8));
  return seed;
}

/// A delay of 64 to 130,000 cycles before every eighth event or so, in a build that is shaken: which events, and how long,
/// follows from the seed, the place in the text, the block, the warp and how many delays the warp has come by, and from
/// nothing else. The host's words: [8] the seed; from [16] on a bit for each site, 1 where it may delay.
__device__ __forceinline__ void px_delay(const unsigned long long* debug, unsigned long long seed, int site, unsigned& passed) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  unsigned long long mixed = seed + 0x9e3779b97f4a7c15ull * (1 + site) + 0xbf58476d1ce4e5b9ull * (1 + block);
  mixed += 0x94d049bb133111ebull * (1 + threadIdx.x / 32) + 0xd6e8feb86659fd93ull * ++passed;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
  mixed ^= mixed >> 31;
  if (mixed & 7) return;
  const volatile unsigned long long* allowed = debug + 16;
  if (!(allowed[site / 64] >> (site % 64) & 1)) return;
  long long now;  // no access of memory may move over the delay: it is there to make that late
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now) :: "memory");
  const long long end = now + (64ll << (mixed >> 3) % 12);
  while (now < end) asm volatile("mov.u64 %0, %%clock64;" : "=l"(now) :: "memory");
}

__device__ __forceinline__ bool clusterlaunchcontrol_query_cancel(unsigned response, int& x, int& y, int& z) {
  // Whether a cluster was granted, and its first block; what that is where none was, PTX leaves open.
  unsigned granted;
  asm volatile("{ .reg .b128 r; .reg .pred p; ld.shared::cta.b128 r, [%4]; "
               "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r; selp.u32 %0, 1, 0, p; "
               "mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0; "
               "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, %2, %3, _}, r; }"
               : "=r"(granted), "=r"(x), "=r"(y), "=r"(z) : "r"(response) : "memory");
  return granted != 0;
}
