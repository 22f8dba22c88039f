"""`ldmatrix`, `stmatrix`, `mma.sync`, `wgmma` on the CPU, for `host_cuda`; which lane holds what is as PTX's manual says."""

from __future__ import annotations

import re

from support.host_cuda import FAMILIES, HOST_FUNCTIONS

COMMON = r"""
template <class T> static inline T px_read(const void* p) { T x; memcpy(&x, p, sizeof x); return x; }
struct px_fragments { const unsigned* a; const unsigned* b; };
static inline void px_publish(const void* what) {
  px_self->given = (unsigned long long)(size_t)what;
  px_block(PX_WARP, 32);
}
static inline const void* px_of(int lane) { return (const void*)(size_t)px_lane(lane)->given; }
static inline unsigned char* px_shared(unsigned address) { return px_place(address, 16); }  // a row of a matrix
static inline int px_lane_id() { return px_self->index % 32; }
"""

DECODE = {
    "bf16": "px_bfloat_value(px_read<unsigned short>(p))",
    "f16": "px_half_value(px_read<unsigned short>(p))",
    "tf32": "px_cast<float>(px_read<unsigned>(p) & 0xffffe000u)",
    "e4m3": "px_e4m3[*p]",
    "e5m2": "px_e5m2[*p]",
    "s8": "(int)*(const signed char*)p",
    "u8": "(int)*p",
}
BITS = {"e4m3": 8, "e5m2": 8, "e2m1": 4}
BYTES = {"bf16": 2, "f16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}


def once(name: str, text: str) -> str:
    return f"#ifndef HOST_{name}\n#define HOST_{name}\n{text}\n#endif\n"


def host_mma(a: str, b: str, d: str, k: int) -> tuple[str, str]:
    """Row g and column pair t of a block are lane 4 g + t's; K goes by four bytes to a register, 16 to four lanes."""
    item = BYTES[a]
    name = f"mma_m16n8k{k}_{d}_{a}_{b}"
    wide = "int" if d == "s32" else "float"
    ctype = {"s32": "int", "f32": "float", "f16": "px_f16"}[d]
    add = "s + d[i]"
    if d == "f16":
        add = "px_half_of(s + px_half_value(d[i]))"
    text = once("fragments", COMMON) + "".join(
        once(f"value_{t}", f"static inline {'int' if t in ('s8', 'u8') else 'float'} px_value_{t}"
                           f"(const unsigned char* p) {{ return {DECODE[t]}; }}")
        for t in {a, b}
    )
    text += f"""
static void {name}({ctype}* d, const unsigned* a, const unsigned* b) {{
  px_fragments mine = {{a, b}};
  px_publish(&mine);
  int lane = px_lane_id();
  {ctype} sums[4];
  for (int i = 0; i < 4; ++i) {{
    int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
    {wide} s = 0;
    for (int k = 0; k < {k}; ++k) {{
      int byte = k * {item};
      const px_fragments* left = (const px_fragments*)px_of(row % 8 * 4 + byte % 16 / 4);
      const px_fragments* right = (const px_fragments*)px_of(column * 4 + byte % 16 / 4);
      s += px_value_{a}((const unsigned char*)(left->a + row / 8 + 2 * (byte / 16)) + byte % 4)
         * px_value_{b}((const unsigned char*)(right->b + byte / 16) + byte % 4);
    }}
    sums[i] = {add};
  }}
  px_block(PX_WARP, 32);
  for (int i = 0; i < 4; ++i) d[i] = sums[i];
}}"""
    return name, text


def _scaled(name: str) -> str | None:
    """Block-scaled products. With thread-id 0 row r of A has its scales in lane 4 (r % 8) + r / 8, column c of B in 4 c,
    and with byte-id 0 from the lowest byte on; nothing else of the words is looked at."""
    match = re.fullmatch(r"mma_m16n8k(\d+)_(mxf8f6f4|mxf4|mxf4nvf4)_([124])x_(e\dm\d)_(e\dm\d)_(ue8m0|ue4m3)", name)
    if match is None:
        return None
    depth, count, a, b, scale = int(match[1]), int(match[3]), match[4], match[5], match[6]
    if depth * BITS[a] != 256 or (match[2] == "mxf8f6f4") != (BITS[a] == 8) or BITS[a] != BITS[b]:
        return None
    factor = {"ue8m0": "(x == 255 ? NAN : ldexp(1.0, (int)x - 127))", "ue4m3": "px_e4m3[x & 127]"}[scale]
    value = {
        "e2m1": "px_e2m1_value(p[k % 8 / 2] >> 4 * (k % 2) & 15)", "e4m3": "px_e4m3[p[k % 4]]", "e5m2": "px_e5m2[p[k % 4]]",
    }
    word = 32 // BITS[a]
    return once("fragments", COMMON) + once("e2m1", """
static inline float px_e2m1_value(int code) {
  static const float size[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return code & 8 ? -size[code & 7] : size[code & 7];
}""") + f"""
struct {name}_words {{ const unsigned* a; const unsigned* b; unsigned sa, sb; }};
static void {name}(float* d, const unsigned* a, const unsigned* b, unsigned sa, unsigned sb) {{
  {name}_words mine = {{a, b, sa, sb}};
  px_publish(&mine);
  auto of = [](int lane) {{ return (const {name}_words*)px_of(lane); }};
  auto factor = [](unsigned words, int byte) {{ unsigned x = words >> 8 * byte & 255; return (double){factor}; }};
  int lane = px_lane_id();
  float sums[4];
  for (int i = 0; i < 4; ++i) {{
    int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
    double s = 0;  // one scale alone may leave the range of float
    for (int k = 0; k < {depth}; ++k) {{
      int word = k / {word}, part = word / 4, block = k / {depth // count};
      const unsigned char* p = (const unsigned char*)(of(row % 8 * 4 + word % 4)->a + row / 8 + 2 * part);
      double left = {value[a]} * factor(of(4 * (row % 8) + row / 8)->sa, block);
      p = (const unsigned char*)(of(column * 4 + word % 4)->b + part);
      s += left * {value[b]} * factor(of(4 * column)->sb, block);
    }}
    sums[i] = (float)(s + d[i]);
  }}
  px_block(PX_WARP, 32);
  for (int i = 0; i < 4; ++i) d[i] = sums[i];
}}"""


def host_ldmatrix(count: int, transposed: bool) -> tuple[str, str]:
    name = f"ldmatrix_x{count}" + "_trans" * transposed
    if transposed:
        read = """    unsigned short half[2];
    for (int e = 0; e < 2; ++e)
      memcpy(half + e, px_shared(*(const unsigned*)px_of(8 * j + 2 * (lane % 4) + e)) + lane / 4 * 2, 2);
    got[j] = half[0] | (unsigned)half[1] << 16;"""
    else:
        read = "    memcpy(got + j, px_shared(*(const unsigned*)px_of(8 * j + lane / 4)) + lane % 4 * 4, 4);"
    return name, once("fragments", COMMON) + f"""
static void {name}(unsigned* words, unsigned address) {{
  px_publish(&address);
  int lane = px_lane_id();
  unsigned got[{count}];
  for (int j = 0; j < {count}; ++j) {{
{read}
  }}
  px_block(PX_WARP, 32);
  memcpy(words, got, sizeof got);
}}"""


def host_stmatrix(transposed: bool) -> tuple[str, str]:
    """Lane l holds elements 2 (l % 4) and the next of row l / 4 of each matrix; transposed, of column l / 4."""
    name = "stmatrix_x4" + "_trans" * transposed
    if transposed:
        body = """    for (int b = 0; b < 2; ++b)
      memcpy(px_shared(*(const unsigned*)px_of(8 * j + lane % 4 * 2 + b)) + lane / 4 * 2,
             (const char*)(r + j) + 2 * b, 2);"""
    else:
        body = "    memcpy(px_shared(*(const unsigned*)px_of(8 * j + lane / 4)) + lane % 4 * 4, r + j, 4);"
    return name, once("fragments", COMMON) + f"""
static void {name}(unsigned address, const unsigned* r) {{
  px_publish(&address);
  int lane = px_lane_id();
  for (int j = 0; j < 4; ++j)
{body}
  px_block(PX_WARP, 32);
}}"""


PRODUCTS = [
    *(("bf16", "bf16", "f32", k) for k in (8, 16)),
    *(("f16", "f16", d, k) for k in (8, 16) for d in ("f32", "f16")),
    *(("tf32", "tf32", "f32", k) for k in (4, 8)),
    *((a, b, d, k) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for d in ("f32", "f16") for k in (16, 32)),
    *((a, b, "s32", k) for a in ("s8", "u8") for b in ("s8", "u8") for k in (16, 32)),
]
HOST_FUNCTIONS.update(host_mma(*product) for product in PRODUCTS)
HOST_FUNCTIONS.update(host_ldmatrix(count, transposed) for count in (1, 2, 4) for transposed in (False, True))
HOST_FUNCTIONS.update(host_stmatrix(transposed) for transposed in (False, True))


def _wgmma(name: str) -> str | None:
    """Hopper's products and the groups around them."""
    match = re.fullmatch(r"wgmma_m64n(\d+)k\d+_(\w+?)_(\w+?)_(\w+?)(_registers)?(_negated)?(_ta)?(_tb)?(_x\d+)?"
                         r"(_listed_a)?(_listed_b)?(?:_fenced)?", name)
    if match is None:
        if re.fullmatch(r"wgmma_fence.*", name):
            return f"static void {name}() {{}}"
        if re.fullmatch(r"wgmma_commit.*", name):
            return f"static void {name}() {{ px_wgmma_commit(); }}"
        if wait := re.fullmatch(r"wgmma_wait_group_(\d+)", name):
            return f"static void {name}() {{ px_wgmma_wait({wait[1]}); }}"
        if keep := re.fullmatch(r"keep_(float|int|unsigned)", name):
            return f"template <int N> static void {name}({keep[1]}*) {{}}"
        if name == "take_registers":
            return (
                f"template <int N> static void {name}(unsigned* own, const unsigned* x, unsigned closed) {{\n"
                "  for (int i = 0; i < N; ++i)\n"
                "    if (!closed) own[i] = x[i];\n}"
            )
        if closed := re.fullmatch(r"closed_after_(float|int|unsigned)", name):
            return f"static unsigned {name}({closed[1]}, unsigned never) {{ return never; }}"
        if name == "hold_descriptors":
            return f"template <int N> static void {name}(unsigned long long*) {{}}"
        return None
    n, kind, a, b, registers, *flags, steps, listed_a, listed_b = match.groups()
    negate, ta, tb = (str(bool(flag)).lower() for flag in flags)
    ctype = {"s32": "int", "f16": "px_f16"}.get(kind, "float")
    left = "const unsigned* a" if registers else "unsigned long long a"
    if steps:  # as many instructions one after the other
        return _many_steps(name, ctype, int(steps[2:]), bool(registers), bool(listed_a), bool(listed_b))
    return (
        f"static void {name}({ctype}* d, {left}, unsigned long long b, bool accumulate) {{\n"
        f'  px_wgmma({{d, "{kind}", "{a}", "{b}", {n}, {"0" if registers else "a"}, b, accumulate, '
        f"{negate}, {ta}, {tb}, {{}}}}, {'a' if registers else '0'});\n}}"
    )


def _many_steps(name: str, ctype: str, steps: int, registers: bool, listed_a: bool, listed_b: bool) -> str:
    """Several instructions: descriptors from a list, or by their distances from the first, those of A before those of B."""
    one, behind = name[: name.index(f"_x{steps}")], 0
    places, kinds = [], []
    for operand, listed in (("a", listed_a), ("b", listed_b)):
        kinds.append("const unsigned long long*" if listed else "unsigned long long")
        if listed:
            places.append([f"{operand}[{step}]" for step in range(steps)])
        elif operand == "a" and registers:
            kinds[-1] = "const unsigned*"
            places.append([f"a + {4 * step}" for step in range(steps)])
        else:
            places.append([operand, *(f"{operand} + by[{behind + step}]" for step in range(steps - 1))])
            behind += steps - 1
    calls = " ".join(
        f"{one}(d, {a}, {b}, {'true' if step else 'accumulate'});" for step, (a, b) in enumerate(zip(*places))
    )
    return once(one, _wgmma(one) or "") + (
        (f"template <{', '.join(f'int n{i}' for i in range(behind))}>\n" if behind else "")
        + f"static void {name}({ctype}* d, {kinds[0]} a, {kinds[1]} b, bool accumulate) {{\n"
        + (f"  constexpr int by[] = {{{', '.join(f'n{i}' for i in range(behind))}}};\n" if behind else "")
        + f"  {calls}\n}}"
    )


FAMILIES += [_wgmma, _scaled]
HOST_FUNCTIONS |= {
    f"setmaxnreg_{action}": f"template <int registers> static void setmaxnreg_{action}() {{}}" for action in ("inc", "dec")
}
