// The machine that the CUDA text of a kernel runs on: a cluster whose threads are coroutines.
//
// A thread runs until it blocks; whoever is next comes in an order shuffled by a seed, one CTA may fall behind, and a copy
// lands when the shuffle says so: it reads its source only then. So a missing barrier or a slot that is reused too early
// shows as a wrong result. `px_run` is called from Python in a library, and by `main` in a program of its own, which runs
// each case in a process of its own and is what the compilers' sanitizers and other machines need.
#include "inside.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define PX_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PX_ASAN 1
#endif
#endif
#ifdef PX_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace px_machine {

struct Coroutine {
  ucontext_t context;
  jmp_buf place;
  void* fake;      // of the address sanitizer
  bool started;
};

enum { STACK = 1 << 20, PAGE = 1 << 16, KINDS = 2 + 16 + 8, GUARD = 1024, PATIENCE = 8, QUIET = 200 * PATIENCE };
std::vector<char*> stacks;
std::vector<Coroutine> coroutines;
std::vector<Fiber> fibers;
std::vector<unsigned char*> memories;
std::map<unsigned char*, Barrier> barriers;
std::vector<std::function<void()>> flying;
std::vector<Meeting> meetings;
std::vector<uint3> waiting;
std::map<int, unsigned> statics;
size_t shared_bytes;
int threads, ctas, shape[3], met, met_times, current;
bool progress, running, products_late;
unsigned random_state;
void (*kernel)(void**);
void** arguments;
int failed;  // 0 all is well, 1 the threads wait for each other, 2 there is a story
char story[1000];

unsigned next() { random_state = random_state * 1664525u + 1013904223u; return random_state >> 8; }

// ---------------------------------------------------------------------- coroutines

#ifdef PX_ASAN
ucontext_t scheduler;
const void* scheduler_stack;
size_t scheduler_size;

void leave(void** fake) {
  __sanitizer_start_switch_fiber(fake, scheduler_stack, scheduler_size);
  swapcontext(&coroutines[current].context, &scheduler);
  __sanitizer_finish_switch_fiber(coroutines[current].fake, &scheduler_stack, &scheduler_size);
}
void begin() {
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_size);
  kernel(arguments);
  tensor_thread_ends();
  fibers[current].done = progress = true;
  leave(nullptr);
}
void enter(Fiber& f) {
  void* fake;
  __sanitizer_start_switch_fiber(&fake, stacks[f.index], STACK);
  swapcontext(&scheduler, &coroutines[f.index].context);
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
}
void leave() { leave(&coroutines[current].fake); }
#else
jmp_buf scheduler;

void leave() {
  if (!_setjmp(coroutines[current].place)) _longjmp(scheduler, 1);
}
void begin() {
  kernel(arguments);
  tensor_thread_ends();
  fibers[current].done = progress = true;
  _longjmp(scheduler, 1);
}
__attribute__((noinline)) void enter(Fiber& f) {  // contexts only to begin with: they cost a call of the system each
  if (_setjmp(scheduler)) return;
  Coroutine& c = coroutines[f.index];
  if (c.started) _longjmp(c.place, 1);
  c.started = true;
  setcontext(&c.context);
}
#endif

