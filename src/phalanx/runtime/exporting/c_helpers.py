"""C that every exported launcher contains: strides, checks, descriptors, loading. It knows the driver API alone."""

from __future__ import annotations

STATUSES = {
    "NULL_POINTER": (-1, "an array is NULL"),
    "BAD_SIZE": (-2, "a size is negative, above 2^31 - 1, or not what was exported"),
    "BAD_STRIDE": (-3, "the strides of an array are not as exported: contiguous, or rows at multiples of 16 bytes"),
    "BAD_ALIGNMENT": (-4, "an array does not begin at a multiple of 16 bytes (32 for padded operands)"),
    "NO_CODE": (-5, "there is no machine code for this device among what was exported"),
    "SHARES_MEMORY": (-7, "two arrays share memory that one of them is written to and the other is read from ahead of time"),
    "BAD_GRID": (-6, "the grid is no whole number of clusters, or larger than the hardware takes"),
    "BAD_NUMBER": (-9, "a number is not among those that were exported"),
    "BAD_WORKSPACE": (-8, "the workspace is too small, or does not begin at a multiple of 256 bytes"),
}
"""What a call returns besides a CUresult, which is 0 or positive."""

TYPES = r"""#define PX_RANK 8
#define PX_DEVICES 64

typedef struct {
  CUdeviceptr data;
  int rank;
  int64_t shape[PX_RANK], stride[PX_RANK]; /* outermost axis first, in elements */
} px_view;

/* What the kernel was compiled for: `share` elements lie in `nbytes` bytes. */
typedef struct {
  int rank, share, nbytes, unit_inner, aligned, whole, contiguous;
} px_kind;

typedef struct {
  int rank, merged, data_type, share, nbytes, swizzle, l2_promotion, fill_nan, expands;
  uint32_t box[5];
  int axes[5];
} px_map_kind;

/* A kernel: what its launches have in common on all devices. */
typedef struct {
  const char *entry;
  int shared_bytes, threads, cluster_x, cluster_y, cluster_z, as_cluster, overlap, cooperative;
} px_program;

/* A target: its compute capability, and the machine code of every kernel. */
typedef struct {
  const char *arch;
  int major, minor, family;
  const unsigned char *code[PX_PROGRAMS];
} px_image;
"""

FLOOR_DIV = r"""static int64_t px_floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
"""

FLOOR_MOD = r"""static int64_t px_floor_mod(int64_t a, int64_t b) { return a - px_floor_div(a, b) * b; }
"""

DESCRIBE = r"""/* An array as the caller gives it; without strides it is contiguous. */
static int px_describe(px_view *view, const px_kind *kind, CUdeviceptr data, const int64_t *shape, const int64_t *stride) {
  int64_t step = 1, others = 0;
  int axis;
  view->data = data;
  view->rank = kind->rank;
  for (axis = kind->rank - 1; axis >= 0; --axis) {
    if (shape[axis] < 0 || shape[axis] > INT32_MAX) return PX_BAD_SIZE;
    view->shape[axis] = shape[axis];
    view->stride[axis] = stride ? stride[axis] : step;
    if (kind->contiguous && shape[axis] > 1 && view->stride[axis] != step) return PX_BAD_STRIDE;
    step *= shape[axis];
  }
  for (axis = 0; axis < kind->rank; ++axis)
    if (shape[axis] == 0) return 0;
  if (!data) return PX_NULL_POINTER;
  if (kind->rank && (kind->unit_inner || kind->share > 1)) {
    const int last = kind->rank - 1;
    if (shape[last] > 1 && view->stride[last] != 1) return PX_BAD_STRIDE;
    if (shape[last] % kind->share) return PX_BAD_SIZE;
  }
  for (axis = 0; axis + 1 < kind->rank; ++axis) {
    if (shape[axis] <= 1) continue;
    if (view->stride[axis] % kind->share) return PX_BAD_STRIDE;
    others = view->stride[axis] / kind->share * kind->nbytes;
    if (kind->aligned && (others % 16 || others < 0 || others >= (int64_t)1 << 40)) return PX_BAD_STRIDE;
  }
  if (kind->aligned && data % 16) return PX_BAD_ALIGNMENT;
  if (kind->whole && shape[kind->rank - 1] / kind->share * kind->nbytes % 16) return PX_BAD_SIZE;
  return 0;
}
"""

