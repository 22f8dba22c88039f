/* What tests tell the stub driver. */
#ifndef STUB_H
#define STUB_H
#include "cuda.h"

/* For the programs of the tests: which machine code there is, how many bytes each parameter of its kernel has, how much
   shared memory it asks for, and what the device is. */
typedef struct {
  const void *code;
  int parameters, bytes[64], shared_allowed, large_clusters;
} stub_program;
extern stub_program stub_programs[16];
extern int stub_count;
extern int stub_major, stub_minor, stub_context;
#endif
