// Single columns of tensor memory, and an allocation that is not the last.
template <int group> static __device__ __forceinline__ void allocate(unsigned to, unsigned count) {
  asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(to), "r"(count), "n"(group) : "memory");
}
static __device__ __forceinline__ void read1(unsigned* word, unsigned address) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(*word) : "r"(address));
}
static __device__ __forceinline__ void fetch1(unsigned* to, unsigned address) {
  unsigned word;
  read1(&word, address);
  was_read();
  *to = word;
}
static __device__ __forceinline__ void write1(unsigned address, unsigned word) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(address), "r"(word) : "memory");
}
static __device__ __forceinline__ void was_written() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