char* stack_of(size_t n) {
  while (stacks.size() <= n) {  // a page below each that nobody may touch
    char* whole = (char*)mmap(nullptr, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (whole == (char*)MAP_FAILED) { perror("stacks"); _exit(3); }
    mprotect(whole, PAGE, PROT_NONE);
    stacks.push_back(whole + PAGE);
  }
  return stacks[n];
}

void prepare(Fiber& f) {
  ucontext_t& context = coroutines[f.index].context;
  getcontext(&context);
  context.uc_stack.ss_sp = stack_of(f.index);
  context.uc_stack.ss_size = STACK;
  context.uc_link = nullptr;
  makecontext(&context, begin, 0);
  context.uc_stack.ss_size = 0;  // else the address sanitizer forgets at each switch what it knows of the stack
  coroutines[f.index].started = f.done = f.said = false;
  f.waits = f.meetings = 0;
  f.watched = nullptr;
  f.given = 0;
  f.products.assign(1, {});
}

Meeting& meeting_of(const Fiber& f, int kind) {
  const int warps = threads / 32;
  return meetings[kind == PX_WARP ? f.index / 32 : ctas * warps + f.rank * KINDS + kind];
}
Fiber& self() { return fibers[current]; }

// ---------------------------------------------------------------------- shared memory

void release_memories() {
  for (unsigned char* memory : memories) free(memory - GUARD);
  memories.clear();
}

// Exactly what the kernel asked for; a guard on either side, which the address sanitizer watches or `memory_is_whole`.
void allocate_memories() {
  release_memories();
  for (int c = 0; c < ctas; ++c) {
    void* memory = nullptr;
    const size_t size = shared_bytes + 2 * GUARD;
    if (posix_memalign(&memory, 1024, size)) { perror("shared memory"); _exit(3); }
    memset(memory, 0xA5, size);
    memories.push_back((unsigned char*)memory + GUARD);
#ifdef PX_ASAN
    __asan_poison_memory_region(memory, GUARD);
    __asan_poison_memory_region(memories.back() + shared_bytes, GUARD);
#endif
  }
}

bool memory_is_whole() {
#ifndef PX_ASAN
  for (int c = 0; c < ctas; ++c)
    for (int i = 0; i < GUARD; ++i) {
      const long long at = memories[c][-1 - i] != 0xA5 ? -1 - i : (long long)shared_bytes + i;
      if (memories[c][at] == 0xA5) continue;
      snprintf(story, sizeof story, "CTA %d of a cluster has written byte %lld of %zu bytes of shared memory", c, at,
               shared_bytes);
      return false;
    }
#endif
  return true;
}

Barrier& barrier(unsigned address) {
  auto found = barriers.find(px_place(address, 8));
  if (found == barriers.end()) px_fail("a barrier that is not initialised, at byte %d", (int)(address & 0xffffff) - 4096);
  return found->second;
}
void credit(unsigned char* place, long long bytes) {
  auto found = barriers.find(place);
  if (found == barriers.end()) { px_fail("bytes for a barrier that is not initialised"); return; }
  Barrier& b = found->second;
  b.bytes -= bytes;
  if (b.pending == 0 && b.bytes == 0) ++b.phase, b.pending = b.expected;
}
void land(size_t n) {
  auto work = flying[n];
  flying.erase(flying.begin() + (long)n);
  try { work(); } catch (const Stop&) {}
  progress = true;
}

template <class T> void fold(unsigned char* to, const unsigned char* from, const std::string& by) {
  T a, b;
  memcpy(&a, to, sizeof a), memcpy(&b, from, sizeof b);
  T c = by == "add" ? T(a + b) : by == "min" ? (b < a ? b : a) : (a < b ? b : a);
  memcpy(to, &c, sizeof c);
}
template <float (*value)(unsigned short), unsigned short (*of)(float)>
void fold_half(unsigned char* to, const unsigned char* from, const std::string& by) {
  unsigned short a, b;
  memcpy(&a, to, 2), memcpy(&b, from, 2);
  const float x = value(a), y = value(b);
  a = of(by == "add" ? x + y : by == "min" ? fminf(x, y) : fmaxf(x, y));
  memcpy(to, &a, 2);
}
void combine(unsigned char* to, const unsigned char* from, const std::string& type, const std::string& by) {
  if (type == "f32") fold<float>(to, from, by);
  else if (type == "f64") fold<double>(to, from, by);
  else if (type == "i32" && by != "add") fold<int>(to, from, by);
  else if (type == "i32" || type == "u32") fold<unsigned>(to, from, by);
  else if (type == "i64" && by != "add") fold<long long>(to, from, by);
  else if (type == "i64" || type == "u64") fold<unsigned long long>(to, from, by);
  else if (type == "f16") fold_half<px_half_value, px_half_of>(to, from, by);
  else if (type == "bf16") fold_half<px_bfloat_value, px_bfloat_of>(to, from, by);
  else px_fail("a reduction of %s by copies", type.c_str());
}

enum Way { IN, OUT, REDUCE };
// One box between shared memory, by addresses before the swizzle, and an array: elements outside it are filled or left.
void box(const px_map& m, unsigned char* memory, unsigned at, const std::vector<int>& corner, const std::vector<int>& rows,
         Way way, const std::string& by) {
  for (int axis = 0; way != IN && axis < m.rank; ++axis)  // a store touches nothing at a negative place: there it faults
    if (corner[axis] < 0) { px_fail("a tensor store that begins at %d of axis %d", corner[axis], axis); return; }
  int index[5] = {};
  // Rows of a box lie side by side, but that fewer bytes than a swizzle spans have room for as many.
  const unsigned span = m.mask == 0 ? 0 : m.mask == 0x10 ? 32 : m.mask == 0x30 ? 64 : 128, columns = (unsigned)m.box[0];
  const unsigned pitch = std::max(span, columns * (unsigned)m.item);
  for (unsigned n = 0;; ++n) {
    const unsigned plain = at + n / columns * pitch + n % columns * (unsigned)m.item;
    const unsigned swizzled = plain ^ (plain >> (m.mask == 0x60 ? 2 : 3) & (unsigned)m.mask);  // 0x60: atoms of 32 bytes
    if (swizzled + (size_t)m.item > shared_bytes) { px_fail("a box beyond the shared memory"); return; }
    long long offset = 0;
    bool inside = true;
    for (int axis = 0; axis < m.rank; ++axis) {
      const long long c = axis == 1 && !rows.empty() ? rows[index[1]] : (long long)corner[axis] + index[axis];
      inside = inside && c >= 0 && c < m.size[axis];
      offset += inside ? c * m.stride[axis] : 0;
    }
    unsigned char* const shared = memory + swizzled;
    if (way == IN && inside) memcpy(shared, m.data + offset, (size_t)(m.padded ? m.padded : m.item));
    else if (way == IN) memset(shared, m.fill ? 0xff : 0, (size_t)m.item);
    else if (inside && way == OUT) memcpy(m.data + offset, shared, (size_t)m.item);
    else if (inside) combine(m.data + offset, shared, m.type, by);
    int axis = 0;
    while (axis < m.rank && ++index[axis] == m.box[axis]) index[axis++] = 0;
    if (axis == m.rank) return;
  }
}
// The patches from the one at `corner` on, each a row of channels; the next one is a step to the right, then down, then on.
void patches(const px_map& m, unsigned char* memory, unsigned at, std::vector<int> corner, const std::vector<int>& taps) {
  const int axes = m.rank - 2, channels = m.box[0];
  const unsigned span = m.mask == 0 ? 0 : m.mask == 0x10 ? 32 : m.mask == 0x30 ? 64 : 128;
  const unsigned pitch = std::max(span, (unsigned)(channels * m.item));
  for (int n = 0; n < m.box[m.rank - 1]; ++n) {
    long long offset = corner[axes + 1] * m.stride[axes + 1];
    bool there = corner[axes + 1] >= 0 && corner[axes + 1] < m.size[axes + 1];
    for (int axis = 1; axis <= axes; ++axis) {
      const int place = corner[axis] + taps[axis - 1];
      there = there && place >= 0 && place < m.size[axis];
      offset += place * m.stride[axis];
    }
    for (int c = 0; c < channels; ++c) {
      const unsigned plain = at + n * pitch + c * m.item;
      const unsigned swizzled = plain ^ (plain >> (m.mask == 0x60 ? 2 : 3) & (unsigned)m.mask);
      if (swizzled + (size_t)m.item > shared_bytes) { px_fail("patches beyond the shared memory"); return; }
      const int channel = corner[0] + c;
      if (there && channel >= 0 && channel < m.size[0]) memcpy(memory + swizzled, m.data + offset + channel * m.stride[0], m.item);
      else memset(memory + swizzled, 0, m.item);
    }
    int axis = 1;
    for (; axis <= axes; ++axis) {
      corner[axis] += m.step[axis - 1];
      if (corner[axis] <= m.size[axis] - 1 + m.upper[axis - 1]) break;
      corner[axis] = m.lower[axis - 1];
    }
    if (axis > axes) ++corner[axes + 1];
  }
}
long long bytes_of(const px_map& m) {
  long long bytes = m.item;
  for (int axis = 0; axis < m.rank; ++axis) bytes *= m.box[axis];
  return bytes;
}
// What a barrier is told: the bytes of the array, without those that pad them.
long long credited_bytes(const px_map& m) {
  return m.padded ? bytes_of(m) / m.item * m.padded : bytes_of(m);
}
px_map map_of(const void* map, const int* at, const int* rows, unsigned address) {
  px_map m;
  memcpy(&m, map, sizeof m);
  if (rows) m.box[1] = 4;  // the box of such a descriptor is one row
  if (m.step[0]) px_fail("a copy of boxes by a descriptor of a convolution's patches");
  if (m.padded && at[0] % 16) px_fail("a box at element %d of a row, not at a multiple of 16", at[0]);
  px_place(address, (size_t)bytes_of(m), 128);
  if (!m.padded && (at[0] * m.item) % 16) px_fail("a box at element %d of a row, not at a multiple of 16 bytes", at[0]);
  return m;
}

int run_cluster(uint3 origin) {
  barriers.clear(), flying.clear();
  met = met_times = 0;
  products_late = next() >> 8 & 3;  // three times of four; the lowest bits are the same for all small seeds
  const int total = threads * ctas;
  fibers.resize(total), coroutines.resize(total);
  tensor_begins();
  meetings.assign(ctas * (threads / 32) + ctas * KINDS, Meeting{0, true});
  allocate_memories();
  for (int i = 0; i < total; ++i) {
    Fiber& f = fibers[i];
    const unsigned c = i / threads, x = shape[0], y = shape[1];
    f.index = i, f.rank = (int)c, f.memory = memories[c], f.copies.clear();
    f.thread = {(unsigned)(i % threads), 0, 0};
    f.block = {origin.x + c % x, origin.y + c / x % y, origin.z + c / (x * y)};
    prepare(f);
  }
  for (int quiet = 0, left = total; quiet < QUIET;) {
    progress = false;
    const int start = next() % total, step = next() % 2 ? 1 : total - 1, lazy = next() % (ctas + 1);
    for (int n = 0, i = start; n < total; ++n, i = (i + step) % total) {
      Fiber& f = fibers[i];
      if (f.done || f.waits || (ctas > 1 && f.rank == lazy)) continue;  // one CTA may fall behind
      if (f.watched && (f.watched->phase & 1) == f.parity && --f.patience > 0) continue;  // it would only ask again
      f.watched = nullptr;
      current = i, px_self = &f, running = true;
      enter(f);
      running = false;
      if (failed) return failed;
      left -= f.done;
    }
    for (unsigned n = next() % 4; n > 0 && !flying.empty(); --n) land(next() % flying.size());
    if (failed) return failed;
    if (left == 0 && flying.empty()) return memory_is_whole() && tensor_ends() ? 0 : 2;
    quiet = progress || !flying.empty() ? 0 : quiet + 1;
  }
  return 1;
}

#ifndef PX_PROGRAM
sigjmp_buf crash;
char signal_stack[1 << 16];
void crashed(int number) {
  snprintf(story, sizeof story, "%s in thread %u of CTA (%u, %u, %u)",
           number == SIGALRM ? "runs for more than the time it was given" : strsignal(number), px_self->thread.x,
           px_self->block.x, px_self->block.y, px_self->block.z);
  siglongjmp(crash, 1);
}
#endif

}  // namespace px_machine

