// Device functions for the Blackwell kernels beside this file and for small texts in tests; compiled, never run on a B200.
typedef unsigned long long u64;
struct alignas(128) Map { u64 words[16]; };

static __device__ __forceinline__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ unsigned rank_in_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
static __device__ __forceinline__ unsigned in_cta(unsigned address, unsigned rank) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
static __device__ __forceinline__ bool one_lane() {
  unsigned yes;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(yes));
  return yes;
}
static __device__ __forceinline__ void everyone_in_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n"
               "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// ---------------------------------------------------------------------- barriers

static __device__ __forceinline__ void start(unsigned bar, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}
static __device__ __forceinline__ void started() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
static __device__ __forceinline__ void expect(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void arrive_in(unsigned bar, unsigned rank) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(in_cta(bar, rank)) : "memory");
}
static __device__ __forceinline__ void wait_for(unsigned bar, unsigned parity) {
  for (unsigned yes = 0; !yes;)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(yes) : "r"(bar), "r"(parity) : "memory");
}

// ---------------------------------------------------------------------- copies

static __device__ __forceinline__ void load(unsigned to, const Map* map, int x, int y, unsigned bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}
// The barrier is the own one or that of the pair's other CTA.
static __device__ __forceinline__ void load_pair(unsigned to, const Map* map, int x, int y, unsigned bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 "
               "[%0], [%1, {%2, %3}], [%4];" :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}
static __device__ __forceinline__ void load_pair_multicast(unsigned to, const Map* map, int x, int y, unsigned bar,
                                                           unsigned short ctas) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".multicast::cluster.cta_group::2 [%0], [%1, {%2, %3}], [%4], %5;"
               :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(bar), "h"(ctas) : "memory");
}

// ---------------------------------------------------------------------- tensor memory

static __device__ __forceinline__ void before_others() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
static __device__ __forceinline__ void after_others() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
template <int group> static __device__ __forceinline__ void columns(unsigned to, unsigned count) {
  asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(to), "r"(count), "n"(group) : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::%0.sync.aligned;" :: "n"(group) : "memory");
}
template <int group> static __device__ __forceinline__ void give_back(unsigned address, unsigned count) {
  asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" :: "r"(address), "r"(count), "n"(group) : "memory");
}
template <int group> static __device__ __forceinline__ void commit(unsigned bar) {
  asm volatile("tcgen05.commit.cta_group::%1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
               :: "r"(bar), "n"(group) : "memory");
}
static __device__ __forceinline__ void commit_pair(unsigned bar, unsigned short ctas) {
  asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
               :: "r"(bar), "h"(ctas) : "memory");
}
static __device__ __forceinline__ void read4(unsigned* words, unsigned address) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(address));
}
static __device__ __forceinline__ void was_read() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }

// ---------------------------------------------------------------------- words

// K-major operands: rows of 128 bytes with the 128-byte swizzle (2), eight of them 1024 bytes from the next eight.
static __device__ __forceinline__ u64 rows_of_128(unsigned address) {
  return (u64)((address & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61;
}
// Scales: rows of 16 bytes without a swizzle, eight of them 128 bytes from the next eight.
static __device__ __forceinline__ u64 rows_of_16(unsigned address) {
  return (u64)((address & 0x3ffff) >> 4) | 8ull << 32 | 1ull << 46;
}
