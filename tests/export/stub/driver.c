/* Prints every call as a line of JSON; descriptors are given numbers, which the launch shows again. */
#include "cuda.h"

#include <stdio.h>
#include <string.h>

int stub_parameter_bytes[64];
int stub_parameters = 0;
int stub_major = 9, stub_minor = 0, stub_context = 1;
static unsigned long long maps = 0;
static int library_marker, kernel_marker;

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
  *library = (CUlibrary)&library_marker;
  printf("{\"call\": \"load\", \"size\": %d}\n", ((const unsigned char *)code)[4]);
  return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library) { return library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  if (library != (CUlibrary)&library_marker) return CUDA_ERROR_INVALID_VALUE;
  *kernel = (CUkernel)&kernel_marker;
  printf("{\"call\": \"kernel\", \"name\": \"%s\"}\n", name);
  return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  if (kernel != (CUkernel)&kernel_marker || device != 2) return CUDA_ERROR_INVALID_VALUE;
  printf("{\"call\": \"attribute\", \"number\": %d, \"value\": %d}\n", (int)attribute, value);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function, const CUlaunchConfig *config) {
  if (function != (CUfunction)&kernel_marker || config->numAttrs != 1) return CUDA_ERROR_INVALID_VALUE;
  *count = 66;
  printf("{\"call\": \"clusters\"}\n");
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, CUfunction function, int threads, size_t shared) {
  if (function != (CUfunction)&kernel_marker || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
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
  if ((uintptr_t)map % 64) return CUDA_ERROR_INVALID_VALUE;
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
  unsigned n;
  int p, b;
  if (function != (CUfunction)&kernel_marker || extra) return CUDA_ERROR_INVALID_VALUE;
  printf("{\"call\": \"launch\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared\": %u, \"stream\": %llu",
         config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY, config->blockDimZ,
         config->sharedMemBytes, (unsigned long long)(uintptr_t)config->hStream);
  printf(", \"attributes\": [");
  for (n = 0; n < config->numAttrs; ++n)
    printf("%s[%d, %u, %u, %u]", n ? ", " : "", (int)config->attrs[n].id, config->attrs[n].value.clusterDim.x,
           config->attrs[n].value.clusterDim.y, config->attrs[n].value.clusterDim.z);
  printf("], \"parameters\": [");
  for (p = 0; p < stub_parameters; ++p) {
    printf("%s\"", p ? ", " : "");
    for (b = 0; b < stub_parameter_bytes[p]; ++b) printf("%02x", ((const unsigned char *)parameters[p])[b]);
    printf("\"");
  }
  printf("]}\n");
  return CUDA_SUCCESS;
}