px_thread* px_self;
uint3 gridDim;
int px_at;

void px_yield() { leave(); }

unsigned long long px_ticks() {
  static unsigned long long now = 0;
  return ++now;
}
void px_block(int kind, int expected) { px_vote(kind, expected, true); }
bool px_vote(int kind, int expected, bool value) {
  Meeting& m = meeting_of(self(), kind);
  self().waits = kind;
  m.all = m.all && value;
  progress = true;
  if (++m.here == expected) {
    const int count = kind == PX_WARP ? 32 : threads, first = current / count * count;
    for (int i = first; i < first + count; ++i)
      if (fibers[i].waits == kind) fibers[i].waits = 0, fibers[i].said = m.all;
    m = {0, true};
  }
  leave();
  return self().said;
}
// Ends the launch. A thread that fails never runs on; from the scheduler, where copies land, this returns.
void px_fail(const char* form, ...) {
  if (!failed) {
    va_list values;
    va_start(values, form);
    const uint3 b = px_self->block;
    int n = 0;
    if (running) n = snprintf(story, sizeof story, "thread %u of CTA (%u, %u, %u): ", threadIdx.x, b.x, b.y, b.z);
    vsnprintf(story + n, sizeof story - (size_t)n, form, values);
    va_end(values);
    failed = 2;
  }
  while (running) leave();
}
int px_print(const char* form, ...) {
  char text[1000];
  va_list values;
  va_start(values, form);
  const int n = vsnprintf(text, sizeof text, form, values);
  va_end(values);
  if (getenv("PX_HOST_PRINTS")) {
    fputs(text, stdout);
    fflush(stdout);
  }
  return n;
}
px_thread* px_lane(int lane) { return &fibers[current / 32 * 32 + lane]; }
int px_threads() { return threads; }
int px_ctas() { return ctas; }
const int* px_cluster_shape() { return shape; }