APART = r"""/* Whether two arrays, before elements that share bytes become bytes, have no byte in common. */
static int px_apart(const px_view *a, const px_kind *a_kind, const px_view *b, const px_kind *b_kind) {
  const px_view *views[2] = {a, b};
  const px_kind *kinds[2] = {a_kind, b_kind};
  int64_t first[2], last[2];
  int n, axis;
  for (n = 0; n < 2; ++n) {
    int64_t low = 0, high = 0;
    for (axis = 0; axis < views[n]->rank; ++axis) {
      const int64_t reach = (views[n]->shape[axis] - 1) * views[n]->stride[axis];
      if (views[n]->shape[axis] == 0) return 1;
      if (reach < 0) low += reach;
      else high += reach;
    }
    first[n] = (int64_t)views[n]->data + px_floor_div(low, kinds[n]->share) * kinds[n]->nbytes;
    last[n] = (int64_t)views[n]->data + (px_floor_div(high, kinds[n]->share) + 1) * kinds[n]->nbytes;
  }
  return last[0] <= first[1] || last[1] <= first[0];
}
"""

IN_BYTES = r"""/* Elements that share a byte as bytes, which is what the kernel sees. */
static void px_in_bytes(px_view *view, int share) {
  int axis;
  view->shape[view->rank - 1] /= share;
  view->stride[view->rank - 1] = 1;
  for (axis = 0; axis + 1 < view->rank; ++axis) view->stride[axis] /= share;
}
"""

ENCODE = r"""/* A TMA descriptor; the hardware counts axes from the innermost. */
static int px_encode(CUtensorMap *map, const px_map_kind *kind, const px_view *view) {
  int64_t shape[PX_RANK], stride[PX_RANK], run = 1;
  cuuint64_t dims[5], bytes[5];
  cuuint32_t box[5], steps[5];
  const int kept = view->rank - kind->merged, chunk = kind->expands ? 32 : 16;
  int axis;
  for (axis = view->rank - 1; axis >= kept; --axis) {
    if (kind->merged > 1 && view->shape[axis] > 1 && view->stride[axis] != run) return PX_BAD_STRIDE;
    run *= view->shape[axis];
  }
  for (axis = 0; axis < kept; ++axis) {
    shape[axis] = view->shape[axis];
    stride[axis] = view->stride[axis];
  }
  shape[kept] = run;
  stride[kept] = kind->merged > 1 ? 1 : view->stride[kept];
  if (view->data % chunk) return PX_BAD_ALIGNMENT;
  for (axis = 0; axis < kind->rank; ++axis) {
    const int from = kind->axes[kind->rank - 1 - axis];
    if (shape[from] <= 0) return PX_BAD_SIZE;
    dims[axis] = (cuuint64_t)shape[from];
    box[axis] = kind->box[from];
    steps[axis] = 1;
    if (axis == 0) {
      if (shape[from] > 1 && stride[from] != 1) return PX_BAD_STRIDE;
      if (kind->expands && shape[from] % 128) return PX_BAD_SIZE;
    } else {
      int64_t step = stride[from] * kind->nbytes / kind->share;
      const int legal = step % chunk == 0 && step < (int64_t)1 << 40;
      if (shape[from] == 1 && !(legal && step > 0)) step = chunk;
      else if (!legal || step < 0) return PX_BAD_STRIDE;
      bytes[axis - 1] = (cuuint64_t)step;
    }
  }
  return (int)cuTensorMapEncodeTiled(
      map, (CUtensorMapDataType)kind->data_type, (cuuint32_t)kind->rank, (void *)(uintptr_t)view->data, dims, bytes, box,
      steps, CU_TENSOR_MAP_INTERLEAVE_NONE, (CUtensorMapSwizzle)kind->swizzle, (CUtensorMapL2promotion)kind->l2_promotion,
      kind->fill_nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}
"""

