"""The folders of the kernels hub around an exported function: a variant for tvm-ffi, with its metadata.

`build/tvm-ffiXY-cuZW-MACHINE-linux/` holds a package that loads the shared library, and `metadata.json`, which the package
`kernels` reads; for older versions of that package there is a folder of the function's name in it. `build.toml` describes it
as `kernel-builder` does.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform

from phalanx.cuda.nvrtc import nvrtc_version
from phalanx.ir.archs import arch_of
from phalanx.runtime.exporting.c_function import CFunction
from phalanx.runtime.exporting.folder import ExportFolder

LICENSE = "other"
"""Whose kernel it is, and under which terms, its owner says: the field has to be there."""
SINCE = "0.17.0"
"""The first version of the package `kernels` whose folders these are."""


def write_hub(folder: ExportFolder, made: CFunction) -> list[str]:
    """Writes hub/ into the folder of an export, and gives the names of the files."""
    name = made.name
    version = importlib.metadata.version("apache-tvm-ffi").split(".")
    variant = f"tvm-ffi{version[0]}{version[1]}-cu{_cuda()}-{platform.machine()}-linux"
    build = f"hub/build/{variant}"
    library = (folder.path / f"{name}.so").read_bytes()
    kernel = hashlib.sha256(library).hexdigest()[:12]
    functions = [name, *[f"{name}_workspace"] * (made.has_workspace)]
    loaded = "\n".join(f"{each} = _module.{each}" for each in functions)
    files: dict[str, str | bytes] = {
        f"{build}/{name}.so": library,
        f"{build}/__init__.py": f'''"""{made.described}."""


import tvm_ffi

_module = tvm_ffi.load_module(str(Path(__file__).parent / "{name}.so"))
{loaded}

__all__ = {json.dumps(functions)}
''',
        f"{build}/{name}/__init__.py": f'''"""For older versions of the package `kernels`, which look for it here."""

import importlib.util
import sys

_file = Path(__file__).parent.parent / "__init__.py"
_spec = importlib.util.spec_from_file_location(f"{{__name__}}_variant", _file)
_module = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _module
_spec.loader.exec_module(_module)
{chr(10).join(f"{each} = _module.{each}" for each in functions)}

__all__ = {json.dumps(functions)}
''',
        f"{build}/metadata.json": json.dumps(_metadata(made, kernel), indent=2) + "\n",
        "hub/build.toml": _build_toml(made),
    }
    return [folder.write(file, content) for file, content in files.items()]


def _cuda() -> str:
    """The version of CUDA whose driver is asked for: drivers load what any compiler of their major version made."""
    return f"{nvrtc_version().partition('.')[0]}0"


def _archs(made: CFunction) -> list[str]:
    """Compute capabilities as the hub writes them: sm_90a is 9.0a."""
    found = []
    for arch in made.archs:
        major, minor = arch_of(arch).capability
        found.append(f"{major}.{minor}{arch.removeprefix(f'sm_{major}{minor}')}")
    return found


def _metadata(made: CFunction, kernel: str) -> dict[str, object]:
    return {
        "id": f"_{made.name}_cuda_{kernel}",
        "name": made.name.replace("_", "-"),
        "version": 1,
        "license": LICENSE,
        "kernels-minver": SINCE,
        "python-depends": ["tvm-ffi"],
        "backend": {"type": "cuda", "archs": _archs(made)},
    }


def _build_toml(made: CFunction) -> str:
    archs = ", ".join(f'"{arch}"' for arch in _archs(made))
    return f"""# {made.described}. The variants in build/ are ready to be loaded; this describes them.
[general]
name = "{made.name.replace("_", "-")}"
version = 1
license = "{LICENSE}"
backends = ["cuda"]

[general.cuda]
python-depends = ["tvm-ffi"]

[tvm-ffi]
src = []

[kernel.{made.name}]
backend = "cuda"
cuda-capabilities = [{archs}]
depends = []
src = []
"""