void px_misaligned(const volatile void* p, size_t bytes) {
  for (int c = 0; c < ctas; ++c) {
    const size_t at = (size_t)p - (size_t)memories[c];
    if (at < shared_bytes) px_fail("misaligned access of %zu bytes at byte %zu of shared memory @%d", bytes, at, px_at);
  }
  px_fail("misaligned access of %zu bytes at address %zu @%d", bytes, (size_t)p, px_at);
}
unsigned px_address(const void* p) {
  const unsigned address = (unsigned)((size_t)p - (size_t)px_smem) + 4096;
  return ctas > 1 ? px_mapped(address, (unsigned)px_self->rank) : address;
}
unsigned px_mapped(unsigned address, unsigned cta) {
  if ((int)cta >= ctas) px_fail("rank %u of %d", cta, ctas);
  return (address & 0xffffff) | cta << 24 | PX_CLUSTER;
}
int px_rank_of(unsigned address) { return address & PX_CLUSTER ? (int)(address >> 24 & 15) : px_self->rank; }
unsigned px_own(unsigned address) {
  if (px_rank_of(address) != px_self->rank)
    px_fail("an address of CTA %d of the cluster, where only one's own will do @%d", px_rank_of(address), px_at);
  return address;
}
unsigned char* px_static(int id, size_t bytes, size_t alignment) {
  unsigned& behind = statics[id];  // places go down from the end of the shared memory
  if (behind == 0) {
    unsigned top = (unsigned)shared_bytes;
    for (const auto& other : statics) if (other.second && other.second - 1 < top) top = other.second - 1;
    if (bytes > top) px_fail("no room for the variables in shared memory");
    behind = (top - (unsigned)bytes) / (unsigned)alignment * (unsigned)alignment + 1;
  }
  return px_smem + behind - 1;
}
unsigned char* px_place(unsigned address, size_t bytes, size_t alignment) {
  const int rank = px_rank_of(address);
  const long long at = (long long)(address & 0xffffff) - 4096;
  if (rank >= ctas) px_fail("rank %d of %d", rank, ctas);
  if (at % (long long)alignment) px_fail("misaligned access of %zu bytes at byte %lld of shared memory @%d", alignment, at, px_at);
  if (at < 0 || at + (long long)bytes > (long long)shared_bytes)
    px_fail("%zu bytes at byte %lld of shared memory, which has %zu @%d", bytes, at, shared_bytes, px_at);
  return memories[rank] + at;
}

void px_barrier_init(unsigned bar, unsigned count) { barriers[px_place(bar, 8)] = {count, count, 0, 0}; }
void px_barrier_inval(unsigned bar) {
  auto found = barriers.find(px_place(bar, 8));
  if (found == barriers.end()) return;
  for (Fiber& f : fibers)
    if (f.watched == &found->second) f.watched = nullptr;
  barriers.erase(found);
}
void px_arrive(unsigned bar, unsigned count) {
  Barrier& b = barrier(bar);
  if (count > b.pending) px_fail("%u arrivals at a barrier that waits for %lld", count, b.pending);
  b.pending -= count;
  credit(px_place(bar, 8), 0);
  progress = true;
}
void px_expect(unsigned bar, unsigned bytes) { barrier(bar).bytes += bytes; }
void px_complete(unsigned bar, unsigned bytes) { credit(px_place(bar, 8), bytes), progress = true; }
bool px_phase_comes(unsigned bar, unsigned parity) {
  const Barrier& b = barrier(bar);
  if ((b.phase & 1) != parity) return true;
  self().watched = &b, self().parity = parity, self().patience = PATIENCE;
  leave();
  return false;
}
void px_cluster_arrive() {
  ++self().meetings, progress = true;
  if (++met == threads * ctas) met = 0, ++met_times;
}
void px_cluster_wait() { while (met_times < self().meetings) px_yield(); }

