// What the CUDA text of a kernel needs to run on the CPU: CUDA's own names over the threads of a simulated cluster.
//
// The machine itself (threads, barriers, copies in flight) is machine.cpp, compiled once; this is all that a kernel's
// translation unit has to read. Shared addresses are 32 bits: 4096 + the byte in the CTA's shared memory; addresses in the
// cluster have bit 29 set and the CTA's rank from bit 24 on, as on the device, where code clears bit 24 for the even CTA.
#pragma once
#include <math.h>
#include <stddef.h>
#include <string.h>

#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__
#define __align__(n)
struct alignas(8) uint2 { unsigned x, y; };
struct uint3 { unsigned x, y, z; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return (by & 31) == 0 ? low : low >> (by & 31) | high << (32 - (by & 31));
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
typedef unsigned short px_f16;
typedef unsigned short px_bf16;
typedef unsigned char px_f8e4m3;
typedef unsigned char px_f8e8m0;
typedef unsigned char px_f6e2m3;
typedef unsigned char px_f6e3m2;
typedef unsigned char px_f4e2m1;
typedef unsigned char px_f8e5m2;

// ---------------------------------------------------------------------- threads

struct px_thread {
  uint3 thread, block;
  int index, rank;           // among the threads of the cluster, among its CTAs
  unsigned char* memory;     // shared memory of the CTA
  unsigned long long given;  // what a shuffle offers
};
extern px_thread* px_self;  // the thread that runs
extern uint3 gridDim;
extern int px_at;           // line of the vector access that runs
#define threadIdx (px_self->thread)
#define blockIdx (px_self->block)
#define px_smem (px_self->memory)

enum { PX_WARP = 1, PX_CTA = 2, PX_GROUP = 18 };  // kinds of barriers; PX_CTA + id is barrier `id`, PX_GROUP + g warpgroup g's
void px_block(int kind, int expected);   // waits until so many threads of the warp or CTA wait for the same
bool px_vote(int kind, int expected, bool value);  // the same, and whether all of them said yes
void px_yield();
unsigned long long px_ticks();  // the clock: one more with every reading
void px_fail(const char* form, ...) __attribute__((format(printf, 1, 2)));
int px_print(const char* form, ...) __attribute__((format(printf, 1, 2)));
px_thread* px_lane(int lane);            // a thread of the same warp
int px_threads();                        // of a CTA
#define printf px_print

static inline void __syncwarp() { px_block(PX_WARP, 32); }
static inline void __syncthreads() { px_block(PX_CTA, px_threads()); }
static inline bool __syncthreads_and(bool x) { return px_vote(PX_CTA, px_threads(), x); }
static inline bool __all_sync(unsigned, bool x) { return px_vote(PX_WARP, 32, x); }
static inline void __threadfence_block() {}
static inline void __threadfence() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned) { px_yield(); }
static inline void __trap() { px_fail("trap"); }
#undef __builtin_assume
#define __builtin_assume(x) ((x) ? (void)0 : px_fail("an assumption that is false"))

// ---------------------------------------------------------------------- memory

void px_misaligned(const volatile void* p, size_t bytes);
// A pointer that an access of so many bytes goes through: machines trap where it is not aligned to them.
template <class T, class P> static inline T* px_aligned(P* p, size_t bytes = sizeof(T)) {
  if ((size_t)p % bytes) px_misaligned(p, bytes);
  return (T*)p;
}
unsigned px_address(const void* p);                                 // of one's own shared memory
unsigned char* px_place(unsigned address, size_t bytes, size_t alignment);  // checked: aligned, and inside shared memory
static inline unsigned char* px_place(unsigned address, size_t bytes) { return px_place(address, bytes, bytes); }
enum { PX_CLUSTER = 1u << 29 };
unsigned px_mapped(unsigned address, unsigned cta);  // the same place in another CTA
unsigned px_own(unsigned address);                   // checked: not of another CTA
int px_rank_of(unsigned address);
// A variable in shared memory, by a number that it has in the text.
unsigned char* px_static(int id, size_t bytes, size_t alignment);
template <class T> static inline T& px_variable(int id, size_t alignment = 1) {
  return *(T*)px_static(id, sizeof(T), alignment > alignof(T) ? alignment : alignof(T));
}
int px_ctas();  // of the cluster
const int* px_cluster_shape();

