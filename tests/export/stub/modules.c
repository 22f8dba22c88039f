/* What cuda-bindings asks a driver for beside driver.c: where its functions are, and kernels of modules. */
#include "stub.h"

#include <dlfcn.h>
#include <string.h>

typedef struct CUmod_st *CUmodule;
CUresult cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status);
CUresult cuModuleLoadData(CUmodule *module, const void *code);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value);

CUresult cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
  void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  (void)version;
  (void)flags;
  *found = self ? dlsym(self, strcmp(name, "cuGetProcAddress") ? name : "cuGetProcAddress_v2") : NULL;
  if (status) *status = *found ? 0 : 1;
  return *found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleLoadData(CUmodule *module, const void *code) {
  return cuLibraryLoadData((CUlibrary *)module, code, NULL, NULL, 0, NULL, NULL, 0);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  return cuLibraryGetKernel((CUkernel *)function, (CUlibrary)module, name);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return cuKernelSetAttribute(attribute, value, (CUkernel)function, 2);
}