static void same_cta(unsigned to, unsigned bar) {
  if (px_rank_of(to) != px_rank_of(bar)) px_fail("a copy to CTA %d with a barrier of CTA %d", px_rank_of(to), px_rank_of(bar));
}
static void whole(unsigned bytes) {
  if (bytes % 16) px_fail("a copy of %u bytes", bytes);
}
void px_send(unsigned to, const void* data, unsigned bytes, unsigned bar) {
  same_cta(to, bar);
  const std::vector<unsigned char> sent((const unsigned char*)data, (const unsigned char*)data + bytes);
  unsigned char *const place = px_place(to, bytes), *const at = px_place(bar, 8);
  flying.push_back([=] { memcpy(place, sent.data(), sent.size()), credit(at, (long long)sent.size()); });
}
void px_push(unsigned to, unsigned from, unsigned bytes, unsigned bar) {
  same_cta(to, bar), whole(bytes);
  unsigned char *const place = px_place(to, bytes, 16), *const source = px_place(from, bytes, 16), *const at = px_place(bar, 8);
  flying.push_back([=] { memmove(place, source, bytes), credit(at, bytes); });
}
void px_bulk_in(unsigned to, const void* from, unsigned bytes, unsigned bar) {
  whole(bytes), px_aligned<const char>((const char*)from, 16);
  unsigned char *const place = px_place(to, bytes, 16), *const at = px_place(bar, 8);
  flying.push_back([=] { memcpy(place, from, bytes), credit(at, bytes); });
}
void px_bulk_out(void* to, unsigned from, unsigned bytes) {
  whole(bytes), px_aligned<char>((char*)to, 16);
  unsigned char* const source = px_place(from, bytes, 16);
  flying.push_back([=] { memcpy(to, source, bytes); });
}
void px_bulk_fold(void* to, unsigned from, unsigned bytes, unsigned size, void (*fold)(void*, const void*)) {
  whole(bytes), px_aligned<char>((char*)to, 16);
  unsigned char* const source = px_place(from, bytes, 16);
  flying.push_back([=] { for (unsigned k = 0; k < bytes; k += size) fold((char*)to + k, source + k); });
}
void px_tensor_in(unsigned to, const void* map, const int* at, const int* rows, unsigned bar, unsigned to_ctas) {
  px_tensor_load(to, map, at, rows, bar, true, to_ctas, 0);
}
// Whose barrier hears of the bytes: without a pair that of the CTA which gets them, by a pair that of the member whose rank
// has the parity of the CTA that the barrier's address lies in.
void px_tensor_load(unsigned to, const void* map, const int* at, const int* rows, unsigned bar, bool multicast, unsigned to_ctas,
                    int group) {
  const px_map m = map_of(map, at, rows, to);
  std::vector<int> corner(at, at + m.rank);
  if (m.padded) corner[0] /= 16;  // coordinates are of elements, boxes here of sixteen
  const std::vector<int> named(rows, rows ? rows + 4 : rows);
  const unsigned offset = (to & 0xffffff) - 4096, barrier_offset = (bar & 0xffffff) - 4096;
  const int home = px_rank_of(bar), line = px_at;
  px_place(bar, 8);
  if (!multicast) {
    to_ctas = 1u << px_rank_of(to);
    if (group == 2 ? (px_rank_of(to) ^ home) > 1 : px_rank_of(to) != home)
      px_fail("a copy to CTA %d with a barrier of CTA %d @%d", px_rank_of(to), home, line);
  }
  for (int cta = 0; cta < 16; ++cta) {
    if (!(to_ctas >> cta & 1)) continue;
    if (cta >= ctas) px_fail("a multicast to CTA %d of %d", cta, ctas);
    const int told = group == 2 ? (cta & ~1) | (home & 1) : cta;
    if (told >= ctas) px_fail("a copy for a pair to CTA %d, whose pair has no CTA %d @%d", cta, told, line);
    flying.push_back([=] {
      box(m, memories[cta], offset, corner, named, IN, "");
      credit(memories[told] + barrier_offset, credited_bytes(m));
    });
  }
}
void px_patches_in(unsigned to, const void* map, const int* at, const int* taps, unsigned bar, unsigned to_ctas) {
  px_map m;
  memcpy(&m, map, sizeof m);
  if (!m.step[0]) px_fail("a copy of patches by a descriptor of boxes");
  const long long nbytes = bytes_of(m);
  px_place(to, (size_t)nbytes, 128), px_place(bar, 8);
  for (int axis = 0; axis < m.rank - 2; ++axis)
    if (taps[axis] < 0 || taps[axis] > (m.rank == 3 ? 65535 : m.rank == 4 ? 255 : 31)) px_fail("a tap at %d", taps[axis]);
  if ((at[0] * m.item) % 16) px_fail("patches from channel %d on, not at a multiple of 16 bytes", at[0]);
  const std::vector<int> corner(at, at + m.rank), further(taps, taps + m.rank - 2);
  const unsigned offset = (to & 0xffffff) - 4096, barrier_offset = (bar & 0xffffff) - 4096;
  for (int cta = 0; cta < 16; ++cta) {
    if (!(to_ctas >> cta & 1)) continue;
    if (cta >= ctas) px_fail("a multicast to CTA %d of %d", cta, ctas);
    flying.push_back([=] {
      patches(m, memories[cta], offset, corner, further);
      credit(memories[cta] + barrier_offset, nbytes);
    });
  }
}
void px_tensor_out(const void* map, const int* at, const int* rows, unsigned from, const char* reduction) {
  const px_map m = map_of(map, at, rows, from);
  if (m.padded) px_fail("a tensor store of elements that are padded in shared memory");
  const std::vector<int> corner(at, at + m.rank), named(rows, rows ? rows + 4 : rows);
  const unsigned offset = (from & 0xffffff) - 4096;
  unsigned char* const memory = px_smem;
  const std::string by = reduction;
  flying.push_back([=] { box(m, memory, offset, corner, named, by.empty() ? OUT : REDUCE, by); });
}
void px_land_all() { while (!flying.empty()) land(0); }
void px_copy_async(unsigned to, const void* from, unsigned bytes, unsigned found) {
  if (found > bytes) px_fail("%u bytes of a copy of %u", found, bytes);
  if (found) px_aligned<const char>((const char*)from, bytes);
  unsigned char* const place = px_place(px_own(to), bytes);
  self().copies.push_back([=] { memcpy(place, from, found), memset(place + found, 0, bytes - found); });
}
void px_copies_arrive(unsigned bar) {
  ++barrier(px_own(bar)).pending;
  unsigned char* const at = px_place(bar, 8);
  const auto begun = std::move(self().copies);
  self().copies.clear();
  flying.push_back([=] {
    for (const auto& copy : begun) copy();
    auto found = barriers.find(at);
    if (found == barriers.end()) { px_fail("an arrival at a barrier that is not initialised"); return; }
    --found->second.pending, credit(at, 0);
  });
}

