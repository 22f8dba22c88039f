/* Functions that exported functions call. A line of dashes ends a part; what is written has the parts that it needs.
   They know the driver API alone. */

/* ---------------------------------------------------------------------------------------------------- */

/* Rounds down as Python does, where C rounds towards zero. */
static px_int px_floor_div(px_int a, px_int b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* ---------------------------------------------------------------------------------------------------- */

/* The remainder that goes with it. */
static px_int px_floor_mod(px_int a, px_int b) { return (a % b + b) % b; }

/* ---------------------------------------------------------------------------------------------------- */

/* Rounds up. */
static px_int px_ceil_div(px_int a, px_int b) { return a / b + (a % b != 0 && (a < 0) == (b < 0)); }

/* ---------------------------------------------------------------------------------------------------- */

/* An argument's strides: as they are given, or those of a contiguous array; or why it can't be one. */
static int px_argument(
    const px_kind *kind, CUdeviceptr data, const int64_t *shape, const int64_t *given, px_int *strides) {
  const int last = kind->rank - 1;
  px_int step = 1, count = 1;
  int axis;
  for (axis = last; axis >= 0; --axis) {
    if (shape[axis] < 0 || shape[axis] > INT32_MAX) return PX_BAD_SIZE;
    strides[axis] = given ? given[axis] : step;
    if (strides[axis] > INT64_MAX / 64 || strides[axis] < INT64_MIN / 64) return PX_BAD_STRIDE;
    if (kind->contiguous && shape[axis] > 1 && strides[axis] != step) return PX_BAD_STRIDE;
    step *= shape[axis] > 1 ? shape[axis] : 1;
    count *= shape[axis];
    if (step > PX_MOST_ELEMENTS) return PX_BAD_SIZE;
  }
  if (count == 0) return 0;
  if (!data) return PX_NULL_POINTER;
  if (last >= 0 && (kind->unit_inner || kind->share > 1)) {
    if (shape[last] > 1 && strides[last] != 1) return PX_BAD_STRIDE;
    if (shape[last] % kind->share) return PX_BAD_SIZE;
  }
  for (axis = 0; axis < last; ++axis) {
    const px_int bytes = strides[axis] / kind->share * kind->nbytes;
    if (shape[axis] <= 1) continue;
    if (strides[axis] % kind->share) return PX_BAD_STRIDE;
    if (kind->aligned && (bytes % 16 || bytes < 0 || bytes >= (px_int)1 << 40)) return PX_BAD_STRIDE;
  }
  if (kind->aligned && data % 16) return PX_BAD_ALIGNMENT;
  if (kind->whole && shape[last] / kind->share * kind->nbytes % 16) return PX_BAD_SIZE;
  return 0;
}

/* ---------------------------------------------------------------------------------------------------- */

/* An array as a launch gets it. */
static int px_set(px_view *view, int rank, px_int data, const px_int *shape, const px_int *strides) {
  int axis;
  if (data < 0 || data > (px_int)UINT64_MAX) return PX_BAD_STRIDE;
  view->data = (CUdeviceptr)data;
  view->rank = rank;
  for (axis = 0; axis < rank; ++axis) {
    if (shape[axis] < 0 || shape[axis] > INT32_MAX) return PX_BAD_SIZE;
    if (strides[axis] < INT64_MIN || strides[axis] > INT64_MAX) return PX_BAD_STRIDE;
    view->shape[axis] = (int64_t)shape[axis];
    view->stride[axis] = (int64_t)strides[axis];
  }
  return 0;
}

/* ---------------------------------------------------------------------------------------------------- */

/* Whether two arrays, before elements that share bytes become bytes, have no byte in common. */
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
    first[n] = (int64_t)views[n]->data + (int64_t)px_floor_div(low, kinds[n]->share) * kinds[n]->nbytes;
    last[n] = (int64_t)views[n]->data + ((int64_t)px_floor_div(high, kinds[n]->share) + 1) * kinds[n]->nbytes;
  }
  return last[0] <= first[1] || last[1] <= first[0];
}

/* ---------------------------------------------------------------------------------------------------- */

/* Elements that share a byte as bytes, which is what the kernel sees. */
static void px_in_bytes(px_view *view, int share) {
  int axis;
  view->shape[view->rank - 1] /= share;
  view->stride[view->rank - 1] = 1;
  for (axis = 0; axis + 1 < view->rank; ++axis) view->stride[axis] /= share;
}

/* ---------------------------------------------------------------------------------------------------- */

/* A TMA descriptor; the hardware counts axes from the innermost. */
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

/* ---------------------------------------------------------------------------------------------------- */

static pthread_mutex_t px_lock = PTHREAD_MUTEX_INITIALIZER;
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

/* ---------------------------------------------------------------------------------------------------- */

/* As many clusters as fit on the device at once: the kernel deals its tiles to any number of them. */
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
