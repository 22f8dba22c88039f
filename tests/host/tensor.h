// Blackwell on the CPU: tensor memory, the products and copies that write it, and cluster launch control.
//
// Everything here is decoded from PTX's tables by the files of the machine themselves (descriptors in tensor_core.cpp,
// addresses and shapes in tensor_memory.cpp): what the compiler has written is checked, not repeated.
#pragma once

void px_note(const char* what);  // counts an instruction that has no effect here
static inline unsigned px_word(float x) { return px_cast<unsigned>(x); }
template <class T> static inline unsigned px_word(T x) { return (unsigned)x; }
static inline unsigned __cvta_generic_to_shared(const void* p) { return px_address(p); }
static inline bool px_elect() { return px_self->index % 32 == 0; }
static inline bool px_try(unsigned bar, unsigned parity) { return px_phase_comes(px_own(bar), parity); }

// ---------------------------------------------------------------------- tensor memory

void px_tmem_alloc(unsigned to, unsigned columns, int group);
void px_tmem_free(unsigned address, unsigned columns, int group);
void px_tmem_relinquish(int group);
// `count` registers of this thread; `split` is the distance of the second half of 16x32bx2. `packed` is pack and unpack.
void px_tmem_load(const char* shape, int times, bool packed, unsigned* words, int count, unsigned address, int split);
void px_tmem_store(const char* shape, int times, bool packed, const unsigned* words, int count, unsigned address, int split);
void px_tmem_loaded(void* to, unsigned word);  // a register has its word at once, or at this thread's wait
template <class T> static inline void px_put(T& x, unsigned word) {
  static_assert(sizeof(T) == sizeof word, "registers of tcgen05.ld have 32 bits");
  px_tmem_loaded(&x, word);
}
void px_tmem_wait(bool stores);
// `multicast` is "", "x2::02_13", "x2::01_23" or "x4"; `from` how many bits an element has that becomes eight, or 0.
void px_tmem_copy(const char* shape, const char* multicast, int from, unsigned address, unsigned long long descriptor,
                  int group);

// ---------------------------------------------------------------------- tensor cores

struct px_mma {
  const char* kind;
  int group;
  unsigned d;
  bool a_in_tensor_memory;
  unsigned long long a, b;  // descriptors, or A's address in tensor memory
  unsigned word;            // the instruction descriptor
  bool accumulate;
  int block;                // elements that share a scale: 0 where the kind says it
  bool scaled;
  unsigned scale_a, scale_b;
  int shift;                // what is there is divided by 2 to the power of this
  int masks;                // words of disabled lanes
  unsigned mask[8];
};
void px_tensor_mma(const px_mma& product);
void px_tensor_commit(unsigned bar, int group, bool multicast, unsigned ctas);

// ---------------------------------------------------------------------- cluster launch control

struct alignas(16) px_b128 { unsigned long long low, high; };
static inline px_b128 px_load_b128(unsigned address) {
  px_b128 x;
  memcpy(&x, px_place(address, 16), 16);
  return x;
}
void px_try_cancel(unsigned response, unsigned bar, bool everywhere);
bool px_is_canceled(px_b128 response);
unsigned px_first_cta(px_b128 response, int axis);