float px_e4m3[256], px_e5m2[256];
// A float of eight bits: so many of fraction, the exponent's bias; e4m3 has no infinity, and one NaN of each sign.
static float narrow_value(int code, int bits, int bias, bool infinite) {
  const int exponent = (code & 0x7f) >> bits, fraction = code & ((1 << bits) - 1), last = (1 << (7 - bits)) - 1;
  float value = exponent ? ldexpf((float)(fraction + (1 << bits)), exponent - bias - bits) : ldexpf((float)fraction, 1 - bias - bits);
  if (infinite && exponent == last) value = fraction ? NAN : INFINITY;
  if (!infinite && (code & 0x7f) == 0x7f) value = NAN;
  return code & 0x80 ? -value : value;
}
static const bool tables_are_filled = [] {
  for (int code = 0; code < 256; ++code)
    px_e4m3[code] = narrow_value(code, 3, 7, false), px_e5m2[code] = narrow_value(code, 2, 15, true);
  return true;
}();
// ---------------------------------------------------------------------- tensor cores

// The element of a row and a place along K, in shared memory as a descriptor says, as bytes of 16 KB that were swizzled.
static const unsigned char* operand(unsigned long long descriptor, bool transposed, int row, int k, int item) {
  static const unsigned widths[] = {16, 128, 64, 32}, masks[] = {0, 0x70, 0x30, 0x10};
  const unsigned base = (unsigned)(descriptor & 0x3fff) << 4, leading = (unsigned)(descriptor >> 16 & 0x3fff) << 4;
  const unsigned stride = (unsigned)(descriptor >> 32 & 0x3fff) << 4, code = (unsigned)(descriptor >> 62);
  const int panel = (int)widths[code] / item;
  unsigned address = base;
  if (transposed) address += row / panel * leading + k / 8 * stride + k % 8 * widths[code] + row % panel * item;
  else address += row / 8 * stride + row % 8 * widths[code] + k * item;
  return px_place(address ^ (address >> 3 & masks[code]), (size_t)item);
}
enum Type { BF16, F16, TF32, E4M3, E5M2, S8, U8 };
static Type type_of(const std::string& name) {
  static const char* const names[] = {"bf16", "f16", "tf32", "e4m3", "e5m2", "s8"};
  for (int type = BF16; type < U8; ++type)
    if (name == names[type]) return (Type)type;
  return U8;
}
static double number(const unsigned char* p, Type type) {
  unsigned short half;
  unsigned word;
  switch (type) {
    case BF16: return memcpy(&half, p, 2), px_bfloat_value(half);
    case F16: return memcpy(&half, p, 2), px_half_value(half);
    case TF32: return memcpy(&word, p, 4), px_cast<float>(word & 0xffffe000u);
    case E4M3: return px_e4m3[*p];
    case E5M2: return px_e5m2[*p];
    case S8: return (signed char)*p;
    default: return *p;
  }
}
// What a thread holds of the result: rows 16 w + lane / 4 and that + 8, two columns of each eight.
static void multiply(const px_product& p) {
  const std::string kind = p.kind;
  const Type a_type = type_of(p.a_type), b_type = type_of(p.b_type);
  const int item = a_type == TF32 ? 4 : a_type == BF16 || a_type == F16 ? 2 : 1, count = 32 / item;
  const int lane = px_self->index % 32, first = px_self->thread.x / 32 % 4 * 16 + lane / 4;
  unsigned rows[2][8];  // of A: a lane has four bytes of each, and four 16 bytes on
  for (int quarter = 0; !p.a && quarter < 4; ++quarter)
    for (int r = 0; r < 4; ++r) rows[r % 2][quarter + r / 2 * 4] = p.registers[quarter][r];
  std::vector<double> left(2 * count);
  for (int half = 0; half < 2; ++half)
    for (int k = 0; k < count; ++k)
      left[half * count + k] = number(
          p.a ? operand(p.a, p.ta, first + 8 * half, k, item) : (const unsigned char*)rows[half] + k * item, a_type);
  for (int j = 0; j < p.n / 2; ++j) {
    const int column = j / 4 * 8 + lane % 4 * 2 + j % 2, half = j / 2 % 2;
    double sum = 0;
    for (int k = 0; k < count; ++k)
      sum += left[half * count + k] * number(operand(p.b, p.tb, column, k, item), b_type);
    if (p.negate) sum = -sum;
    if (kind == "s32") {
      int* const d = (int*)p.d + j;
      *d = (int)((p.accumulate ? (unsigned)*d : 0u) + (unsigned)(long long)sum);
    } else if (kind == "f16") {
      unsigned short* const d = (unsigned short*)p.d + j;
      *d = px_half_of((float)((p.accumulate ? px_half_value(*d) : 0.0f) + sum));
    } else {
      float* const d = (float*)p.d + j;
      *d = (float)((p.accumulate ? *d : 0.0f) + sum);
    }
  }
}
void px_wgmma(px_product product, const unsigned* registers) {
  px_self->given = (unsigned long long)(size_t)registers;
  px_block(PX_WARP, 32);
  for (int quarter = 0; quarter < 4; ++quarter)
    product.registers[quarter] = (const unsigned*)(size_t)px_lane(px_self->index % 32 / 4 * 4 + quarter)->given;
  if (products_late) self().products.back().push_back(product);
  else multiply(product);
  px_block(PX_WARP, 32);
}
void px_wgmma_commit() { self().products.emplace_back(); }
void px_wgmma_wait(int groups) {
  auto& all = self().products;
  while ((int)all.size() > groups + 1) {
    for (const px_product& product : all.front()) multiply(product);
    all.erase(all.begin());
  }
  // A product is its warpgroup's: where it is over in one warp, the others have come as far, and theirs is over, too.
  px_block(PX_GROUP + (int)px_self->thread.x / 128, 128);
}