// ---------------------------------------------------------------------- barriers and copies

void px_barrier_init(unsigned bar, unsigned count);
void px_barrier_inval(unsigned bar);
void px_arrive(unsigned bar, unsigned count);
void px_expect(unsigned bar, unsigned bytes);
void px_complete(unsigned bar, unsigned bytes);
bool px_phase_comes(unsigned bar, unsigned parity);  // whether a phase is over; if not, later: others run first
void px_cluster_arrive();
void px_cluster_wait();
// Copies land when the machine says so. A null `bar` stands for bulk groups.
void px_send(unsigned to, const void* data, unsigned bytes, unsigned bar);
void px_push(unsigned to, unsigned from, unsigned bytes, unsigned bar);
void px_bulk_in(unsigned to, const void* from, unsigned bytes, unsigned bar);
void px_bulk_out(void* to, unsigned from, unsigned bytes);
void px_bulk_fold(void* to, unsigned from, unsigned bytes, unsigned size, void (*fold)(void*, const void*));
struct px_map {  // what the copies below read of a descriptor; axes innermost first, strides in bytes
  unsigned char* data;
  long long stride[5];
  int size[5];
  short box[5], rank, item, mask, fill;
  char type[8];
  short padded;  // bytes of sixteen packed elements of four or six bits, which have 16 bytes in shared memory; else 0
  short lower[3], upper[3], step[3];  // of a convolution's patches; steps are 0 where there are none
};
static_assert(sizeof(px_map) <= 128, "it takes the place of a descriptor");
void px_tensor_in(unsigned to, const void* map, const int* at, const int* rows, unsigned bar, unsigned ctas);
// Patches of a convolution: `at` is where the first begins, `taps` how far the pixel lies that is brought of each.
void px_patches_in(unsigned to, const void* map, const int* at, const int* taps, unsigned bar, unsigned ctas);
void px_tensor_load(unsigned to, const void* map, const int* at, const int* rows, unsigned bar, bool multicast, unsigned ctas,
                    int group);
void px_tensor_out(const void* map, const int* at, const int* rows, unsigned from, const char* reduction);
void px_land_all();
// A copy that a thread begins, of which so many bytes are found and the others are zeros; a barrier that waits for all of
// the thread's, and hears of it by an arrival that is announced here.
void px_copy_async(unsigned to, const void* from, unsigned bytes, unsigned found);
void px_copies_arrive(unsigned bar);
#define PX_HERE (1u << px_self->rank)

// ---------------------------------------------------------------------- tensor cores

// One wgmma of 64 rows, n columns and 32 bytes of K; A by four registers, or null and by a descriptor. It happens at once or
// when its group is waited for, as the seed says: all that it reads, registers too, is read then. So registers are variables
// with a place of their own, also behind the block that declares them (`host_build.OWN_PLACES`). `d` holds floats, ints or
// f16s, as `kind` says (f32, s32, f16).
struct px_product {
  void* d;
  const char *kind, *a_type, *b_type;
  int n;
  unsigned long long a, b;
  bool accumulate, negate, ta, tb;
  const unsigned* registers[4];  // of the four lanes that hold two rows of A, if it comes from registers
};
void px_wgmma(px_product product, const unsigned* registers);
void px_wgmma_commit();
void px_wgmma_wait(int groups);

// ---------------------------------------------------------------------- warps

