/// Conversions between floats of 8 and 16 bits and wider types.

__device__ __forceinline__ float f16_to_float(px_f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}

__device__ __forceinline__ float bf16_to_float(px_bf16 x) {
  return __uint_as_float((unsigned)x << 16);
}

/// One PTX instruction widens a pair to f16; the upper half is left empty.
__device__ __forceinline__ float f8e4m3_to_float(px_f8e4m3 x) {
  unsigned pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x));
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)pair));
  return y;
}

__device__ __forceinline__ float f8e5m2_to_float(px_f8e5m2 x) {
  unsigned pair;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x));
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)pair));
  return y;
}

__device__ __forceinline__ px_f16 f16_from_float(float x) {
  unsigned short y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ px_bf16 bf16_from_float(float x) {
  unsigned short y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ px_f8e4m3 f8e4m3_from_float(float x) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return (px_f8e4m3)pair;
}

__device__ __forceinline__ px_f8e5m2 f8e5m2_from_float(float x) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return (px_f8e5m2)pair;
}

/// From types that f32 does not hold, by way of which they would be rounded twice; f32 holds all integers that f16
/// does.
__device__ __forceinline__ px_f16 f16_from_f64(double x) {
  unsigned short y;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y) : "d"(x));
  return y;
}

__device__ __forceinline__ px_bf16 bf16_from_f64(double x) {
  unsigned short y;
  asm("cvt.rn.bf16.f64 %0, %1;" : "=h"(y) : "d"(x));
  return y;
}

__device__ __forceinline__ px_bf16 bf16_from_i32(int x) {
  unsigned short y;
  asm("cvt.rn.bf16.s32 %0, %1;" : "=h"(y) : "r"(x));
  return y;
}

__device__ __forceinline__ px_bf16 bf16_from_u32(unsigned x) {
  unsigned short y;
  asm("cvt.rn.bf16.u32 %0, %1;" : "=h"(y) : "r"(x));
  return y;
}

__device__ __forceinline__ px_bf16 bf16_from_i64(long long x) {
  unsigned short y;
  asm("cvt.rn.bf16.s64 %0, %1;" : "=h"(y) : "l"(x));
  return y;
}

__device__ __forceinline__ px_bf16 bf16_from_u64(unsigned long long x) {
  unsigned short y;
  asm("cvt.rn.bf16.u64 %0, %1;" : "=h"(y) : "l"(x));
  return y;
}

/// Two conversions by one instruction, into neighbouring registers.
__device__ __forceinline__ void f16_pair_from_float(px_f16* y, float low, float high) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  y[0] = (px_f16)pair;
  y[1] = (px_f16)(pair >> 16);
}

__device__ __forceinline__ void bf16_pair_from_float(px_bf16* y, float low, float high) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  y[0] = (px_bf16)pair;
  y[1] = (px_bf16)(pair >> 16);
}

__device__ __forceinline__ void f8e4m3_pair_from_float(px_f8e4m3* y, float low, float high) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  y[0] = (px_f8e4m3)pair;
  y[1] = (px_f8e4m3)(pair >> 8);
}

__device__ __forceinline__ void f8e5m2_pair_from_float(px_f8e5m2* y, float low, float high) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  y[0] = (px_f8e5m2)pair;
  y[1] = (px_f8e5m2)(pair >> 8);
}

/// Four conversions into the bytes of a word. Nothing else has a use for the pairs that the word is put together of: ptxas
/// (13.0, 13.4) joins a pair to the word while it converts it, in the register of the other pair, even where that one's
/// bytes go round an unrolled loop, which then sees the wrong bytes.
__device__ __forceinline__ void f8e4m3_four_from_float(px_f8e4m3* y, float x0, float x1, float x2, float x3) {
  unsigned word;
  asm("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; mov.b32 %0, {low, high}; }"
      : "=r"(word) : "f"(x0), "f"(x1), "f"(x2), "f"(x3));
  y[0] = (px_f8e4m3)word;
  y[1] = (px_f8e4m3)(word >> 8);
  y[2] = (px_f8e4m3)(word >> 16);
  y[3] = (px_f8e4m3)(word >> 24);
}

__device__ __forceinline__ void f8e5m2_four_from_float(px_f8e5m2* y, float x0, float x1, float x2, float x3) {
  unsigned word;
  asm("{ .reg .b16 low, high; cvt.rn.satfinite.e5m2x2.f32 low, %2, %1; cvt.rn.satfinite.e5m2x2.f32 high, %4, %3; mov.b32 %0, {low, high}; }"
      : "=r"(word) : "f"(x0), "f"(x1), "f"(x2), "f"(x3));
  y[0] = (px_f8e5m2)word;
  y[1] = (px_f8e5m2)(word >> 8);
  y[2] = (px_f8e5m2)(word >> 16);
  y[3] = (px_f8e5m2)(word >> 24);
}

/// Two elements of 8 bits to 16 by one conversion. There is none to bf16, which has no fewer exponents: by way of f32.
__device__ __forceinline__ void f16_pair_from_f8e4m3(px_f16* y, px_f8e4m3 x0, px_f8e4m3 x1) {
  unsigned pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)(x0 | x1 << 8)));
  y[0] = (px_f16)pair;
  y[1] = (px_f16)(pair >> 16);
}

__device__ __forceinline__ void bf16_pair_from_f8e4m3(px_bf16* y, px_f8e4m3 x0, px_f8e4m3 x1) {
  unsigned pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)(x0 | x1 << 8)));
  float low, high;
  asm("{ .reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }" : "=f"(low), "=f"(high) : "r"(pair));
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  y[0] = (px_bf16)pair;
  y[1] = (px_bf16)(pair >> 16);
}

__device__ __forceinline__ void f16_pair_from_f8e5m2(px_f16* y, px_f8e5m2 x0, px_f8e5m2 x1) {
  unsigned pair;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)(x0 | x1 << 8)));
  y[0] = (px_f16)pair;
  y[1] = (px_f16)(pair >> 16);
}

__device__ __forceinline__ void bf16_pair_from_f8e5m2(px_bf16* y, px_f8e5m2 x0, px_f8e5m2 x1) {
  unsigned pair;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)(x0 | x1 << 8)));
  float low, high;
  asm("{ .reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }" : "=f"(low), "=f"(high) : "r"(pair));
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  y[0] = (px_bf16)pair;
  y[1] = (px_bf16)(pair >> 16);
}

/// Toward zero, saturating. Not-a-number becomes 0; the machine does that by itself for float to 32 bits only.
__device__ __forceinline__ int float_to_int(float x) {
  return x == x ? __float2int_rz(x) : 0;
}

__device__ __forceinline__ unsigned float_to_unsigned(float x) {
  return x == x ? __float2uint_rz(x) : 0;
}

__device__ __forceinline__ long long float_to_long_long(float x) {
  return x == x ? __float2ll_rz(x) : 0;
}

__device__ __forceinline__ unsigned long long float_to_unsigned_long_long(float x) {
  return x == x ? __float2ull_rz(x) : 0;
}

__device__ __forceinline__ int double_to_int(double x) {
  return x == x ? __double2int_rz(x) : 0;
}

__device__ __forceinline__ unsigned double_to_unsigned(double x) {
  return x == x ? __double2uint_rz(x) : 0;
}

__device__ __forceinline__ long long double_to_long_long(double x) {
  return x == x ? __double2ll_rz(x) : 0;
}

__device__ __forceinline__ unsigned long long double_to_unsigned_long_long(double x) {
  return x == x ? __double2ull_rz(x) : 0;
}
