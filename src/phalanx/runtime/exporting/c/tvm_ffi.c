/* What the functions for tvm-ffi call. */

static int px_raise(const char *kind, const char *text) {
  TVMFFIErrorSetRaisedFromCStr(kind, text);
  return -1;
}

/* The tensor that an argument is, of a type and a number of axes, on a GPU. */
static int px_tensor(const TVMFFIAny *value, int rank, int code, int bits, const DLTensor **out, const char *wrong) {
  const DLTensor *tensor = NULL;
  if (value->type_index == kTVMFFIDLTensorPtr) tensor = (const DLTensor *)value->v_ptr;
  if (value->type_index == kTVMFFITensor) tensor = (const DLTensor *)((const char *)value->v_obj + sizeof(TVMFFIObject));
  if (!tensor) return px_raise("TypeError", wrong);
  if (tensor->ndim != rank || tensor->dtype.code != code || tensor->dtype.bits != bits || tensor->dtype.lanes != 1)
    return px_raise("ValueError", wrong);
  if (tensor->device.device_type != kDLCUDA && tensor->device.device_type != kDLCUDAManaged)
    return px_raise("ValueError", wrong);
  *out = tensor;
  return 0;
}

static CUdeviceptr px_data(const DLTensor *tensor) { return (CUdeviceptr)(uintptr_t)tensor->data + tensor->byte_offset; }

/* The primary context of a tensor's device, current until `px_leave`. */
static int px_enter(const DLTensor *tensor) {
  CUcontext context;
  CUresult status = cuDevicePrimaryCtxRetain(&context, tensor->device.device_id);
  return (int)(status == CUDA_SUCCESS ? cuCtxPushCurrent(context) : status);
}

static void px_leave(void) {
  CUcontext context;
  cuCtxPopCurrent(&context);
}
