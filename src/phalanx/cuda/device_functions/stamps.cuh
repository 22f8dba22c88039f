/// Stamps: what agents of sampled CTAs do when, written by a build with `Extras.stamps` (`text/stamps.py`). The buffer, in
/// 64-bit words (`abi.py` has the numbers): a head of 16, the same for all CTAs: [0] the largest ~%globaltimer at which a
/// CTA began, [1] the largest at which a warp ended. Then for each sampled CTA a head of 16 and a ring for each warp. The head
/// of a CTA: [0] its SM + 1, [1] its linear block, [2] [3] %globaltimer and %clock64 at its begin, [4] [5] both at its end, at
/// a tick of the former, [6] cycles between two readings of the clock, [7] cycles of a stamp. A ring: two words, of which
/// the first counts stamps, then two for each: clock before, clock behind, place and index, and what else there is to say.

__device__ __forceinline__ unsigned px_clock() {
  unsigned now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
  return now;
}

__device__ __forceinline__ unsigned long long px_clock64() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now));
  return now;
}

__device__ __forceinline__ unsigned long long px_time() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ __forceinline__ unsigned px_sm() {
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}

__device__ __forceinline__ void px_latest(unsigned long long* at, unsigned long long time) {
  asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" :: "l"(at), "l"(time) : "memory");
}

/// No branch: products may be in flight.
__device__ __forceinline__ void px_write(bool written, const unsigned long long* at, unsigned start, unsigned end, unsigned place, unsigned more) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p st.global.v4.u32 [%1], {%2, %3, %4, %5}; }"
               :: "r"((unsigned)written), "l"(at), "r"(start), "r"(end), "r"(place), "r"(more));
}

/// The ring of this warp; null where the CTA is not one of the sample.
// needs: px_clock64 px_time px_sm px_latest
template <unsigned sample, unsigned records, unsigned warps, unsigned x, unsigned y, unsigned z>
__device__ __forceinline__ unsigned long long* px_enter(unsigned long long* buffer) {
  const unsigned wide = gridDim.x / x, high = gridDim.y / y;
  const unsigned clusters = wide * high * (gridDim.z / z), every = (clusters + sample - 1) / sample;
  const unsigned cluster = blockIdx.x / x + wide * (blockIdx.y / y + high * (blockIdx.z / z));
  if (threadIdx.x == 0) px_latest(buffer, ~px_time());
  if (cluster % every) return nullptr;
  const unsigned rank = blockIdx.x % x + x * (blockIdx.y % y + y * (blockIdx.z % z));
  unsigned long long* cta = buffer + 16 + (unsigned long long)(cluster / every * (x * y * z) + rank) * (16 + warps * (2 + 2 * records));
  if (threadIdx.x == 0) {
    cta[0] = px_sm() + 1;
    cta[1] = blockIdx.x + gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
    cta[2] = px_time();
    cta[3] = px_clock64();
  }
  return cta + 16 + threadIdx.x / 32 * (2 + 2 * records);
}

/// The ring of the agent that a warp belongs to: that of its first warp.
template <unsigned records>
__device__ __forceinline__ unsigned long long* px_ring_of(unsigned long long* ring, int warp) {
  return ring ? ring - warp * (2 + 2 * (int)records) : ring;
}

/// One stamp, by the thread that is `mine`; all warps of an agent count it. `count` begins with `records` where there is no
/// ring. The warps take turns: a store reads its registers a hundred cycles and more after it was issued, where products
/// keep the register file busy, and the warp that writes one of them meanwhile waits for that.
// needs: px_write
template <unsigned records>
__device__ __forceinline__ void px_stamp(const unsigned long long* ring, unsigned& count, bool mine, unsigned start, unsigned end, unsigned place, unsigned more) {
  px_write(mine & (count < records), ring + 2 + 2 * count, start, end, place, more);
  ++count;
}

/// The end of each warp. What a stamp costs is measured here, where nobody waits for the warp.
// needs: px_clock px_clock64 px_time px_latest px_write
__device__ __forceinline__ void px_leave(unsigned long long* buffer, unsigned long long* ring, unsigned count) {
  if (threadIdx.x % 32) return;
  px_latest(buffer + 1, px_time());
  if (!ring) return;
  ring[0] = count;
  if (threadIdx.x) return;
  unsigned long long* cta = ring - 16;
#pragma unroll 1
  for (int turn = 0; turn < 4; ++turn) {  // the first one brings the instructions
    const unsigned first = px_clock(), start = px_clock();
    px_write(turn < 4, cta + 8, start, px_clock(), 0, turn);
    cta[7] = px_clock() - start;
    cta[6] = start - first;
  }
  const unsigned long long before = px_time();
  unsigned long long now = px_time();
  while (now == before) now = px_time();
  cta[4] = now;
  cta[5] = px_clock64();
}