template <class T> static T px_exchange(T x, int lane) {
  px_self->given = 0;
  memcpy(&px_self->given, &x, sizeof x);
  px_block(PX_WARP, 32);
  T got;
  memcpy(&got, &px_lane(lane & 31)->given, sizeof got);
  px_block(PX_WARP, 32);
  return got;
}
template <class T> static T __shfl_sync(unsigned, T x, int lane) { return px_exchange(x, lane); }
template <class T> static T __shfl_xor_sync(unsigned, T x, int mask) { return px_exchange(x, px_self->index % 32 ^ mask); }
template <class T> static T __shfl_up_sync(unsigned, T x, unsigned by) {
  const int lane = px_self->index % 32, from = lane - (int)by;
  return px_exchange(x, from < 0 ? lane : from);
}
template <class T> static T __shfl_down_sync(unsigned, T x, unsigned by) {
  const int lane = px_self->index % 32, from = lane + (int)by;
  return px_exchange(x, from > 31 ? lane : from);
}
static inline unsigned __ballot_sync(unsigned, bool x) {
  unsigned all = 0;
  px_self->given = x;
  px_block(PX_WARP, 32);
  for (int lane = 0; lane < 32; ++lane) all |= (px_lane(lane)->given ? 1u : 0u) << lane;
  px_block(PX_WARP, 32);
  return all;
}
static inline bool __any_sync(unsigned m, bool x) { return __ballot_sync(m, x) != 0; }
template <class T, class F> static inline T px_over_warp(T x, F fold) {
  for (int k = 16; k; k /= 2) x = fold(x, px_exchange(x, px_self->index % 32 ^ k));
  return x;
}
#define PX_REDUCE(name, T, result) static inline T name(unsigned, T x) { return px_over_warp(x, [](T a, T b) { return result; }); }
PX_REDUCE(__reduce_max_sync, int, a > b ? a : b)
PX_REDUCE(__reduce_min_sync, int, a < b ? a : b)
PX_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
PX_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
PX_REDUCE(__reduce_add_sync, int, (int)((unsigned)a + (unsigned)b))
PX_REDUCE(__reduce_add_sync, unsigned, a + b)
PX_REDUCE(__reduce_and_sync, unsigned, a & b)
PX_REDUCE(__reduce_or_sync, unsigned, a | b)
PX_REDUCE(__reduce_xor_sync, unsigned, a ^ b)

// ---------------------------------------------------------------------- numbers

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
template <class T, class S> static inline T px_cast(S x) {
  static_assert(sizeof(T) == sizeof(S), "the same bits");
  T y;
  memcpy(&y, &x, sizeof y);
  return y;
}
static inline float __int_as_float(int x) { return px_cast<float>(x); }
static inline int __float_as_int(float x) { return px_cast<int>(x); }
static inline float __uint_as_float(unsigned x) { return px_cast<float>(x); }
static inline unsigned __float_as_uint(float x) { return px_cast<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return px_cast<double>(x); }
static inline long long __double_as_longlong(double x) { return px_cast<long long>(x); }
template <class T, class S> static inline T px_saturate(S x, double low, double high, T lowest, T highest) {
  return x != x ? 0 : x <= low ? lowest : x >= high ? highest : (T)x;
}
#define PX_TO(name, T, S, lo, hi, L, H) static inline T name(S x) { return px_saturate<T, S>(x, lo, hi, L, H); }
PX_TO(__float2int_rz, int, float, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647)
PX_TO(__double2int_rz, int, double, -2147483648.0, 2147483648.0, -2147483647 - 1, 2147483647)
PX_TO(__float2uint_rz, unsigned, float, 0.0, 4294967296.0, 0u, 4294967295u)
PX_TO(__double2uint_rz, unsigned, double, 0.0, 4294967296.0, 0u, 4294967295u)
static const long long px_top = 9223372036854775807LL;
PX_TO(__float2ll_rz, long long, float, -9223372036854775808.0, 9223372036854775808.0, -px_top - 1, px_top)
PX_TO(__double2ll_rz, long long, double, -9223372036854775808.0, 9223372036854775808.0, -px_top - 1, px_top)
PX_TO(__float2ull_rz, unsigned long long, float, 0.0, 18446744073709551616.0, 0ULL, ~0ULL)
PX_TO(__double2ull_rz, unsigned long long, double, 0.0, 18446744073709551616.0, 0ULL, ~0ULL)
static inline float __fdividef(float a, float b) { return a / b; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }

