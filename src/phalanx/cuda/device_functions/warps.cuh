/// What the threads of a warp, or of a role, do together.

/// The lane, read where it stands: what follows from it is not computed before.
__device__ __forceinline__ int lane_here() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

__device__ __forceinline__ bool elect_sync() {
  unsigned elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

// needs: bits
// An element of any size from another lane.
template <class T>
__device__ __forceinline__ T shuffle(T x, int lane) {
  const unsigned long long b = bits<T>::of(x);
  unsigned long long got = (unsigned)__shfl_sync(0xffffffffu, (unsigned)b, lane);
  if constexpr (sizeof(T) == 8)
    got |= (unsigned long long)__shfl_sync(0xffffffffu, (unsigned)(b >> 32), lane) << 32;
  return bits<T>::from(got);
}

// needs: bits
template <class T>
__device__ __forceinline__ T shuffle_xor(T x, int mask) {
  const unsigned long long b = bits<T>::of(x);
  unsigned long long got = (unsigned)__shfl_xor_sync(0xffffffffu, (unsigned)b, mask);
  if constexpr (sizeof(T) == 8)
    got |= (unsigned long long)__shfl_xor_sync(0xffffffffu, (unsigned)(b >> 32), mask) << 32;
  return bits<T>::from(got);
}

// needs: max_NaN_f32
// Over all lanes. Floats go as integers of the same order; a NaN goes as the largest of them, 0x7fffffff.
__device__ __forceinline__ float warp_max(float x) {
  const int i = (int)__float_as_uint(max_NaN_f32(x, __int_as_float(0xff800000)));
  const int found = __reduce_max_sync(0xffffffffu, i ^ (i >> 31 & 0x7fffffff));
  return __int_as_float(found ^ (found >> 31 & 0x7fffffff));
}

// needs: warp_max
__device__ __forceinline__ float warp_min(float x) { return -warp_max(-x); }

/// The barrier's number is a constant: one in a register would reserve all 16.
template <int id, int threads>
__device__ __forceinline__ void bar_sync() {
  asm volatile("bar.sync %0, %1;" :: "n"(id), "n"(threads) : "memory");
}

/// For copies of a role, which have the same code and a barrier each.
template <int threads>
__device__ __forceinline__ void bar_sync_of(int id) {
  asm volatile("bar.sync %0, %1;" :: "r"(id), "n"(threads) : "memory");
}

template <int id, int threads>
__device__ __forceinline__ bool bar_red_and(bool value) {
  unsigned all;
  asm volatile("{ .reg .pred p, q; setp.ne.u32 q, %1, 0; bar.red.and.pred p, %2, %3, q; selp.u32 %0, 1, 0, p; }"
               : "=r"(all) : "r"((unsigned)value), "n"(id), "n"(threads) : "memory");
  return all != 0;
}

template <int threads>
__device__ __forceinline__ bool bar_red_and_of(int id, bool value) {
  unsigned all;
  asm volatile("{ .reg .pred p, q; setp.ne.u32 q, %1, 0; bar.red.and.pred p, %2, %3, q; selp.u32 %0, 1, 0, p; }"
               : "=r"(all) : "r"((unsigned)value), "r"(id), "n"(threads) : "memory");
  return all != 0;
}

template <int registers>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(registers));
}

template <int registers>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(registers));
}

/// The instruction alone: elements become words by `pack_words`, in C++ that a host runs too.
// Four 8 x 8 matrices of 16-bit elements; r holds this lane's two elements of each, address is that of one row.
__device__ __forceinline__ void stmatrix_x4(unsigned address, const unsigned* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements, transposed; r holds this lane's two elements of each, address is that of one row.
__device__ __forceinline__ void stmatrix_x4_trans(unsigned address, const unsigned* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               :: "r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
