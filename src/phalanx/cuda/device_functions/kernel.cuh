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