// Narrow floats by their bits: not every compiler has types for them. Nearest, ties to even.
static inline float px_half_value(unsigned short h) {
  const unsigned sign = (h & 0x8000u) << 16, rest = h & 0x7fffu, fraction = h & 0x3ffu;
  if (rest >= 0x7c00) return px_cast<float>(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0u));
  if (rest >= 0x400) return px_cast<float>(sign | ((rest << 13) + 0x38000000u));
  const float small = (float)fraction * 0x1p-24f;
  return sign ? -small : small;
}
static inline unsigned short px_half_of(float x) {
  const unsigned b = px_cast<unsigned>(x), sign = b >> 16 & 0x8000u, a = b & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00u | (a >> 13 & 0x3ffu);
  if (a >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and beyond
  if (a >= 0x38800000u) return sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1)) >> 13;
  if (a < 0x33000000u) return sign;  // below half of the smallest number
  const unsigned fraction = (a & 0x7fffffu) | 0x800000u, shift = 126 - (a >> 23), units = fraction >> shift;
  const unsigned rest = fraction & ((1u << shift) - 1), half = 1u << (shift - 1);
  return sign | (units + (rest > half || (rest == half && units % 2)));
}
static inline float px_bfloat_value(unsigned short x) { return px_cast<float>((unsigned)x << 16); }
static inline unsigned short px_bfloat_of(float x) {
  const unsigned b = px_cast<unsigned>(x);
  return x != x ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16;
}
// A number as float; between two floats the one whose last bit is 1, so that rounding it to fewer bits rounds only once.
template <class T> static inline float px_odd_float(T x) {
  const float near = (float)x;
  const long double lost = (long double)x - (long double)near;
  if (x != x || lost == 0) return near;
  const unsigned bits = px_cast<unsigned>(near);
  return px_cast<float>(((lost > 0) == (bits >> 31 != 0) ? bits - 1 : bits) | 1u);
}
// a * b + c, exact but for what lies behind a float's last bit, which is 1 where anything does: rounding it to 16 bits is then
// the only rounding.
static inline float px_fma_odd(float a, float b, float c) {
  const double x = (double)a * b, y = c, sum = x + y;
  const double part = sum - x, lost = (x - (sum - part)) + (y - part);
  const float near = (float)sum;
  const double rest = lost == lost ? (sum - near) + lost : 0.0;
  if (near != near || rest == 0.0) return near;
  unsigned bits = px_cast<unsigned>(near);
  if ((rest < 0.0) != (near < 0.0) && near != 0.0f) --bits;
  return px_cast<float>(bits | 1);
}
// What `f` makes of each half of registers with numbers of 16 bits; a result that is no number is PTX's canonical NaN, 0x7fff.
template <float (*value)(unsigned short), unsigned short (*of)(float), class F>
static inline unsigned px_each_half(F f, unsigned a, unsigned b, unsigned c = 0) {
  unsigned pair = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const float made = f(value(a >> shift & 0xffff), value(b >> shift & 0xffff), value(c >> shift & 0xffff));
    pair |= (unsigned)(made != made ? 0x7fff : of(made)) << shift;
  }
  return pair;
}
extern float px_e4m3[256], px_e5m2[256];  // the number of each code
// Saturating: what cvt.rn.satfinite does.
unsigned char px_e4m3_of(float x);
unsigned char px_e5m2_of(float x);

#include "tensor.h"