static unsigned char narrow(const float* table, float x, int top, unsigned char nan) {
  if (x != x) return nan;
  const float a = fminf(fabsf(x), table[top]);
  int best = 0;
  for (int code = 1; code <= top; ++code) {
    const double d = fabs((double)table[code] - a), b = fabs((double)table[best] - a);
    if (d < b || (d == b && code % 2 == 0)) best = code;
  }
  return (unsigned char)((signbit(x) ? 0x80 : 0) | best);
}
unsigned char px_e4m3_of(float x) { return narrow(px_e4m3, x, 0x7e, 0x7f); }
unsigned char px_e5m2_of(float x) { return narrow(px_e5m2, x, 0x7b, 0x7f); }

// What a launch is: threads of a CTA, bytes of shared memory, grid, cluster, seed, seconds it may take.
struct px_launch { int threads; unsigned shared; unsigned grid[3]; int cluster[3]; unsigned seed, seconds; };

static int run_grid(const px_launch& l) {
  waiting.clear();
  for (unsigned z = 0; z < l.grid[2]; z += l.cluster[2])
    for (unsigned y = 0; y < l.grid[1]; y += l.cluster[1])
      for (unsigned x = 0; x < l.grid[0]; x += l.cluster[0]) waiting.push_back({x, y, z});
  while (!waiting.empty()) {  // a cluster that runs may take over others
    const uint3 origin = waiting.front();
    waiting.erase(waiting.begin());
    if (const int why = run_cluster(origin)) return why;
  }
  return 0;
}
static void set_up(void (*function)(void**), void** args, const px_launch& l) {
  static px_thread nobody;
  px_self = &nobody, px_at = 0, failed = 0, running = false, story[0] = 0;
  kernel = function, arguments = args, threads = l.threads, shared_bytes = l.shared, random_state = l.seed;
  gridDim = {l.grid[0], l.grid[1], l.grid[2]};
  memcpy(shape, l.cluster, sizeof shape);
  ctas = shape[0] * shape[1] * shape[2];
  statics.clear(), px_counts().clear();
}

