/// Conversions of the floats of 4 and 6 bits and of powers of two (f8e8m0): by `cvt` where a target has it, else
/// computed.
///
/// A register tile keeps one element in a byte, in its low bits. Both ways follow `ir.types.rounded`.

__device__ __forceinline__ float f6e2m3_to_float(px_f6e2m3 x) {
  unsigned pair;
  asm("cvt.rn.f16x2.e2m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x));
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)pair));
  return y;
}

__device__ __forceinline__ float f6e3m2_to_float(px_f6e3m2 x) {
  unsigned pair;
  asm("cvt.rn.f16x2.e3m2x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x));
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)pair));
  return y;
}

/// By an operand that is a register of 8 bits, which C++ has none of.
__device__ __forceinline__ float f4e2m1_to_float(px_f4e2m1 x) {
  unsigned pair;
  asm("{ .reg .b8 low, high; mov.b16 {low, high}, %1; cvt.rn.f16x2.e2m1x2 %0, low; }" : "=r"(pair) : "h"((unsigned short)x));
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)pair));
  return y;
}

__device__ __forceinline__ float f8e8m0_to_float(px_f8e8m0 x) {
  unsigned pair;
  asm("cvt.rn.bf16x2.ue8m0x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x));
  return __uint_as_float(pair << 16);
}

__device__ __forceinline__ px_f6e2m3 f6e2m3_from_float(float x) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e2m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return (px_f6e2m3)pair;
}

__device__ __forceinline__ px_f6e3m2 f6e3m2_from_float(float x) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e3m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return (px_f6e3m2)pair;
}

__device__ __forceinline__ px_f4e2m1 f4e2m1_from_float(float x) {
  unsigned short pair;
  asm("{ .reg .b8 both; cvt.rn.satfinite.e2m1x2.f32 both, %1, %2; mov.b16 %0, {both, both}; }" : "=h"(pair) : "f"(0.0f), "f"(x));
  return (px_f4e2m1)(pair & 15);
}

__device__ __forceinline__ px_f8e8m0 f8e8m0_from_float(float x) {
  unsigned short pair;
  asm("cvt.rp.satfinite.ue8m0x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return (px_f8e8m0)pair;
}

__device__ __forceinline__ void f6e2m3_pair_from_float(px_f6e2m3* y, float low, float high) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e2m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  y[0] = (px_f6e2m3)pair;
  y[1] = (px_f6e2m3)(pair >> 8);
}

__device__ __forceinline__ void f6e3m2_pair_from_float(px_f6e3m2* y, float low, float high) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e3m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  y[0] = (px_f6e3m2)pair;
  y[1] = (px_f6e3m2)(pair >> 8);
}

__device__ __forceinline__ void f4e2m1_pair_from_float(px_f4e2m1* y, float low, float high) {
  unsigned short pair;
  asm("{ .reg .b8 both; cvt.rn.satfinite.e2m1x2.f32 both, %1, %2; mov.b16 %0, {both, both}; }" : "=h"(pair) : "f"(high), "f"(low));
  y[0] = (px_f4e2m1)(pair & 15);
  y[1] = (px_f4e2m1)(pair >> 4 & 15);
}

__device__ __forceinline__ void f8e8m0_pair_from_float(px_f8e8m0* y, float low, float high) {
  unsigned short pair;
  asm("cvt.rp.satfinite.ue8m0x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  y[0] = (px_f8e8m0)pair;
  y[1] = (px_f8e8m0)(pair >> 8);
}

/// By scaling: a small float shifted into a float's fields is off by a power of two, which one product puts right.
__device__ __forceinline__ float f6e2m3_computed_to_float(px_f6e2m3 x) {
  const float y = __uint_as_float((unsigned)(x & 31) << 20) * __uint_as_float(253u << 23);
  return __uint_as_float(__float_as_uint(y) | (unsigned)(x >> 5 & 1) << 31);
}

__device__ __forceinline__ px_f6e2m3 f6e2m3_computed_from_float(float x) {
  const float y = fabsf(x) < 7.5f ? fabsf(x) : 7.5f;  // not-a-number too
  unsigned exponent = __float_as_uint(y) >> 23;
  if (exponent < 127u) exponent = 127u;
  const float scale = __uint_as_float((257u - exponent) << 23);
  const unsigned code = ((exponent - 127u) << 3) + (unsigned)rintf(y * scale);
  return (px_f6e2m3)(code | (x == x ? __float_as_uint(x) >> 31 : 0u) << 5);
}

__device__ __forceinline__ float f6e3m2_computed_to_float(px_f6e3m2 x) {
  const float y = __uint_as_float((unsigned)(x & 31) << 21) * __uint_as_float(251u << 23);
  return __uint_as_float(__float_as_uint(y) | (unsigned)(x >> 5 & 1) << 31);
}

__device__ __forceinline__ px_f6e3m2 f6e3m2_computed_from_float(float x) {
  const float y = fabsf(x) < 28.0f ? fabsf(x) : 28.0f;  // not-a-number too
  unsigned exponent = __float_as_uint(y) >> 23;
  if (exponent < 125u) exponent = 125u;
  const float scale = __uint_as_float((256u - exponent) << 23);
  const unsigned code = ((exponent - 125u) << 2) + (unsigned)rintf(y * scale);
  return (px_f6e3m2)(code | (x == x ? __float_as_uint(x) >> 31 : 0u) << 5);
}

__device__ __forceinline__ float f4e2m1_computed_to_float(px_f4e2m1 x) {
  const float y = __uint_as_float((unsigned)(x & 7) << 22) * __uint_as_float(253u << 23);
  return __uint_as_float(__float_as_uint(y) | (unsigned)(x >> 3 & 1) << 31);
}

__device__ __forceinline__ px_f4e2m1 f4e2m1_computed_from_float(float x) {
  const float y = fabsf(x) < 6.0f ? fabsf(x) : 6.0f;  // not-a-number too
  unsigned exponent = __float_as_uint(y) >> 23;
  if (exponent < 127u) exponent = 127u;
  const float scale = __uint_as_float((255u - exponent) << 23);
  const unsigned code = ((exponent - 127u) << 1) + (unsigned)rintf(y * scale);
  return (px_f4e2m1)(code | (x == x ? __float_as_uint(x) >> 31 : 0u) << 3);
}

__device__ __forceinline__ float f8e8m0_computed_to_float(px_f8e8m0 x) {
  const unsigned code = x;
  return __uint_as_float(code == 255 ? 0x7fffffffu : code == 0 ? 0x00400000u : code << 23);
}

__device__ __forceinline__ px_f8e8m0 f8e8m0_computed_from_float(float x) {
  const unsigned size = __float_as_uint(x) & 0x7fffffffu, exponent = size >> 23;
  const unsigned up = exponent + ((size & 0x7fffffu) > (exponent ? 0u : 0x400000u));  // 0: 2**-127
  return (px_f8e8m0)(size > 0x7f800000u ? 255u : up < 254u ? up : 254u);
}
