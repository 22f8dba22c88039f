/* Types that exported functions compute with. */

/* Sizes, strides and addresses are computed with in 128 bits: nothing overflows. */
__extension__ typedef __int128 px_int;
#define PX_MOST_ELEMENTS ((px_int)1 << 48)
#define PX_RANK 8
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
