// What the files of the machine share with each other; kernels see machine.h alone.
#pragma once
#include "machine.h"
#undef printf

#include <stdio.h>
#include <stdlib.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace px_machine {

struct Barrier { long long pending, expected, bytes; unsigned phase; };
struct Fiber : px_thread {
  bool done, said;
  int waits;       // 0, or the kind of barrier
  const Barrier* watched;  // whose phase of this parity it would ask for again, in so many rounds at the latest
  unsigned parity;
  int patience;
  int meetings;    // cluster barriers that it arrived at
  std::vector<std::vector<px_product>> products;  // groups that nobody has waited for; the last one is open
  std::vector<std::function<void()>> copies;      // that it has begun itself and not committed yet
};
struct Meeting { int here; bool all; };  // threads at one barrier of a warp or CTA
struct Stop {};  // ends what lands, after a failure was told

extern std::vector<Fiber> fibers;
extern std::vector<unsigned char*> memories;       // shared memory, per CTA
extern std::map<unsigned char*, Barrier> barriers;
extern std::vector<std::function<void()>> flying;  // what lands when the shuffle says so
extern std::vector<uint3> waiting;                 // first CTAs of clusters that have not begun
extern size_t shared_bytes;
extern int threads, ctas, shape[3], current;
extern bool progress, running, products_late;
extern int failed;
extern char story[1000];

unsigned next();
void credit(unsigned char* place, long long bytes);
std::map<std::string, long long>& px_counts();

// Of a cluster: before its threads run, when one of them ends, and when all have; false with a story.
void tensor_begins();
void tensor_thread_ends();
bool tensor_ends();

// Tells of a failure with the line of the text. Inside a thread and while something lands alike it does not return.
[[noreturn]] void refuse(int line, const char* form, ...) __attribute__((format(printf, 2, 3)));
// So many bytes of a CTA's shared memory at an address of 18 bits, for what lands.
const unsigned char* shared_at(int rank, unsigned address, unsigned bytes, int line, const char* what);

}  // namespace px_machine
using namespace px_machine;
