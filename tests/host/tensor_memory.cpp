// Tensor memory: who may allocate, which cells an instruction touches, and when. Written from PTX's tables.
//
// Products and copies of a thread wait in its queue. A commit closes what is there; it lands like any copy, and the work
// before it happens then, or at once, as the seed says. Stores to tensor memory happen at their wait or at once, and
// registers have what was loaded at theirs or at once.
#include "inside.h"

#include <stdarg.h>

#include <deque>

#include "tensor_inside.h"

namespace px_machine {

struct Allocation { unsigned column, columns; int group; };
struct Memory {
  std::vector<unsigned> cells;
  std::vector<Allocation> held;
  unsigned largest;     // that may still be asked for
  bool relinquished;
  unsigned asked;       // by a warp that waits for the pair's other one
  int calls;            // allocations of a pair that this CTA has made
};
struct Reading { int rank, lane, lanes, column, columns, warp; };  // loads that nobody has waited for
struct Cell { int rank, lane, column; unsigned word, keep; };      // `keep`: bits that stay
struct Queue {
  std::vector<std::function<void()>> open;
  std::deque<std::vector<std::function<void()>>> closed;
  std::vector<Cell> stores;
  std::vector<std::pair<void*, unsigned>> loads;  // registers that have their words at the wait
  int uncommitted, line;
};

std::vector<Memory> tensor;
std::vector<Reading> readings;
std::map<int, Queue> queues;  // by thread
int group_in_use;
const Fiber* acting;          // whose work lands
bool refusal_was_seen;        // a request of this cluster for another was refused, and a thread has looked

std::map<std::string, long long>& px_counts() {
  static std::map<std::string, long long> counts;
  return counts;
}

void refuse(int line, const char* form, ...) {
  char text[600];
  va_list values;
  va_start(values, form);
  vsnprintf(text, sizeof text, form, values);
  va_end(values);
  if (running || acting == nullptr) px_fail("%s @%d", text, line);
  else
    px_fail("thread %u of CTA (%u, %u, %u), later: %s @%d", acting->thread.x, acting->block.x, acting->block.y,
            acting->block.z,
            text, line);
  throw Stop{};
}

const unsigned char* shared_at(int rank, unsigned address, unsigned bytes, int line, const char* what) {
  const long long at = (long long)address - 4096;
  if (at < 0 || at + bytes > (long long)shared_bytes)
    refuse(line, "%s reads byte %lld of shared memory, which has %zu", what, at, shared_bytes);
  return memories[rank] + at;
}

void tensor_begins() {
  tensor.assign((size_t)ctas, Memory{std::vector<unsigned>(LANES * COLUMNS, UNSET), {}, COLUMNS, false, 0, 0});
  readings.clear(), queues.clear();
  group_in_use = 0, acting = nullptr, refusal_was_seen = false;
}
static void apply(std::vector<Cell>& stores, int line) {
  for (const Cell& cell : stores) {
    unsigned& word = cell_at(cell.rank, cell.lane, cell.column, "tcgen05.st", line);
    overwrites(cell.rank, cell.lane, 1, cell.column, 1, "tcgen05.st", line);
    word = (word & cell.keep) | cell.word;
  }
  stores.clear();
}
void tensor_thread_ends() {
  auto found = queues.find(current);
  if (found == queues.end()) return;
  Queue& queue = found->second;
  if (queue.uncommitted)
    refuse(queue.line, "%d tcgen05.mma or tcgen05.cp that no commit of this thread follows", queue.uncommitted);
  apply(queue.stores, queue.line);
}
bool tensor_ends() {
  for (int rank = 0; rank < ctas; ++rank)
    for (const Allocation& a : tensor[rank].held) {
      snprintf(story, sizeof story,
               "CTA %d of a cluster ends and has not freed %u columns of tensor memory from column %u on", rank, a.columns,
               a.column);
      failed = 2;
      return false;
    }
  return true;
}

// ---------------------------------------------------------------------- cells

void one_group(int group, const char* what, int line) {
  if (group != 1 && group != 2) refuse(line, "%s with cta_group::%d", what, group);
  if (group_in_use && group_in_use != group)
    refuse(line, "%s with cta_group::%d in a kernel that uses cta_group::%d", what, group, group_in_use);
  group_in_use = group;
  if (group == 2 && (px_self->rank ^ 1) >= ctas)
    refuse(line, "%s with cta_group::2 in CTA %d of a cluster of %d: there is no other CTA of its pair", what,
           px_self->rank, ctas);
}
void is_alive(int rank, const char* what, int line) {
  for (int i = rank * threads; i < (rank + 1) * threads; ++i)
    if (!fibers[i].done) return;
  refuse(line, "%s reaches CTA %d of the cluster, which has ended", what, rank);
}
unsigned& cell_at(int rank, int lane, int column, const char* what, int line) {
  for (const Allocation& a : tensor[rank].held)
    if (lane >= 0 && lane < LANES && column >= (int)a.column && column < (int)(a.column + a.columns))
      return tensor[rank].cells[(size_t)lane * COLUMNS + column];
  refuse(line, "%s at lane %d, column %d of tensor memory, which CTA %d has not allocated", what, lane, column, rank);
}
void overwrites(int rank, int lane, int lanes, int column, int columns, const char* what, int line) {
  for (const Reading& r : readings)
    if (r.rank == rank && lane < r.lane + r.lanes && r.lane < lane + lanes && column < r.column + r.columns &&
        r.column < column + columns)
      refuse(line, "%s overwrites lane %d, column %d of tensor memory, and warp %d has not waited for its tcgen05.ld of it",
             what,
             lane > r.lane ? lane : r.lane, column > r.column ? column : r.column, r.warp % threads / 32);
}

void work_later(std::function<void()> work, int line) {
  Queue& queue = queues[current];
  ++queue.uncommitted, queue.line = line;
  if (products_late) queue.open.push_back(std::move(work));
  else work();
}

// What all lanes of a warp say alike; the others wait for it.
static void whole_warp(unsigned long long said, const char* what) {
  px_self->given = said;
  px_block(PX_WARP, 32);
  for (int lane = 0; lane < 32; ++lane)
    if (px_lane(lane)->given != said)
      refuse(px_at, "%s with other operands in lane %d than in lane %d", what, lane, px_self->index % 32);
  px_block(PX_WARP, 32);
  if (px_self->index % 32 == 0) px_note(what);
}

// ---------------------------------------------------------------------- allocation

static bool free_in(const Memory& m, unsigned column, unsigned columns) {
  for (const Allocation& a : m.held)
    if (column < a.column + a.columns && a.column < column + columns) return false;
  return true;
}
// Anywhere that is free in all of these CTAs: a kernel may not know where.
static bool take(const std::vector<int>& ranks, unsigned columns, int group) {
  std::vector<unsigned> places;
  for (unsigned column = 0; column < COLUMNS; column += columns) {
    bool all = true;
    for (int rank : ranks) all = all && free_in(tensor[rank], column, columns);
    if (all) places.push_back(column);
  }
  if (places.empty()) return false;
  const unsigned column = places[next() % places.size()];
  for (int rank : ranks) {
    tensor[rank].held.push_back({column, columns, group});
    for (int lane = 0; lane < LANES; ++lane)
      for (unsigned c = column; c < column + columns; ++c) tensor[rank].cells[(size_t)lane * COLUMNS + c] = UNSET;
  }
  progress = true;
  return true;
}

static void allocate(unsigned to, unsigned columns, int group, int line) {
  Memory& mine = tensor[px_self->rank];
  if (mine.relinquished) refuse(line, "tcgen05.alloc after tcgen05.relinquish_alloc_permit");
  if (columns > mine.largest)
    refuse(line, "tcgen05.alloc of %u columns after one of %u: later ones may not be larger", columns, mine.largest);
  mine.largest = columns;
  unsigned char* const place = px_place(px_own(to), 4);
  if (group == 1) {
    while (!take({px_self->rank}, columns, group)) px_yield();
  } else {
    const int peer = px_self->rank ^ 1, call = ++mine.calls;
    Memory& other = tensor[peer];
    if (other.calls < call) {  // the second of the two takes it for both
      mine.asked = columns;
      while (mine.asked) px_yield();
    } else {
      if (other.asked != columns)
        refuse(line, "tcgen05.alloc of %u columns, and of %u in the other CTA of the pair", columns, other.asked);
      while (!take({px_self->rank, peer}, columns, group)) px_yield();
      other.asked = 0;
    }
  }
  memcpy(place, &mine.held.back().column, 4);
}

static void right_size(unsigned columns, const char* what, int line) {
  if (columns < 32 || columns > COLUMNS || (columns & (columns - 1)))
    refuse(line, "%s of %u columns: they are a power of two from 32 to 512", what, columns);
}

}  // namespace px_machine

