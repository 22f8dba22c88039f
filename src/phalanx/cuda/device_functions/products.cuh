/// Operands of the tensor cores' products.

__device__ __forceinline__ unsigned long long wgmma_descriptor(unsigned address, unsigned long long fields) {
  // bits 0-13: address / 16; 16-29 and 32-45: byte offsets / 16; 62-63: swizzle
  return fields | (address & 0x3ffff) >> 4;
}

/// Nothing at run time: the compiler can't make them again in a loop, out of an address and constants.
template <int N>
__device__ __forceinline__ void hold_descriptors(unsigned long long* x) {
  #pragma unroll
  for (int i = 0; i < N; ++i) asm("" : "+l"(x[i]));
}

// Registers of a product's own are filled where it stands. `closed` is 0, as no compiler knows: so what they held
// before is kept until then, and shares no register with what is computed meanwhile.
template <int N>
__device__ __forceinline__ void take_registers(unsigned* own, const unsigned* x, unsigned closed) {
  #pragma unroll
  for (int i = 0; i < N; ++i)
    asm volatile("{ .reg .pred p; setp.eq.u32 p, %2, 0; @p mov.b32 %0, %1; }"
      : "+r"(own[i]) : "r"(x[i]), "r"(closed));
}

__device__ __forceinline__ unsigned long long tcgen05_descriptor(unsigned address, unsigned long long fields) {
  // bits 0-13: address / 16; 16-29 and 32-45: byte offsets / 16; 46: version; 61-63: swizzle
  return fields | (address & 0x3ffff) >> 4;
}
