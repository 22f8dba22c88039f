"""Exported functions in C programs on a GPU: one for each, compiled with gcc, that reads arrays and writes results."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

COMPILER = shutil.which("gcc") or shutil.which("cc")

MAIN = r"""
#include "{name}.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void must(int status, const char *what) {{
  if (status != 0) {{ printf("%s: %d %s\n", what, status, {name}_message(status)); exit(1); }}
}}

static CUdeviceptr filled(const char *path, size_t bytes) {{
  CUdeviceptr made = 0;
  char *text = calloc(bytes ? bytes : 1, 1);
  FILE *file = path ? fopen(path, "rb") : NULL;
  if (file) {{
    if (fread(text, 1, bytes, file) != bytes) exit(2);
    fclose(file);
  }}
  must(cuMemAlloc(&made, bytes ? bytes : 1), "cuMemAlloc");
  must(cuMemcpyHtoD(made, text, bytes), "cuMemcpyHtoD");
  free(text);
  return made;
}}

static void save(const char *path, CUdeviceptr from, size_t bytes) {{
  char *text = malloc(bytes ? bytes : 1);
  FILE *file = fopen(path, "wb");
  must(cuMemcpyDtoH(text, from, bytes), "cuMemcpyDtoH");
  fwrite(text, 1, bytes, file);
  fclose(file);
  free(text);
}}

int main(void) {{
  CUdevice device;
  CUcontext context;
  CUstream stream;
  must(cuInit(0), "cuInit");
  must(cuDeviceGet(&device, 0), "cuDeviceGet");
  must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
{cases}
  return 0;
}}
"""


def headers() -> Path | None:
    """Where cuda.h is: in a CUDA toolkit, or in a package that brings it along."""
    found = importlib.util.find_spec("triton")
    folders = [Path("/usr/local/cuda/include"), Path("/usr/include")]
    if found is not None and found.origin is not None:
        folders.append(Path(found.origin).parent / "backends" / "nvidia" / "include")
    return next((folder for folder in folders if (folder / "cuda.h").exists()), None)


def run_program(folder: Path, made: Any, cases: list[dict[str, Any]]) -> str:
    """Compiles the exported function with a program that makes the calls, and runs it.

    A case has `sizes`, `arrays` (torch tensors, with their strides), the `numbers` behind them, and `outs`: the path and the
    bytes of each result.
    """
    import torch

    texts = []
    for number, case in enumerate(cases):
        lines, passed = [], ["stream", *map(str, case["sizes"])]
        for n, x in enumerate(case["arrays"]):
            path = folder / f"in_{number}_{n}.bin"
            flat = x.as_strided((sum((s - 1) * d for s, d in zip(x.shape, x.stride())) + 1,), (1,))
            path.write_bytes(flat.cpu().view(torch.uint8).numpy().tobytes())
            lines.append(f'CUdeviceptr a{n} = filled("{path}", {path.stat().st_size});')
            lines.append(f"const int64_t s{n}[] = {{{', '.join(map(str, x.stride()))}}};")
            passed += [f"a{n}", f"s{n}"]
        passed += map(repr, case.get("numbers", []))
        for n, (_, nbytes) in enumerate(case["outs"]):
            lines.append(f"CUdeviceptr o{n} = filled(NULL, {nbytes});")
            passed.append(f"o{n}")
        if made.has_workspace:
            query = f"{made.name}({', '.join([*passed, '0', '&bytes'])})"
            lines += ["int64_t bytes = 0;", f'must({query}, "workspace");', "CUdeviceptr w = filled(NULL, bytes);"]
            passed += ["w", "&bytes"]
        call = f'must({made.name}({", ".join(passed)}), "{made.name}");'
        lines += [call, 'must(cuStreamSynchronize(stream), "cuStreamSynchronize");', call]  # twice: counters are 0 again
        lines.append('must(cuStreamSynchronize(stream), "cuStreamSynchronize");')
        lines += [f'save("{path}", o{n}, {nbytes});' for n, (path, nbytes) in enumerate(case["outs"])]
        texts.append("  {\n" + "\n".join("    " + line for line in lines) + "\n  }")
    (folder / "main.c").write_text(MAIN.format(name=made.name, cases="\n".join(texts)))
    program = folder / "program"
    files = [str(folder / f) for f in ("main.c", f"{made.name}.c", f"{made.name}_code.c")]
    built = subprocess.run(
        [str(COMPILER), "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Werror", "-O2", f"-I{headers()}", f"-I{folder}", *files,
         "-l:libcuda.so.1", "-lpthread", "-o", str(program)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