void px_note(const char* what) { ++px_counts()[what]; }

void px_tmem_alloc(unsigned to, unsigned columns, int group) {
  const int line = px_at;
  whole_warp((unsigned long long)columns << 32 | to, "tcgen05.alloc");
  one_group(group, "tcgen05.alloc", line);
  right_size(columns, "tcgen05.alloc", line);
  if (px_self->index % 32 == 0) allocate(to, columns, group, line);
  px_block(PX_WARP, 32);
}
void px_tmem_free(unsigned address, unsigned columns, int group) {
  const int line = px_at;
  whole_warp((unsigned long long)columns << 32 | address, "tcgen05.dealloc");
  one_group(group, "tcgen05.dealloc", line);
  right_size(columns, "tcgen05.dealloc", line);
  if (px_self->index % 32) return;
  auto& held = tensor[px_self->rank].held;
  for (size_t n = 0; n < held.size(); ++n)
    if (held[n].column == address && held[n].columns == columns) {
      for (const Reading& r : readings)
        if (r.rank == px_self->rank && r.column < (int)(address + columns) && (int)address < r.column + r.columns)
          refuse(line, "tcgen05.dealloc while a tcgen05.ld of warp %d is under way", r.warp % threads / 32);
      held.erase(held.begin() + (long)n);
      progress = true;
      return;
    }
  refuse(line, "tcgen05.dealloc of %u columns at address 0x%x, where there is no allocation of that size", columns, address);
}
void px_tmem_relinquish(int group) {
  const int line = px_at;
  whole_warp(0, "tcgen05.relinquish_alloc_permit");
  one_group(group, "tcgen05.relinquish_alloc_permit", line);
  tensor[px_self->rank].relinquished = true;
}

