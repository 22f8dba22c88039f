/* What the handler for jax.ffi calls. A line of dashes ends a part; what is written has the parts that it needs. */

/* ---------------------------------------------------------------------------------------------------- */

static XLA_FFI_Error *px_error(const XLA_FFI_Api *api, XLA_FFI_Error_Code code, const char *text) {
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, text, code};
  return api->XLA_FFI_Error_Create(&args);
}

/* XLA asks a handler which version of its interface it was built for. */
static XLA_FFI_Error *px_metadata(XLA_FFI_Metadata_Extension *extension) {
  extension->metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  extension->metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  extension->metadata->traits = PX_TRAITS;
  return NULL;
}

static int px_is(const XLA_FFI_Buffer *buffer, int rank, int dtype) {
  return buffer->rank == rank && (int)buffer->dtype == dtype;
}

static XLA_FFI_Error *px_failed(const XLA_FFI_Api *api, int status, const char *text) {
  return px_error(api, status < 0 ? XLA_FFI_Error_Code_INVALID_ARGUMENT : XLA_FFI_Error_Code_INTERNAL, text);
}

static CUdeviceptr px_data(const XLA_FFI_Buffer *buffer) { return (CUdeviceptr)(uintptr_t)buffer->data; }

#define PX_WRONG(text) return px_error(api, XLA_FFI_Error_Code_INVALID_ARGUMENT, text)
#define PX_TRY(call)               \
  do {                             \
    XLA_FFI_Error *error = (call); \
    if (error) return error;       \
  } while (0)

/* ---------------------------------------------------------------------------------------------------- */

/* A number that is passed as an attribute of the call. */
static int px_attribute(const XLA_FFI_Attrs *attrs, const char *name, int64_t *whole, double *real) {
  int64_t n;
  for (n = 0; n < attrs->size; ++n) {
    const XLA_FFI_ByteSpan *called = attrs->names[n];
    if (attrs->types[n] != XLA_FFI_AttrType_SCALAR || called->len != strlen(name) || strncmp(called->ptr, name, called->len))
      continue;
    const XLA_FFI_Scalar *scalar = (const XLA_FFI_Scalar *)attrs->attrs[n];
    switch (scalar->dtype) {
      case XLA_FFI_DataType_F32: *real = *(const float *)scalar->value; *whole = (int64_t)*real; return 1;
      case XLA_FFI_DataType_F64: *real = *(const double *)scalar->value; *whole = (int64_t)*real; return 1;
      case XLA_FFI_DataType_S32: *whole = *(const int32_t *)scalar->value; break;
      case XLA_FFI_DataType_S64: *whole = *(const int64_t *)scalar->value; break;
      case XLA_FFI_DataType_U32: *whole = *(const uint32_t *)scalar->value; break;
      case XLA_FFI_DataType_PRED: *whole = *(const unsigned char *)scalar->value; break;
      default: return 0;
    }
    *real = (double)*whole;
    return 1;
  }
  return 0;
}
