/* Prints every call as a line of JSON; descriptors are given numbers, which the launch shows again. */
#include "stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

stub_program stub_programs[16];
int stub_count = 0;
int stub_major = 9, stub_minor = 0, stub_context = 1;
static unsigned long long maps = 0;
static char kernels[16];

/* Of a process that tells nothing: the parameters of its kernels in the order in which they are loaded. */
static void know_from_environment(const void *code) {
  const char *text = getenv("STUB_BYTES");
  stub_program *program = &stub_programs[stub_count];
  int n;
  for (n = 0; text && n < stub_count; ++n) text = strchr(text, ';') ? strchr(text, ';') + 1 : NULL;
  if (!text) return;
  program->code = code;
  while (*text && *text != ';') {
    program->bytes[program->parameters++] = (int)strtol(text, (char **)&text, 10);
    if (*text == ',') ++text;
  }
  ++stub_count;
}

/* Which kernel a handle is; -1 for one that was never given out. */
static int number_of(const void *handle) {
  int n;
  for (n = 0; n < stub_count; ++n)
    if (handle == &kernels[n]) return n;
  return -1;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  if (!stub_context) return CUDA_ERROR_INVALID_CONTEXT;
  *device = 2;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  if (device != 2) return CUDA_ERROR_INVALID_VALUE;
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? stub_major
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? stub_minor
                                                                       : 132;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = error == CUDA_ERROR_INVALID_CONTEXT ? "invalid device context" : "invalid argument";
  return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(
    CUlibrary *library, const void *code, CUjit_option *options, void **values, unsigned count, CUlibraryOption *more,
    void **more_values, unsigned more_count) {
  if (memcmp(code, "\177ELF", 4) || options || values || count || more || more_values || more_count)
    return CUDA_ERROR_INVALID_VALUE;
  int n, known = 0;
  for (n = 0; n < stub_count; ++n) known |= stub_programs[n].code == code;
  if (!known) know_from_environment(code);
  for (n = 0; n < stub_count; ++n)
    if (stub_programs[n].code == code) {
      *library = (CUlibrary)&stub_programs[n];
      stub_programs[n].shared_allowed = 48 * 1024;
      printf("{\"call\": \"load\", \"program\": %d}\n", n);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryUnload(CUlibrary library) { return library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  const stub_program *program = (const stub_program *)library;
  if (program < stub_programs || program >= stub_programs + stub_count) return CUDA_ERROR_INVALID_VALUE;
  *kernel = (CUkernel)&kernels[program - stub_programs];
  printf("{\"call\": \"kernel\", \"name\": \"%s\"}\n", name);
  return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  const int n = number_of(kernel);
  if (n < 0 || device != 2 || value > 232448) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) stub_programs[n].shared_allowed = value;
  else stub_programs[n].large_clusters = value;
  printf("{\"call\": \"attribute\", \"number\": %d, \"value\": %d}\n", (int)attribute, value);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function, const CUlaunchConfig *config) {
  if (number_of(function) < 0 || config->numAttrs != 1) return CUDA_ERROR_INVALID_VALUE;
  *count = 66;
  printf("{\"call\": \"clusters\"}\n");
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, CUfunction function, int threads, size_t shared) {
  if (number_of(function) < 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  *count = 2;
  printf("{\"call\": \"blocks\", \"threads\": %d, \"shared\": %d}\n", threads, (int)shared);
  return CUDA_SUCCESS;
}

static void print_list(const char *name, const cuuint64_t *wide, const cuuint32_t *narrow, unsigned count) {
  unsigned n;
  printf(", \"%s\": [", name);
  for (n = 0; n < count; ++n) printf("%s%llu", n ? ", " : "", wide ? (unsigned long long)wide[n] : (unsigned long long)narrow[n]);
  printf("]");
}

CUresult cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *dims,
    const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  const int chunk = (int)type >= 13 ? 32 : 16; /* types whose elements share bytes ask for more */
  unsigned n;
  if ((uintptr_t)map % 64 || (uintptr_t)address % chunk || rank < 1 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
  for (n = 0; n < rank; ++n)
    if (dims[n] < 1 || dims[n] > (cuuint64_t)1 << 32 || box[n] < 1 || box[n] > 256 || steps[n] != 1) return CUDA_ERROR_INVALID_VALUE;
  for (n = 0; n + 1 < rank; ++n)
    if (strides[n] % chunk || strides[n] >= (cuuint64_t)1 << 40) return CUDA_ERROR_INVALID_VALUE;
  memset(map, 0, sizeof *map);
  map->opaque[0] = maps;
  printf("{\"call\": \"map\", \"number\": %llu, \"type\": %d, \"address\": %llu", maps++, (int)type,
         (unsigned long long)(uintptr_t)address);
  print_list("dims", dims, NULL, rank);
  print_list("strides", strides, NULL, rank - 1);
  print_list("box", NULL, box, rank);
  print_list("steps", NULL, steps, rank);
  printf(", \"modes\": [%d, %d, %d, %d]}\n", (int)interleave, (int)swizzle, (int)promotion, (int)fill);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
  unsigned n, cluster = 1;
  int p, b;
  const int number = number_of(function);
  const stub_program *program = &stub_programs[number < 0 ? 0 : number];
  if (number < 0 || extra || !config->gridDimX || !config->gridDimY || !config->gridDimZ) return CUDA_ERROR_INVALID_VALUE;
  if (config->blockDimX > 1024 || (int)config->sharedMemBytes > program->shared_allowed) return CUDA_ERROR_INVALID_VALUE;
  for (n = 0; n < config->numAttrs; ++n)
    if (config->attrs[n].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      if (config->gridDimX % config->attrs[n].value.clusterDim.x || config->gridDimY % config->attrs[n].value.clusterDim.y ||
          config->gridDimZ % config->attrs[n].value.clusterDim.z)
        return CUDA_ERROR_INVALID_VALUE;
      cluster = config->attrs[n].value.clusterDim.x * config->attrs[n].value.clusterDim.y * config->attrs[n].value.clusterDim.z;
    }
  if (cluster > 8 && !program->large_clusters) return CUDA_ERROR_INVALID_VALUE;
  printf("{\"call\": \"launch\", \"program\": %d, \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared\": %u, \"stream\": %llu",
         number, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY, config->blockDimZ,
         config->sharedMemBytes, (unsigned long long)(uintptr_t)config->hStream);
  printf(", \"attributes\": [");
  for (n = 0; n < config->numAttrs; ++n)
    printf("%s[%d, %u, %u, %u]", n ? ", " : "", (int)config->attrs[n].id, config->attrs[n].value.clusterDim.x,
           config->attrs[n].value.clusterDim.y, config->attrs[n].value.clusterDim.z);
  printf("], \"parameters\": [");
  for (p = 0; p < program->parameters; ++p) {
    printf("%s\"", p ? ", " : "");
    for (b = 0; b < program->bytes[p]; ++b) printf("%02x", ((const unsigned char *)parameters[p])[b]);
    printf("\"");
  }
  printf("]}\n");
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  *context = (CUcontext)&kernels[15];
  printf("{\"call\": \"retain\", \"device\": %d}\n", device);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  stub_context = 1;
  return context == (CUcontext)&kernels[15] ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxPopCurrent(CUcontext *context) {
  *context = (CUcontext)&kernels[15];
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr data, unsigned char value, size_t count, CUstream stream) {
  printf("{\"call\": \"memset\", \"address\": %llu, \"value\": %d, \"count\": %llu, \"stream\": %llu}\n", data, value,
         (unsigned long long)count, (unsigned long long)(uintptr_t)stream);
  return CUDA_SUCCESS;
}