// ---------------------------------------------------------------------- registers

namespace px_machine {

struct Access {
  const char* what;
  bool halves;         // two columns to a register
  int lanes, columns;  // that the warp touches, of each half
  int lane, column, split;
  int kind, count;     // 0 32x32b, 1 16x64b, 2 16x128b, 3 16x256b, 4 16x32bx2; registers
};
// Where register i of a lane lies; a column here is 32 bits of a register.
static void place_of(const Access& a, int l, int i, int* lane, int* column) {
  switch (a.kind) {
    case 0: *lane = l, *column = i; break;
    case 1: *lane = l / 4 + 8 * (l % 2), *column = l / 2 % 2 + 2 * i; break;
    case 2: *lane = l / 4 + 8 * (i % 2), *column = l % 4 + 4 * (i / 2); break;
    case 3: *lane = l / 4 + 8 * (i / 2 % 2), *column = 2 * (l % 4) + i % 2 + 8 * (i / 4); break;
    default: *lane = l % 16, *column = i;
  }
  *column = a.column + *column * (a.halves ? 2 : 1) + (a.kind == 4 && l >= 16 ? a.split : 0);
  *lane += a.lane;
}
static Access access(const char* what, const char* shape, int times, bool packed, int count, unsigned address, int split,
                     int line) {
  static const char* const shapes[] = {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"};
  static const int registers[] = {1, 1, 2, 4, 1}, widths[] = {1, 2, 4, 8, 1};
  int kind = 0;
  while (kind < 5 && strcmp(shape, shapes[kind])) ++kind;
  if (kind == 5) refuse(line, "%s of a shape %s", what, shape);
  if (times < 1 || times > 128 || (times & (times - 1)) || times * registers[kind] > 128)
    refuse(line, "%s.%s.x%d is not one of the shapes", what, shape, times);
  if (count != times * registers[kind])
    refuse(line, "%s.%s.x%d with %d registers instead of %d", what, shape, times, count, times * registers[kind]);
  Access a = {what, packed, kind ? 16 : 32, times * widths[kind] * (packed ? 2 : 1), (int)(address >> 16),
              (int)(address & 0xffff),
              split, kind, count};
  const int first = px_self->thread.x / 32 % 4 * 32;
  if (a.lane < first || a.lane + a.lanes > first + 32)
    refuse(line, "%s of lanes %d to %d of tensor memory by warp %u, which reaches lanes %d to %d only", what, a.lane,
           a.lane + a.lanes - 1, px_self->thread.x / 32, first, first + 31);
  if ((a.lane - first) % a.lanes) refuse(line, "%s.%s at lane %d of tensor memory", what, shape, a.lane);
  return a;
}

}  // namespace px_machine

void px_tmem_load(const char* shape, int times, bool packed, unsigned* words, int count, unsigned address, int split) {
  const int line = px_at, l = px_self->index % 32;
  whole_warp((unsigned long long)split << 32 | address, "tcgen05.ld");
  const Access a = access("tcgen05.ld", shape, times, packed, count, address, split, line);
  for (int i = 0; i < count; ++i) {
    int lane, column;
    place_of(a, l, i, &lane, &column);
    words[i] = cell_at(px_self->rank, lane, column, a.what, line);
    if (packed) words[i] = (words[i] & 0xffff) | cell_at(px_self->rank, lane, column + 1, a.what, line) << 16;
  }
  for (int half = 0; l == 0 && half < (a.kind == 4 ? 2 : 1); ++half)
    readings.push_back({px_self->rank, a.lane, a.lanes, a.column + half * split, a.columns, px_self->index});
}
void px_tmem_store(const char* shape, int times, bool packed, const unsigned* words, int count, unsigned address,
                   int split) {
  const int line = px_at, l = px_self->index % 32;
  whole_warp((unsigned long long)split << 32 | address, "tcgen05.st");
  const Access a = access("tcgen05.st", shape, times, packed, count, address, split, line);
  Queue& queue = queues[current];
  queue.line = line;
  for (int i = 0; i < count; ++i) {
    int lane, column;
    place_of(a, l, i, &lane, &column);
    cell_at(px_self->rank, lane, column + packed, a.what, line);
    if (!packed) queue.stores.push_back({px_self->rank, lane, column, words[i], 0});
    for (int half = 0; packed && half < 2; ++half)
      queue.stores.push_back({px_self->rank, lane, column + half, words[i] >> 16 * half & 0xffff, 0xffff0000u});
  }
  if (!products_late) apply(queue.stores, line);
}
void px_tmem_loaded(void* to, unsigned word) {
  const unsigned unknown = 0x7fedcba9;  // no number as f32, a large one as an integer
  memcpy(to, products_late ? &unknown : &word, sizeof word);
  if (products_late) queues[current].loads.push_back({to, word});
}
void px_tmem_wait(bool stores) {
  const int first = px_self->index / 32 * 32, line = px_at;
  Queue& queue = queues[current];
  if (stores) apply(queue.stores, line);
  for (size_t n = 0; !stores && n < queue.loads.size(); ++n)
    memcpy(queue.loads[n].first, &queue.loads[n].second, sizeof(unsigned));
  if (!stores) queue.loads.clear();
  whole_warp(0, stores ? "tcgen05.wait::st" : "tcgen05.wait::ld");
  for (size_t n = readings.size(); !stores && n-- > 0;)
    if (readings[n].warp == first) readings.erase(readings.begin() + (long)n);
}

// ---------------------------------------------------------------------- copies from shared memory

namespace px_machine {

struct Copying { int rows, columns, lanes, copies, apart, from; };  // copies of a row are so many lanes apart

// Sixteen elements of four or six bits, then padding, become sixteen bytes: bits 5:2 of each, or 5:0.
static void expand(const unsigned char* from, unsigned char* to, int bits) {
  for (int n = 0; n < 16; ++n) {
    const int bit = n * bits;
    const unsigned two = from[bit / 8] | (bit / 8 + 1 < 16 ? from[bit / 8 + 1] : 0u) << 8;
    const unsigned code = two >> bit % 8 & ((1u << bits) - 1);
    to[n] = (unsigned char)(bits == 4 ? code << 2 : code);
  }
}
static void copy_rows(const Copying& c, int rank, unsigned address, unsigned long long descriptor, int line) {
  const Matrix matrix = matrix_of(descriptor, "tcgen05.cp", line);
  for (int row = 0; row < c.rows; ++row) {
    unsigned char bytes[32], wide[32];
    for (int b = 0; b < c.columns * 4; b += 16)
      memcpy(bytes + b, shared_at(rank, along_k(matrix, row, b), 16, line, "tcgen05.cp"), 16);
    for (int b = 0; c.from && b < c.columns * 4; b += 16) expand(bytes + b, wide + b, c.from);
    for (int copy = 0; copy < c.copies; ++copy) {
      int lane = row;
      if (c.lanes == 32) lane = 32 * row;                          // 4x256b
      if (c.lanes == 64) lane = 64 * (row / 32) + row % 32;        // 01_23
      lane += copy * c.apart;
      for (int n = 0; n < c.columns; ++n) {
        const int column = (int)(address & 0xffff) + n;
        overwrites(rank, lane, 1, column, 1, "tcgen05.cp", line);
        memcpy(&cell_at(rank, lane, column, "tcgen05.cp", line), (c.from ? wide : bytes) + 4 * n, 4);
      }
    }
  }
}

}  // namespace px_machine

void px_tmem_copy(const char* shape, const char* multicast, int from, unsigned address, unsigned long long descriptor,
                  int group) {
  const int line = px_at;
  px_note("tcgen05.cp");
  one_group(group, "tcgen05.cp", line);
  const std::string both = std::string(shape) + "." + multicast;
  Copying c = {};
  if (both == "128x256b.") c = {128, 8, 1, 1, 0, from};
  else if (both == "128x128b.") c = {128, 4, 1, 1, 0, from};
  else if (both == "4x256b.") c = {4, 8, 32, 1, 0, from};
  else if (both == "64x128b.x2::02_13") c = {64, 4, 1, 2, 64, from};
  else if (both == "64x128b.x2::01_23") c = {64, 4, 64, 2, 32, from};
  else if (both == "32x128b.x4") c = {32, 4, 1, 4, 32, from};
  else refuse(line, "tcgen05.cp of %s with warp%s", shape, *multicast ? multicast : " of none");
  if (address >> 16) refuse(line, "tcgen05.cp to lane %u of tensor memory: it begins at lane 0", address >> 16);
  if (address % 4) refuse(line, "tcgen05.cp to column %u of tensor memory, no multiple of 4", address);
  leader_issues(group, "tcgen05.cp", line);
  matrix_of(descriptor, "tcgen05.cp", line);
  const int rank = px_self->rank;
  work_later([=] {
    for (int member = 0; member < group; ++member) {
      if (member) is_alive(rank ^ 1, "tcgen05.cp", line);
      copy_rows(c, rank ^ member, address, descriptor, line);
    }
  }, line);
}

// ---------------------------------------------------------------------- commits

namespace px_machine {

void leader_issues(int group, const char* what, int line) {
  if (group == 2 && px_self->rank % 2)
    refuse(line, "%s with cta_group::2 by CTA %d: the even CTA of a pair issues it", what, px_self->rank);
}
// The first of a thread's commits lands, whichever the shuffle has meant; it passes so many times before: a wait that is
// missing shows the better the later the work is done.
static void later(int issuer, int times) {
  flying.push_back([=] {
    if (times) return later(issuer, times - 1);
    acting = &fibers[issuer];
    auto first = std::move(queues[issuer].closed.front());
    queues[issuer].closed.pop_front();
    for (auto& part : first) part();
    acting = nullptr;
  });
}
static void arrives(unsigned char* place, int line) {
  auto found = barriers.find(place);
  if (found == barriers.end()) refuse(line, "tcgen05.commit to a barrier that is not initialised");
  if (found->second.pending == 0) refuse(line, "tcgen05.commit is one arrival too many at its barrier");
  --found->second.pending;
  credit(place, 0);
}

}  // namespace px_machine

void px_tensor_commit(unsigned bar, int group, bool multicast, unsigned to_ctas) {
  const int line = px_at;
  px_note("tcgen05.commit");
  one_group(group, "tcgen05.commit", line);
  px_place(bar, 8);
  if (!multicast) to_ctas = 1u << px_rank_of(bar);
  if (to_ctas >> ctas) refuse(line, "tcgen05.commit to CTAs 0x%x of a cluster of %d", to_ctas, ctas);
  Queue& queue = queues[current];
  const unsigned offset = (bar & 0xffffff) - 4096;
  auto work = std::move(queue.open);
  queue.open.clear(), queue.uncommitted = 0;
  work.push_back([=] {
    for (int cta = 0; cta < ctas; ++cta)
      if (to_ctas >> cta & 1) arrives(memories[cta] + offset, line);
  });
  queue.closed.push_back(std::move(work));
  later(current, (int)(next() % 8));
}

// ---------------------------------------------------------------------- cluster launch control

namespace {
struct Response { unsigned first[3], kind; };  // opaque to kernels
enum { GRANTED = 0xc1c00001, REFUSED = 0xc1c00000 };
Response response_of(px_b128 x, int line) {
  Response r;
  memcpy(&r, &x, sizeof r);
  if (r.kind != GRANTED && r.kind != REFUSED) refuse(line, "query_cancel of 16 bytes that no try_cancel has written");
  return r;
}
}  // namespace

void px_try_cancel(unsigned response, unsigned bar, bool everywhere) {
  const int line = px_at, rank = px_self->rank;
  px_note("clusterlaunchcontrol.try_cancel");
  px_place(px_own(response), 16), px_place(px_own(bar), 8);
  if (refusal_was_seen) refuse(line, "clusterlaunchcontrol.try_cancel after a response that was a refusal");
  const unsigned to = (response & 0xffffff) - 4096, at = (bar & 0xffffff) - 4096;
  flying.push_back([=] {
    Response r = {{0, 0, 0}, REFUSED};
    if (!waiting.empty() && next() % 8) {  // one of eight is refused though clusters wait: they begin later, as usual
      const size_t n = next() % waiting.size();
      r = {{waiting[n].x, waiting[n].y, waiting[n].z}, GRANTED};
      waiting.erase(waiting.begin() + (long)n);
    }
    for (int cta = everywhere ? 0 : rank; cta < (everywhere ? ctas : rank + 1); ++cta) {
      acting = &fibers[cta * threads];
      is_alive(cta, "clusterlaunchcontrol.try_cancel", line);
      memcpy(memories[cta] + to, &r, sizeof r);
      credit(memories[cta] + at, sizeof r);
    }
    acting = nullptr;
  });
}
bool px_is_canceled(px_b128 response) {
  const bool granted = response_of(response, px_at).kind == GRANTED;
  refusal_was_seen = refusal_was_seen || !granted;
  return granted;
}
unsigned px_first_cta(px_b128 response, int axis) {
  const Response r = response_of(response, px_at);
  if (r.kind != GRANTED) refuse(px_at, "query_cancel.get_first_ctaid of a response that was a refusal");
  return r.first[axis];
}

#ifndef PX_PROGRAM
extern "C" long long px_counted(const char* what) { return px_counts()[what]; }
#endif
