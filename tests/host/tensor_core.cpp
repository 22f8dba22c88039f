// The products of tcgen05.mma: descriptors and instruction words by their bits, operands by their layouts, numbers by theirs.
//
// Products of one instruction are summed exactly (in double) per block of scales, then added to what is in tensor memory.
#include "tensor_inside.h"

namespace px_machine {

// ---------------------------------------------------------------------- shared-memory descriptors

static unsigned field(unsigned long long word, int low, int bits) { return (unsigned)(word >> low & ((1ull << bits) - 1)); }

Matrix matrix_of(unsigned long long descriptor, const char* what, int line) {
  Matrix m = {};
  m.address = field(descriptor, 0, 14) << 4;
  m.leading = field(descriptor, 16, 14) << 4, m.stride = field(descriptor, 32, 14) << 4;
  m.swizzle = field(descriptor, 61, 3), m.shift = 3;
  if (field(descriptor, 14, 2) || field(descriptor, 30, 2) || field(descriptor, 53, 8))
    refuse(line, "%s: bits 14, 15, 30, 31 and 53 to 60 of a descriptor are 0, not as in 0x%llx", what, descriptor);
  if (field(descriptor, 46, 3) != 1)
    refuse(line, "%s: bits 46 to 48 of a descriptor are 001, not as in 0x%llx", what, descriptor);
  if (const unsigned base = field(descriptor, 49, 3))
    refuse(line, "%s: a descriptor with base offset %u: tiles begin where their pattern does", what, base);
  if (field(descriptor, 52, 1)) refuse(line, "%s: a descriptor with an absolute address in the place of a stride", what);
  switch (m.swizzle) {
    case 0: m.width = 16, m.mask = 0; break;
    case 1: m.width = 128, m.mask = 0x60, m.shift = 2; break;  // atoms of 32 bytes
    case 2: m.width = 128, m.mask = 0x70; break;
    case 4: m.width = 64, m.mask = 0x30; break;
    case 6: m.width = 32, m.mask = 0x10; break;
    default: refuse(line, "%s: a descriptor with swizzle %u", what, m.swizzle);
  }
  return m;
}
static unsigned swizzled(const Matrix& m, unsigned address) { return address ^ (address >> m.shift & m.mask); }
unsigned along_k(const Matrix& m, int row, int byte) {
  if (m.swizzle == 0) return m.address + byte / 16 * m.leading + row / 8 * m.stride + row % 8 * 16 + byte % 16;
  return swizzled(m, m.address + row / 8 * m.stride + row % 8 * m.width + byte);
}
// MN-major. Without a swizzle the two strides change places: 16 bytes along M or N are `stride` apart, 8 of K `leading`.
static unsigned across_k(const Matrix& m, int row, int k, int item) {
  const int panel = (int)m.width / item, rest = row % panel * item, deep = m.swizzle == 1 ? 4 : 8;
  const unsigned far = m.swizzle ? m.leading : m.stride, near = m.swizzle ? m.stride : m.leading;
  return swizzled(m, m.address + row / panel * far + k / deep * near + k % deep * m.width + rest);
}

// ---------------------------------------------------------------------- numbers

enum Type { F16, BF16, TF32, E4M3, E5M2, E2M3, E3M2, E2M1, U8, S8, PAIRS };  // PAIRS: e2m1, two to a byte
static int bits_of(Type t) {
  static const int bits[] = {16, 16, 32, 8, 8, 6, 6, 4, 8, 8, 4};
  return bits[t];
}

// A float with a sign, so many bits of exponent and fraction, and neither infinities nor NaNs.
static double small_float(unsigned code, int exponent_bits, int fraction_bits) {
  const int fraction = (int)(code & ((1u << fraction_bits) - 1)), bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (int)(code >> fraction_bits & ((1u << exponent_bits) - 1));
  const double value = exponent ? ldexp((double)(fraction + (1 << fraction_bits)), exponent - bias - fraction_bits)
                                : ldexp((double)fraction, 1 - bias - fraction_bits);
  return code >> (exponent_bits + fraction_bits) & 1 ? -value : value;
}
static double number(unsigned code, Type type) {
  switch (type) {
    case F16: return px_half_value((unsigned short)code);
    case BF16: return px_bfloat_value((unsigned short)code);
    case TF32: return px_cast<float>(code & 0xffffe000u);
    case E4M3: return px_e4m3[code & 255];
    case E5M2: return px_e5m2[code & 255];
    case E2M3: return small_float(code, 2, 3);
    case E3M2: return small_float(code, 3, 2);
    case E2M1: case PAIRS: return small_float(code, 2, 1);
    case U8: return (unsigned char)code;
    default: return (signed char)code;
  }
}
static double scale_value(unsigned code, bool ue8m0, int line) {
  if (ue8m0) return code == 255 ? NAN : ldexp(1.0, (int)code - 127);
  if (code & 0x80) refuse(line, "tcgen05.mma: a scale 0x%x, which is no unsigned e4m3", code);
  return px_e4m3[code];
}

// ---------------------------------------------------------------------- instruction words

struct Product {
  px_mma given;
  int line, issuer;  // the rank of the CTA
  int m, n, k, block, per_row;
  Type a, b;
  enum { HALF, SINGLE, WORD } d;
  bool saturate, negate_a, negate_b, across_a, across_b, ue8m0;
  unsigned id_a, id_b;
};

static Type type_of(const std::string& kind, unsigned code, const char* which, int line) {
  static const int eight[] = {E4M3, E5M2, -1, E2M3, E3M2, E2M1, -1, -1};
  int type = -1;
  if (kind == "f16") type = code == 0 ? F16 : code == 1 ? BF16 : -1;
  if (kind == "tf32") type = code == 2 ? TF32 : -1;
  if (kind == "f8f6f4" || kind == "mxf8f6f4") type = eight[code];
  if (kind == "i8") type = code == 0 ? U8 : code == 1 ? S8 : -1;
  if (kind == "mxf4" || kind == "mxf4nvf4") type = code == 1 ? PAIRS : -1;
  if (type < 0) refuse(line, "tcgen05.mma of kind %s with type %u of %s", kind.c_str(), code, which);
  return (Type)type;
}

static void plain_word(Product& p, const std::string& kind) {
  const unsigned w = p.given.word;
  if (field(w, 0, 3)) refuse(p.line, "tcgen05.mma with a sparse instruction word 0x%x", w);
  if (field(w, 6, 1) || field(w, 23, 1) || field(w, 29, 3))
    refuse(p.line, "tcgen05.mma: bits 6, 23 and 29 to 31 of the instruction word are 0, not as in 0x%x", w);
  p.a = type_of(kind, field(w, 7, 3), "A", p.line), p.b = type_of(kind, field(w, 10, 3), "B", p.line);
  p.saturate = field(w, 3, 1), p.m = (int)field(w, 24, 5) * 16;
  const unsigned d = field(w, 4, 2);
  if (kind == "i8" ? d != 2 : d > 1 || (d == 0 && kind == "tf32"))
    refuse(p.line, "tcgen05.mma of kind %s with type %u of D", kind.c_str(), d);
  if (d == 0 && kind == "f16" && (p.a == BF16 || p.b == BF16)) refuse(p.line, "tcgen05.mma of bf16 with D of f16");
  p.d = d == 0 ? Product::HALF : d == 1 ? Product::SINGLE : Product::WORD;
  if (p.saturate && kind != "i8") refuse(p.line, "tcgen05.mma of kind %s that saturates", kind.c_str());
  if (kind == "i8" && field(w, 13, 2)) refuse(p.line, "tcgen05.mma of kind i8 that negates");
  if (p.given.scaled) refuse(p.line, "tcgen05.mma of kind %s with scales", kind.c_str());
  p.k = kind == "f16" ? 16 : kind == "tf32" ? 8 : 32;
}
static void scaled_word(Product& p, const std::string& kind) {
  const unsigned w = p.given.word;
  const bool four = kind != "mxf8f6f4";
  if (!p.given.scaled) refuse(p.line, "tcgen05.mma of kind %s without scales", kind.c_str());
  if (field(w, 2, 1)) refuse(p.line, "tcgen05.mma with a sparse instruction word 0x%x", w);
  if (field(w, 0, 2) || field(w, 3, 1) || field(w, 6, 1) || field(w, 24, 3) || field(w, four ? 12 : 31, 1))
    refuse(p.line, "tcgen05.mma: bits 0, 1, 3, 6, 24 to 26, and 12 or 31, of the instruction word are 0, not as in 0x%x", w);
  if (four && field(w, 31, 1)) refuse(p.line, "tcgen05.mma with K 96");
  if (four && field(w, 15, 2)) refuse(p.line, "tcgen05.mma of kind %s with an MN-major operand", kind.c_str());
  p.a = type_of(kind, field(w, 7, 3), "A", p.line), p.b = type_of(kind, field(w, 10, four ? 2 : 3), "B", p.line);
  p.d = Product::SINGLE, p.m = (int)field(w, 27, 2) * 128, p.k = four ? 64 : 32;
  p.ue8m0 = field(w, 23, 1), p.id_a = field(w, 29, 2), p.id_b = field(w, 4, 2);
  p.block = p.given.block ? p.given.block : kind == "mxf4nvf4" ? 16 : 32;
  if (p.block != 32 && (p.block != 16 || kind != "mxf4nvf4"))
    refuse(p.line, "tcgen05.mma of kind %s with scales per %d", kind.c_str(), p.block);
  if (!p.ue8m0 && (kind != "mxf4nvf4" || p.block != 16))
    refuse(p.line, "tcgen05.mma of kind %s with scales per %d of ue4m3", kind.c_str(), p.block);
  p.per_row = p.k / p.block;
  for (unsigned id : {p.id_a, p.id_b})
    if (id % (unsigned)p.per_row)
      refuse(p.line, "tcgen05.mma with %d scales of a row from byte %u of their word on", p.per_row, id);
}
static void right_shape(const Product& p, const std::string& kind) {
  const int group = p.given.group, step = kind == "i8" ? (group == 2 ? 32 : p.n > 32 ? 16 : 8) : 8 * group;
  const bool m = group == 2 ? p.m == 128 || p.m == 256 : p.m == 128 || (p.m == 64 && !p.given.scaled);
  if (!m || p.n < step || p.n > 256 || p.n % step)
    refuse(p.line, "tcgen05.mma of kind %s with cta_group::%d and M %d, N %d", kind.c_str(), group, p.m, p.n);
  if (p.given.scaled && group == 2 && p.m == 128)
    refuse(p.line, "tcgen05.mma of kind %s with cta_group::2 and M 128: how its scales lie is not known here", kind.c_str());
  if (p.across_b && bits_of(p.b) <= 8 && p.n % (16 * group))
    refuse(p.line, "tcgen05.mma with N %d and N-major B of %d bits: N is a multiple of %d", p.n, bits_of(p.b), 16 * group);
}
static void right_major(const Product& p, unsigned long long descriptor, bool across, Type type, const char* which) {
  const Matrix m = matrix_of(descriptor, "tcgen05.mma", p.line);
  if (!across) {
    if (m.swizzle && m.address % m.width + 32 > m.width)
      refuse(p.line, "tcgen05.mma: 32 bytes of %s from byte %u of rows of %u", which, m.address % m.width, m.width);
    return;
  }
  if ((bits_of(type) == 32) != (m.swizzle == 1))
    refuse(p.line, "tcgen05.mma with an MN-major %s of %d bits and swizzle %u", which, bits_of(type), m.swizzle);
}

static Product product_of(const px_mma& given) {
  const std::string kind = given.kind;
  Product p = {};
  p.given = given, p.line = px_at, p.issuer = px_self->rank;
  const unsigned w = given.word;
  p.n = (int)field(w, 17, 6) * 8;
  p.negate_a = field(w, 13, 1), p.negate_b = field(w, 14, 1), p.across_a = field(w, 15, 1), p.across_b = field(w, 16, 1);
  if (kind.compare(0, 2, "mx") == 0) scaled_word(p, kind);
  else plain_word(p, kind);
  if (p.block == 0) p.block = p.k, p.per_row = 1;
  right_shape(p, kind);
  const unsigned lane = given.d >> 16, align = p.m == 64 ? 16 : 0;
  if (lane != 0 && lane != align) refuse(p.line, "tcgen05.mma with D at lane %u of tensor memory", lane);
  if (given.a_in_tensor_memory) {
    if (p.across_a) refuse(p.line, "tcgen05.mma with an M-major A in tensor memory");
    if (given.a >> 16 != lane)
      refuse(p.line, "tcgen05.mma with A at lane %llu and D at lane %u of tensor memory", given.a >> 16, lane);
  } else {
    right_major(p, given.a, p.across_a, p.a, "A");
  }
  right_major(p, given.b, p.across_b, p.b, "B");
  if (given.scaled && (given.scale_a >> 16 || given.scale_b >> 16))
    refuse(p.line, "tcgen05.mma with scales that do not begin at lane 0");
  if (given.shift && ((kind != "f16" && kind != "tf32") || given.shift < 0 || given.shift > 15))
    refuse(p.line, "tcgen05.mma of kind %s with scale-input-d %d", kind.c_str(), given.shift);
  if (given.masks && (given.scaled || given.masks != 4 * given.group))
    refuse(p.line, "tcgen05.mma with %d words of disabled lanes", given.masks);
  return p;
}

// ---------------------------------------------------------------------- operands

// Thirty-two bytes of a row as numbers. Elements of four and six bits lie sixteen to sixteen bytes, packed with padding
// behind them, in shared memory, and one to a byte (bits 5:2, 5:0) in tensor memory.
static void decode(const unsigned char* bytes, Type type, bool contained, int count, bool negate, double* to) {
  const int bits = bits_of(type);
  for (int k = 0; k < count; ++k) {
    unsigned code = 0;
    if (bits >= 8) memcpy(&code, bytes + k * bits / 8, (size_t)bits / 8);
    else if (type == PAIRS) code = bytes[k / 2] >> 4 * (k % 2) & 15;
    else if (contained) code = bits == 4 ? bytes[k] >> 2 & 15 : bytes[k] & 63;
    else {
      const int bit = k % 16 * bits;
      const unsigned char* const at = bytes + k / 16 * 16 + bit / 8;
      code = (at[0] | (unsigned)at[1] << 8) >> bit % 8 & ((1u << bits) - 1);
    }
    to[k] = number(code, type) * (negate ? -1 : 1);
  }
}
// An element of four or six bits of an MN-major operand: sixteen neighbours along M or N lie in sixteen bytes.
static unsigned narrow_across(const Product& p, int rank, const Matrix& m, int row, int k, int bits) {
  unsigned char bytes[17] = {};
  memcpy(bytes, shared_at(rank, across_k(m, row / 16 * 16, k, 1), 16, p.line, "tcgen05.mma"), 16);
  const int bit = row % 16 * bits;
  return (bytes[bit / 8] | (unsigned)bytes[bit / 8 + 1] << 8) >> bit % 8 & ((1u << bits) - 1);
}
static void from_shared(const Product& p, int rank, unsigned long long descriptor, bool across, Type type, bool negate,
                        int rows, double* to) {
  const Matrix m = matrix_of(descriptor, "tcgen05.mma", p.line);
  const int item = bits_of(type) / 8;
  for (int row = 0; row < rows; ++row) {
    for (int k = 0; across && item == 0 && k < p.k; ++k)
      to[row * p.k + k] = number(narrow_across(p, rank, m, row, k, bits_of(type)), type) * (negate ? -1 : 1);
    if (across && item == 0) continue;
    unsigned char bytes[33] = {};  // a spare one: an element may be read with the byte behind it
    for (int at = 0; !across && at < 32; at += 16)
      memcpy(bytes + at, shared_at(rank, along_k(m, row, at), 16, p.line, "tcgen05.mma"), 16);
    for (int k = 0; across && k < p.k; ++k)
      memcpy(bytes + k * item, shared_at(rank, across_k(m, row, k, item), (unsigned)item, p.line, "tcgen05.mma"),
             (size_t)item);
    decode(bytes, type, false, p.k, negate, to + row * p.k);
  }
}
static void from_tensor(const Product& p, int rank, int lane, double* to) {
  unsigned words[9] = {};
  for (int n = 0; n < 8; ++n) words[n] = cell_at(rank, lane, (int)(p.given.a & 0xffff) + n, "tcgen05.mma, A", p.line);
  decode((const unsigned char*)words, p.a, true, p.k, p.negate_a, to);
}
// Scales of one row: a word of four for row % 32 in each quarter of the lanes, row / 32 columns on, blocks of 128 rows by 4.
static void scales(const Product& p, int rank, unsigned address, unsigned id, int rows, const char* which, double* to) {
  for (int row = 0; row < rows; ++row) {
    const int column = (int)(address & 0xffff) + row / 32;
    for (int n = 0; n < p.per_row; ++n) {
      unsigned codes[4];
      for (int quarter = 0; quarter < 4; ++quarter)
        codes[quarter] = cell_at(rank, 32 * quarter + row % 32, column, which, p.line) >> 8 * (id + (unsigned)n) & 255;
      for (int quarter = 1; quarter < 4; ++quarter)
        if (codes[quarter] != codes[0])
          refuse(p.line, "%s of row %d are 0x%x in lane %d and 0x%x in lane %d of tensor memory", which, row, codes[0],
                 row % 32, codes[quarter], 32 * quarter + row % 32);
      to[row * p.per_row + n] = scale_value(codes[0], p.ue8m0, p.line);
    }
  }
}

// ---------------------------------------------------------------------- products

static unsigned added(const Product& p, unsigned old, double sum) {
  if (p.d == Product::WORD) {
    const long long whole = (p.given.accumulate ? (long long)(int)old : 0) + (long long)sum;
    if (!p.saturate) return (unsigned)whole;
    return (unsigned)(int)(whole > 2147483647 ? 2147483647 : whole < -2147483648LL ? -2147483648LL : whole);
  }
  const double before = p.d == Product::HALF ? px_half_value((unsigned short)old) : px_cast<float>(old);
  const double all = (p.given.accumulate ? ldexp(before, -p.given.shift) : 0.0) + sum;
  if (p.d == Product::HALF) return px_half_of((float)all) | (UNSET & 0xffff0000u);  // the upper half says nothing
  return px_cast<unsigned>((float)all);
}
static void multiply_in(const Product& p, int member, const std::vector<double>& right) {
  const int group = p.given.group, rank = group == 2 ? (p.issuer & ~1) | member : p.issuer, rows = p.m / group;
  const bool folded = group == 2 && p.m == 128;  // the right half of the columns goes to the upper lanes
  const int lanes = folded ? 128 : rows, base = (int)(p.given.d >> 16), half = folded ? p.n / 2 : p.n;
  std::vector<double> left((size_t)rows * p.k), own((size_t)p.k);
  std::vector<double> by_a((size_t)rows * p.per_row, 1.0), by_b((size_t)p.n * p.per_row, 1.0);
  if (!p.given.a_in_tensor_memory) from_shared(p, rank, p.given.a, p.across_a, p.a, p.negate_a, rows, left.data());
  if (p.given.scaled) {
    scales(p, rank, p.given.scale_a, p.id_a, rows, "tcgen05.mma, scales of A", by_a.data());
    scales(p, rank, p.given.scale_b, p.id_b, p.n, "tcgen05.mma, scales of B", by_b.data());
  }
  for (int at = 0; at < lanes; ++at) {
    const int row = at % rows, lane = p.m == 64 ? base + 32 * (row / 16) + row % 16 : at;
    if (p.given.a_in_tensor_memory) from_tensor(p, rank, lane, own.data());
    const double* const a = p.given.a_in_tensor_memory ? own.data() : &left[(size_t)row * p.k];
    if (p.given.masks && p.given.mask[member * 4 + lane / 32] >> lane % 32 & 1) continue;
    overwrites(rank, lane, 1, (int)(p.given.d & 0xffff), half, "tcgen05.mma", p.line);
    for (int c = 0; c < half; ++c) {
      const int n = c + at / rows * half;
      const double* const b = &right[(size_t)n * p.k];
      double sum = 0;
      for (int block = 0; block < p.per_row; ++block) {
        double part = 0;
        for (int k = block * p.block; k < (block + 1) * p.block; ++k) part += a[k] * b[k];
        sum += part * by_a[(size_t)row * p.per_row + block] * by_b[(size_t)n * p.per_row + block];
      }
      unsigned& cell = cell_at(rank, lane, (int)(p.given.d & 0xffff) + c, "tcgen05.mma", p.line);
      cell = added(p, cell, sum);
    }
  }
}
static void multiply(const Product& p) {
  const int group = p.given.group, part = p.n / group;
  std::vector<double> right((size_t)p.n * p.k);
  if (group == 2) is_alive(p.issuer ^ 1, "tcgen05.mma", p.line);
  for (int member = 0; member < group; ++member)
    from_shared(p, group == 2 ? (p.issuer & ~1) | member : p.issuer, p.given.b, p.across_b, p.b, p.negate_b, part,
                &right[(size_t)member * part * p.k]);
  for (int member = 0; member < group; ++member) multiply_in(p, member, right);
}

}  // namespace px_machine

void px_tensor_mma(const px_mma& given) {
  px_note("tcgen05.mma");
  one_group(given.group, "tcgen05.mma", px_at);
  leader_issues(given.group, "tcgen05.mma", px_at);
  const Product p = product_of(given);
  work_later([p] { multiply(p); }, p.line);
}