#ifndef PX_PROGRAM
extern "C" const char* px_told() { return story; }
// 0, 1 for threads that wait for each other, 2 where `px_told` says why.
extern "C" int px_run(void (*function)(void**), void** args, const px_launch* l) {
  set_up(function, args, *l);
  static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
  struct sigaction before[6], now = {};
  stack_t stack = {}, stack_before;
  stack.ss_sp = signal_stack, stack.ss_size = sizeof signal_stack;
  sigaltstack(&stack, &stack_before);
  now.sa_handler = crashed, now.sa_flags = SA_ONSTACK;
  for (int i = 0; i < 6; ++i) sigaction(numbers[i], &now, &before[i]);
  itimerval limit = {{0, 0}, {(time_t)l->seconds, 0}}, none = {};
  setitimer(ITIMER_REAL, &limit, nullptr);
  const int why = sigsetjmp(crash, 1) ? 2 : run_grid(*l);
  setitimer(ITIMER_REAL, &none, nullptr);
  for (int i = 0; i < 6; ++i) sigaction(numbers[i], &before[i], nullptr);
  sigaltstack(&stack_before, nullptr);
  barriers.clear(), flying.clear();
  return why;
}
#else
extern "C" void (*const px_kernels[])(void**);

namespace {
std::vector<char> read_all(const char* path) {
  FILE* file = fopen(path, "rb");
  if (!file) { perror(path); _exit(3); }
  std::vector<char> bytes(1 << 16);
  size_t size = 0;
  while (const size_t got = fread(bytes.data() + size, 1, bytes.size() - size, file)) {
    size += got;
    if (size == bytes.size()) bytes.resize(2 * size);
  }
  fclose(file);
  bytes.resize(size);
  return bytes;
}
struct Reader {
  const char* at;
  template <class T> T take() { T x; memcpy(&x, at, sizeof x); at += sizeof x; return x; }
};

// The case that begins at `job`: launch, buffers (bytes, what their address is modulo 256, contents), parameters (bytes with
// places in buffers to be turned into addresses). The buffers go to `result` afterwards.
int run_case(const char* job, void (*function)(void**), const char* result) {
  Reader r{job};
  const px_launch l = r.take<px_launch>();
  std::vector<unsigned char*> buffers;
  std::vector<size_t> sizes;
  for (unsigned n = r.take<unsigned>(); n > 0; --n) {
    const size_t size = r.take<unsigned long long>(), shift = r.take<unsigned>();
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, shift + size)) { perror("buffers"); return 3; }
    memcpy((char*)memory + shift, r.at, size);
    r.at += size;
    buffers.push_back((unsigned char*)memory + shift), sizes.push_back(size);
#ifdef PX_ASAN
    __asan_poison_memory_region(memory, shift);
#endif
  }
  std::vector<void*> parameters;
  for (unsigned n = r.take<unsigned>(); n > 0; --n) {
    const unsigned size = r.take<unsigned>(), pointers = r.take<unsigned>();
    void* parameter = nullptr;
    if (posix_memalign(&parameter, 128, size)) { perror("parameters"); return 3; }
    memcpy(parameter, r.at, size);
    r.at += size;
    for (unsigned p = 0; p < pointers; ++p) {
      const unsigned place = r.take<unsigned>(), buffer = r.take<unsigned>();
      const long long offset = r.take<long long>();
      unsigned char* const address = buffers[buffer] + offset;
      memcpy((char*)parameter + place, &address, sizeof address);
    }
    parameters.push_back(parameter);
  }
  set_up(function, parameters.data(), l);
  alarm(l.seconds);
  const int why = run_grid(l);
  alarm(0);
  release_memories();
  if (why == 1) fprintf(stderr, "the threads wait for each other\n");
  if (why == 2) {
    size_t address;
    const char* found = strstr(story, "at address ");
    if (found && sscanf(found, "at address %zu", &address) == 1)
      for (size_t n = 0; n < buffers.size(); ++n)
        if (address - (size_t)buffers[n] < sizes[n])
          fprintf(stderr, "buffer %zu byte %zu: ", n, address - (size_t)buffers[n]);
    fprintf(stderr, "%s\n", story);
  }
  if (why) return 1;
  FILE* file = fopen(result, "wb");
  if (!file) { perror(result); return 3; }
  for (size_t n = 0; n < buffers.size(); ++n) fwrite(buffers[n], 1, sizes[n], file);
  if (fclose(file)) { perror(result); return 3; }
  return 0;
}
}  // namespace

// program FOLDER N...: runs these cases, each in a process of its own: FOLDER/N.job, N.out, N.err, N.rc.
int main(int count, char** words) {
  const std::string folder = words[1];
  for (int n = 2; n < count; ++n) {
    const std::string name = folder + "/" + words[n];
    const pid_t child = fork();
    if (child < 0) { perror("fork"); return 3; }
    if (child == 0) {
      if (!freopen((name + ".err").c_str(), "w", stderr)) return 3;
      const std::vector<char> job = read_all((name + ".job").c_str());
      const int why = run_case(job.data(), px_kernels[atoi(words[n])], (name + ".out").c_str());
      fflush(stderr);
      _exit(why);
    }
    int status = 0;
    waitpid(child, &status, 0);
    FILE* file = fopen((name + ".rc").c_str(), "w");
    if (!file) { perror(name.c_str()); return 3; }
    fprintf(file, "%d", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    fclose(file);
  }
  return 0;
}
#endif
