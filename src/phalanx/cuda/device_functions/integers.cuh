/// Arithmetic that C++ leaves open, comparisons, and indices.

// Signed integers wrap around, as the machine's do; C++ leaves that open.
__device__ __forceinline__ int wrap_add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
__device__ __forceinline__ long long wrap_add(long long a, long long b) {
  return (long long)((unsigned long long)a + (unsigned long long)b);
}

// Signed integers wrap around, as the machine's do; C++ leaves that open.
__device__ __forceinline__ int wrap_sub(int a, int b) { return (int)((unsigned)a - (unsigned)b); }
__device__ __forceinline__ long long wrap_sub(long long a, long long b) {
  return (long long)((unsigned long long)a - (unsigned long long)b);
}

// Signed integers wrap around, as the machine's do; C++ leaves that open.
__device__ __forceinline__ int wrap_mul(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
__device__ __forceinline__ long long wrap_mul(long long a, long long b) {
  return (long long)((unsigned long long)a * (unsigned long long)b);
}

// A count that is negative or not below the width shifts everything out; C++ leaves that open.
template <class T>
__device__ __forceinline__ T shift_left(T a, T by) {
  constexpr int width = 8 * sizeof(T);
  if ((unsigned long long)by >= width) return 0;
  if constexpr (width == 64) return (T)((unsigned long long)a << by);
  else return (T)((unsigned)a << by);
}

// A count that is negative or not below the width leaves copies of the sign; C++ leaves that open.
template <class T>
__device__ __forceinline__ T shift_right(T a, T by) {
  constexpr int width = 8 * sizeof(T);
  return (T)((unsigned long long)by < width ? a >> by : a >> (width - 1) >> 1);
}

/// In C++ a division by 0 is open, and so is the smallest number by -1; `(T)-1 < (T)1` says that T has a sign.
// Rounds down. By 0: 0. By -1: the negative number, which wraps around.
template <class T>
__device__ __forceinline__ T floor_div(T a, T b) {
  if constexpr ((T)-1 < (T)1) {
    if (b == 0 || b == -1) return b == 0 ? 0 : (T)(0 - (unsigned long long)a);
    return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));
  } else {
    return b == 0 ? 0 : (T)(a / b);
  }
}

// The remainder has the divisor's sign. By 0 and by -1: 0.
template <class T>
__device__ __forceinline__ T floor_mod(T a, T b) {
  if constexpr ((T)-1 < (T)1) {
    if (b == 0 || b == -1) return 0;
    const T r = (T)(a % b);
    return (T)(r != 0 && (r < 0) != (b < 0) ? r + b : r);
  } else {
    return b == 0 ? 0 : (T)(a % b);
  }
}

// needs: floor_div
template <class T>
__device__ __noinline__ T called_floor_div(T a, T b) { return floor_div(a, b); }

// needs: floor_mod
template <class T>
__device__ __noinline__ T called_floor_mod(T a, T b) { return floor_mod(a, b); }

template <class T>
__device__ __forceinline__ T maximum(T a, T b) { return a > b ? a : b; }

template <class T>
__device__ __forceinline__ T minimum(T a, T b) { return a < b ? a : b; }

// Whether the element x at i comes before y at j: the smaller one, of equals the first. A NaN is smaller than all.
template <class T>
__device__ __forceinline__ bool argmin_takes(T x, int i, T y, int j) {
  return i < j ? x <= y || x != x : !(x >= y) && y == y;
}

// Whether the element x at i comes before y at j: the larger one, of equals the first. A NaN is larger than all.
template <class T>
__device__ __forceinline__ bool argmax_takes(T x, int i, T y, int j) {
  return i < j ? x >= y || x != x : !(x <= y) && y == y;
}

// Sums of indices wrap around: one below 0 or beyond 2^31 is no smaller than any extent.
__device__ __forceinline__ bool inside(unsigned i, int n) { return i < (unsigned)n; }

// An index in 32 bits: one that needs more is -2^31, outside every array, and so are the places that follow it.
__device__ __forceinline__ int index(long long i) { return i == (int)i ? (int)i : -2147483647 - 1; }
__device__ __forceinline__ int index(unsigned i) { return i < 0x80000000u ? (int)i : -2147483647 - 1; }
__device__ __forceinline__ int index(unsigned long long i) { return i < 0x80000000u ? (int)i : -2147483647 - 1; }

__device__ __forceinline__ unsigned long long px_trips(long long start, long long stop, long long step) {
  // How often a counted loop runs, as Python's range counts.
  const unsigned long long from = start, to = stop, by = step;
  if (step > 0) return start < stop ? (to - from - 1) / by + 1 : 0;
  return step < 0 && start > stop ? (from - to - 1) / (0 - by) + 1 : 0;
}

__device__ __forceinline__ int store_at(unsigned coordinate) {
  // A store to a negative coordinate faults; one this far out does nothing.
  return (int)(coordinate < 0x7fffff00u ? coordinate : 0x7fffff00u);
}

// The swizzle of TMA on an element offset: bits three places up are XORed into those of the mask.
template <int mask>
__device__ __forceinline__ int swizzle(int offset) { return offset ^ (offset >> 3 & mask); }

// The swizzle of 128 bytes in atoms of 32 on an element offset: bits two places up are XORed into those of the mask.
template <int mask>
__device__ __forceinline__ int wide_swizzle(int offset) { return offset ^ (offset >> 2 & mask); }
