/// Arithmetic of floats.

/// Relative error below 2**-22; results below the normal range are 0.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Off by at most one in the last place; results below the normal range are 0.
__device__ __forceinline__ float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Relative error below 2**-10.9.
__device__ __forceinline__ float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float sigmoid(float x) {
  return __fdividef(1.0f, 1.0f + expf(-x));
}

__device__ __forceinline__ double sigmoid_f64(double x) {
  return 1.0 / (1.0 + exp(-x));
}

/// Functions of some hundred instructions, called: a tile of them written out takes the compiler half a minute.
__device__ __noinline__ float called_sin_f32(float x) {
  return sinf(x);
}

__device__ __noinline__ float called_cos_f32(float x) {
  return cosf(x);
}

__device__ __noinline__ double called_exp_f64(double x) {
  return exp(x);
}

__device__ __noinline__ double called_exp2_f64(double x) {
  return exp2(x);
}

__device__ __noinline__ double called_log_f64(double x) {
  return log(x);
}

__device__ __noinline__ double called_log2_f64(double x) {
  return log2(x);
}

__device__ __noinline__ double called_tanh_f64(double x) {
  return tanh(x);
}

__device__ __noinline__ double called_erf_f64(double x) {
  return erf(x);
}

__device__ __noinline__ double called_sin_f64(double x) {
  return sin(x);
}

__device__ __noinline__ double called_cos_f64(double x) {
  return cos(x);
}

__device__ __noinline__ double called_sigmoid_f64(double x) {
  return 1.0 / (1.0 + exp(-x));
}

/// One rounding: computed in float and rounded after that, it would be two.
__device__ __forceinline__ px_f16 fma_f16(px_f16 a, px_f16 b, px_f16 c) {
  px_f16 d;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(d) : "h"(a), "h"(b), "h"(c));
  return d;
}

__device__ __forceinline__ px_bf16 fma_bf16(px_bf16 a, px_bf16 b, px_bf16 c) {
  px_bf16 d;
  asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(d) : "h"(a), "h"(b), "h"(c));
  return d;
}

/// `fmod` is some 300 instructions: written once and called, since the compiler takes minutes for one per element.
// The remainder has the divisor's sign, as in Python.
__device__ __noinline__ float float_mod(float a, float b) {
  const float r = fmodf(a, b);
  return r == 0.0f ? copysignf(0.0f, b) : (r < 0.0f) != (b < 0.0f) ? r + b : r;
}
__device__ __noinline__ double float_mod(double a, double b) {
  const double r = fmod(a, b);
  return r == 0.0 ? copysign(0.0, b) : (r < 0.0) != (b < 0.0) ? r + b : r;
}

// From what `fmod` leaves, which is exact and no larger than a: rounding of a / b can't pass an integer, and
// nothing overflows on the way.
__device__ __noinline__ float float_floor_div(float a, float b) {
  if (b == 0.0f) return a / b;
  const float r = fmodf(a, b);
  const float q = (a - r) / b - (r != 0.0f && (r < 0.0f) != (b < 0.0f) ? 1.0f : 0.0f);
  if (q == 0.0f) return copysignf(0.0f, a / b);
  const float below = floorf(q);
  return q - below > 0.5f ? below + 1.0f : below;
}
__device__ __noinline__ double float_floor_div(double a, double b) {
  if (b == 0.0) return a / b;
  const double r = fmod(a, b);
  const double q = (a - r) / b - (r != 0.0 && (r < 0.0) != (b < 0.0) ? 1.0 : 0.0);
  if (q == 0.0) return copysign(0.0, a / b);
  const double below = floor(q);
  return q - below > 0.5 ? below + 1.0 : below;
}

/// The larger or smaller of two floats; not a number if one of them is none, as NumPy has it: 0x7fffffff, PTX's
/// canonical NaN.
__device__ __forceinline__ float max_NaN_f32(float a, float b) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

__device__ __forceinline__ float min_NaN_f32(float a, float b) {
  float c;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

/// PTX has no such instruction for f64.
__device__ __forceinline__ double max_NaN_f64(double a, double b) {
  return a > b || a != a ? a : b;
}

__device__ __forceinline__ double min_NaN_f64(double a, double b) {
  return a < b || a != a ? a : b;
}
