"""Host versions of the conversions by PTX of the floats of 4 and 6 bits and of f8e8m0: by tables and by search.

They share nothing with `phalanx.ir.types.rounded` or with the text that computes the same on targets without the
instructions: the numbers of all codes come from ml_dtypes, and a conversion looks for the nearest of them.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from support.host_cuda import FAMILIES

CODES = {
    "f4e2m1": (ml_dtypes.float4_e2m1fn, 16), "f6e2m3": (ml_dtypes.float6_e2m3fn, 64),
    "f6e3m2": (ml_dtypes.float6_e3m2fn, 64), "f8e8m0": (ml_dtypes.float8_e8m0fnu, 256),
}  # fmt: skip


def _table(name: str) -> str:
    """The numbers of all codes, once however many functions use them."""
    dtype, count = CODES[name]
    values = np.arange(count, dtype=np.uint8).view(dtype).astype(np.float64)
    numbers = ", ".join("NAN" if np.isnan(value) else float(value).hex() for value in values)
    return (
        f"#ifndef HOST_TABLE_{name}\n#define HOST_TABLE_{name}\n"
        f"static const double px_numbers_{name}[] = {{{numbers}}};\n"
        f"static inline px_{name} px_nearest_{name}(double x) {{\n{_search(name, count)}\n}}\n#endif\n"
    )


def _search(name: str, count: int) -> str:
    if name == "f8e8m0":  # the first that is not less, and the last where none is; the sign does not matter
        return (
            "  if (x != x) return 255;\n  if (x < 0) x = -x;\n"
            f"  for (int code = 0; code < 254; ++code) if (px_numbers_{name}[code] >= x) return (px_{name})code;\n"
            "  return 254;"
        )
    half = count // 2
    return (
        f"  if (x != x) return {half - 1};\n"
        f"  const double end = px_numbers_{name}[{half - 1}], size = fabs(x) < end ? fabs(x) : end;\n  int best = 0;\n"
        f"  for (int code = 1; code < {half}; ++code) {{\n"
        f"    const double a = fabs(px_numbers_{name}[best] - size), b = fabs(px_numbers_{name}[code] - size);\n"
        "    if (b < a || (b == a && code % 2 == 0)) best = code;\n  }\n"
        f"  return (px_{name})(best | (std::signbit(x) ? {half} : 0));"
    )


def _conversion(name: str) -> str | None:
    dtype, _, function = name.partition("_")
    if dtype not in CODES:
        return None
    if function == "to_float":
        return f"{_table(dtype)}static inline float {name}(px_{dtype} x) {{ return (float)px_numbers_{dtype}[x]; }}"
    if function == "from_float":
        return f"{_table(dtype)}static inline px_{dtype} {name}(float x) {{ return px_nearest_{dtype}(x); }}"
    if function == "pair_from_float":
        body = f"y[0] = px_nearest_{dtype}(low), y[1] = px_nearest_{dtype}(high);"
        return f"{_table(dtype)}static inline void {name}(px_{dtype}* y, float low, float high) {{ {body} }}"
    return None


FAMILIES.append(_conversion)