LOAD_AND_LAUNCH = r"""static pthread_mutex_t px_lock = PTHREAD_MUTEX_INITIALIZER;
static CUlibrary px_libraries[PX_IMAGES][PX_PROGRAMS];
static CUkernel px_kernels[PX_IMAGES][PX_PROGRAMS];
static unsigned char px_prepared[PX_IMAGES][PX_PROGRAMS][PX_DEVICES];

static int px_find_image(CUdevice device, int *found) {
  int major, minor, n;
  CUresult status = cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  if (status == CUDA_SUCCESS) status = cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  if (status != CUDA_SUCCESS) return (int)status;
  for (n = 0; n < PX_IMAGES; ++n)
    if (px_images[n].major == major && (px_images[n].family ? px_images[n].minor <= minor : px_images[n].minor == minor)) {
      *found = n;
      return 0;
    }
  return PX_NO_CODE;
}

static CUresult px_prepare(int image, int program, CUdevice device) {
  const px_program *made = &px_programs[program];
  CUkernel *kernel = &px_kernels[image][program];
  CUresult status = CUDA_SUCCESS;
  if (!px_libraries[image][program]) {
    CUlibrary library;
    status = cuLibraryLoadData(&library, px_images[image].code[program], NULL, NULL, 0, NULL, NULL, 0);
    if (status != CUDA_SUCCESS) return status;
    status = cuLibraryGetKernel(kernel, library, made->entry);
    if (status != CUDA_SUCCESS) {
      cuLibraryUnload(library);
      return status;
    }
    px_libraries[image][program] = library;
  }
  if (made->shared_bytes > 48 * 1024)
    status = cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, made->shared_bytes, *kernel, device);
  if (status == CUDA_SUCCESS && made->cluster_x * made->cluster_y * made->cluster_z > 8)
    status = cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, *kernel, device);
  return status;
}

/* A kernel for the device of the current context, loaded once; any thread may ask. */
static int px_load(int program, CUkernel *kernel, CUdevice *device) {
  int image = 0, status = (int)cuCtxGetDevice(device);
  if (status == 0) status = px_find_image(*device, &image);
  if (status != 0) return status;
  pthread_mutex_lock(&px_lock);
  if (*device >= PX_DEVICES || !px_prepared[image][program][*device]) {
    status = (int)px_prepare(image, program, *device);
    if (status == 0 && *device < PX_DEVICES) px_prepared[image][program][*device] = 1;
  }
  *kernel = px_kernels[image][program];
  pthread_mutex_unlock(&px_lock);
  return status;
}

static int px_launch(int program, CUkernel kernel, CUstream stream, int64_t x, int64_t y, int64_t z, void **parameters) {
  const px_program *made = &px_programs[program];
  CUlaunchAttribute attributes[3];
  CUlaunchConfig config;
  memset(&config, 0, sizeof config);
  memset(attributes, 0, sizeof attributes);
  if (x == 0 || y == 0 || z == 0) return 0;
  if (x < 0 || y < 0 || z < 0 || x > INT32_MAX || y > 65535 || z > 65535) return PX_BAD_GRID;
  if (x % made->cluster_x || y % made->cluster_y || z % made->cluster_z) return PX_BAD_GRID;
  config.gridDimX = (unsigned)x;
  config.gridDimY = (unsigned)y;
  config.gridDimZ = (unsigned)z;
  config.blockDimX = (unsigned)made->threads;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = (unsigned)made->shared_bytes;
  config.hStream = stream;
  config.attrs = attributes;
  if (made->as_cluster) {
    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[config.numAttrs].value.clusterDim.x = (unsigned)made->cluster_x;
    attributes[config.numAttrs].value.clusterDim.y = (unsigned)made->cluster_y;
    attributes[config.numAttrs].value.clusterDim.z = (unsigned)made->cluster_z;
    ++config.numAttrs;
  }
  if (made->overlap) {
    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[config.numAttrs].value.programmaticStreamSerializationAllowed = 1;
    ++config.numAttrs;
  }
  if (made->cooperative) {
    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[config.numAttrs].value.cooperative = 1;
    ++config.numAttrs;
  }
  return (int)cuLaunchKernelEx(&config, (CUfunction)kernel, parameters, NULL);
}
"""

FITTING = r"""/* As many clusters as fit on the device at once: the kernel deals its tiles to any number of them. */
static int px_fitting(int program, CUkernel kernel, CUdevice device, int64_t *clusters) {
  static int known[PX_PROGRAMS][PX_DEVICES];
  const px_program *made = &px_programs[program];
  int count = 0, processors = 0, status = 0;
  pthread_mutex_lock(&px_lock);
  if (device < PX_DEVICES && known[program][device]) {
    count = known[program][device];
  } else if (made->cluster_x * made->cluster_y * made->cluster_z > 1) {
    CUlaunchAttribute attribute;
    CUlaunchConfig config;
    memset(&config, 0, sizeof config);
    memset(&attribute, 0, sizeof attribute);
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = config.gridDimX = (unsigned)made->cluster_x;
    attribute.value.clusterDim.y = config.gridDimY = (unsigned)made->cluster_y;
    attribute.value.clusterDim.z = config.gridDimZ = (unsigned)made->cluster_z;
    config.blockDimX = (unsigned)made->threads;
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = (unsigned)made->shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    status = (int)cuOccupancyMaxActiveClusters(&count, (CUfunction)kernel, &config);
  } else {
    status = (int)cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &count, (CUfunction)kernel, made->threads, (size_t)made->shared_bytes);
    if (status == 0) status = (int)cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    count *= processors;
  }
  if (status == 0 && device < PX_DEVICES) known[program][device] = count;
  pthread_mutex_unlock(&px_lock);
  *clusters = count > 0 ? count : 1;
  return status;
}
"""


def packed_array(rank: int) -> str:
    """The C type of an array parameter, as `ArraySlot.format` lays it out: padding is an element of the shape, so that a
    variable that begins as ``{0}`` has no byte that nobody wrote."""
    strides = f" int64_t stride[{rank}]; int32_t shape[{rank + rank % 2}];" if rank else ""
    return f"struct {{ CUdeviceptr data;{strides} }}"
