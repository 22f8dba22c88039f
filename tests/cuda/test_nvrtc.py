"""Compiling CUDA text without a GPU: images, resources, and failures that carry their log."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy.random
import pytest

from phalanx.cuda import nvrtc
from phalanx.cuda.nvrtc import (
    BASE_OPTIONS,
    CompileFailure,
    Resources,
    compile_cuda,
    nvrtc_identity,
    nvrtc_version,
    parse_resources,
    performance_losses,
    wheel_in,
)

PLAIN = """
extern "C" __global__ __launch_bounds__(128) void reverse(float* out, const float* in) {
    __shared__ float tile[128];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[127 - threadIdx.x];
}
"""

SETMAXNREG_WITHOUT_BOUNDS = """
extern "C" __global__ void grow(float* out) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    out[threadIdx.x] = 1.0f;
}
"""


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_cubin_ptx_and_resources(arch: str) -> None:
    image = compile_cuda(PLAIN, arch)
    assert image.cubin[:4] == b"\x7fELF"
    assert f".target {arch}" in image.ptx
    (resources,) = image.resources
    assert image.resources_of("reverse") is resources
    assert resources.function == "reverse"
    assert 4 <= resources.registers <= 32
    assert resources.shared_bytes == 512
    assert resources.barriers == 1
    assert (resources.spill_store_bytes, resources.spill_load_bytes, resources.stack_bytes) == (0, 0, 0)


def test_unknown_kernel_name_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="forward"):
        compile_cuda(PLAIN, "sm_90a").resources_of("forward")


def test_spills_are_reported() -> None:
    body = """
    extern "C" __global__ __launch_bounds__(1024, 2) void spill(float* a, int n) {
        float x[64];
        #pragma unroll
        for (int i = 0; i < 64; i++) x[i] = a[i * n];
        for (int j = 0; j < n; j++) {
            #pragma unroll
            for (int i = 0; i < 64; i++) x[i] = x[i] * x[(i + 7) % 64] + a[i];
        }
        #pragma unroll
        for (int i = 0; i < 64; i++) a[i * n] = x[i];
    }
    """
    resources = compile_cuda(body, "sm_90a").resources_of("spill")
    assert resources.registers == 32
    assert resources.spill_store_bytes > 0
    assert resources.spill_load_bytes > 0
    assert resources.stack_bytes > 0


def test_syntax_error_names_file_and_line() -> None:
    with pytest.raises(CompileFailure) as failure:
        compile_cuda('extern "C" __global__ void k(int* p) {\n  *p = missing;\n}', "sm_90a", name="mine.cu")
    assert 'mine.cu(2): error: identifier "missing" is undefined' in failure.value.log
    assert failure.value.warnings == ()


def test_ptxas_error_shows_the_ptx_line() -> None:
    with pytest.raises(CompileFailure) as failure:
        compile_cuda('extern "C" __global__ void k() { asm volatile("no.such.thing;"); }', "sm_90a")
    assert "Not a name of any known instruction: 'no'" in failure.value.log
    assert ": no.such.thing;" in failure.value.log


def test_instruction_the_arch_lacks_is_a_failure() -> None:
    text = 'extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }'
    compile_cuda(text, "sm_90a")
    with pytest.raises(CompileFailure, match="wgmma"):
        compile_cuda(text, "sm_100a")


def test_unknown_arch_and_option_are_failures() -> None:
    with pytest.raises(CompileFailure, match="gpu-architecture"):
        compile_cuda(PLAIN, "sm_1a")
    with pytest.raises(CompileFailure, match="no-such-option"):
        compile_cuda(PLAIN, "sm_90a", options=("--no-such-option",))


def test_lost_performance_is_a_failure() -> None:
    with pytest.raises(CompileFailure) as failure:
        compile_cuda(SETMAXNREG_WITHOUT_BOUNDS, "sm_90a")
    (warning,) = failure.value.warnings
    assert warning.startswith("C7508 Potential Performance Loss: 'setmaxnreg' ignored")
    assert "ptxas" in failure.value.log


def test_with_full_launch_bounds_setmaxnreg_passes() -> None:
    # the thread count alone does not fix the registers at entry, threads and one block per SM do
    text = SETMAXNREG_WITHOUT_BOUNDS.replace("void grow", "__launch_bounds__(384, 1) void grow")
    assert compile_cuda(text, "sm_90a").resources_of("grow").registers == 168


def test_printf_traps_and_math_survive_minimal() -> None:
    assert "--minimal" in BASE_OPTIONS
    text = """
    extern "C" __global__ void k(float* a) {
        printf("%f", a[0]);
        a[1] = erff(a[0]) + rsqrtf(a[2]) + __expf(a[3]) + tanhf(a[4]);
        atomicAdd(a + 5, 1.0f);
        float4 v = *reinterpret_cast<float4*>(a);
        if (v.x > 1) __trap();
    }
    """
    assert compile_cuda(text, "sm_90a").cubin


def test_threads_compile_at_the_same_time() -> None:
    texts = [PLAIN.replace("127 -", f"{n} -") for n in range(100, 104)]
    with ThreadPoolExecutor(4) as pool:
        images = list(pool.map(lambda text: compile_cuda(text, "sm_90a"), texts))
    assert [image.ptx for image in images] == [compile_cuda(text, "sm_90a").ptx for text in texts]
    assert len({image.ptx for image in images}) == 4


def test_parse_two_kernels_and_a_called_function() -> None:
    log = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'b' for 'sm_90a'
ptxas info    : Function properties for b
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 10 registers, used 16 barriers, 8 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Function properties for helper
ptxas         .     16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers
"""
    assert parse_resources(log) == (Resources("b", 10, 4, 12, 8, 1024, 16), Resources("a", 24, 0, 0, 0, 0, 0))


def test_performance_losses_are_unique_and_selected() -> None:
    log = "\n".join(
        [
            "ptxas info    : (C7514) Potential Performance Loss: wgmma serialized",
            "ptxas info    : (C7514) Potential Performance Loss: wgmma serialized",
            "ptxas info    : (C7999) something harmless",
        ]
    )
    assert performance_losses(log) == ("C7514 Potential Performance Loss: wgmma serialized",)


def test_version_and_lazy_import() -> None:
    major, minor = nvrtc_version().split(".")
    assert int(major) >= 13 and minor.isdigit()
    script = "import sys, phalanx.cuda.nvrtc; assert not any(m.startswith('cuda.') for m in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def install(folder: Path, version: str = "13.4.92", *, home: str = "cu13", size: int = 100, name: str = "") -> tuple[str]:
    """What a wheel of NVRTC leaves in a folder of packages."""
    library = folder / "nvidia" / home / "lib" / f"libnvrtc.so.{version.partition('.')[0]}"
    library.parent.mkdir(parents=True)
    library.write_bytes(bytes(size))
    library.with_name(f"libnvrtc-builtins.so.{version}").touch()
    (folder / f"{name or 'nvidia_cuda_nvrtc'}-{version}.dist-info").mkdir()
    return (str(folder),)


def test_a_wheel_says_which_nvrtc_it_has(tmp_path: Path) -> None:
    first = install(tmp_path / "first")
    assert wheel_in(first) == wheel_in(install(tmp_path / "same")) == "13.4.92, 100 bytes"
    assert wheel_in(install(tmp_path / "older", "13.4.33")) == "13.4.33, 100 bytes"
    assert wheel_in(install(tmp_path / "other", size=101)) == "13.4.92, 101 bytes"
    cuda12 = install(tmp_path / "cuda12", "12.9.86", home="cuda_nvrtc", name="nvidia_cuda_nvrtc_cu12")
    assert wheel_in(cuda12) == "12.9.86, 100 bytes"


def test_none_or_several_wheels_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    first, second = install(tmp_path / "first"), install(tmp_path / "second")
    assert wheel_in(()) is wheel_in((str(tmp_path / "empty"), str(tmp_path / "missing"))) is None
    assert wheel_in((*first, *second)) is None
    assert wheel_in(install(tmp_path / "odd", name="nvidia_cuda_nvrtc_nightly")) is None


def test_the_library_is_asked_where_no_wheel_says_which_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or where the one that is loaded already is not the wheel's: another patch of the same version is another compiler."""
    version = nvrtc_version()
    monkeypatch.setattr(nvrtc, "package_folders", lambda: (str(tmp_path),))
    assert nvrtc_identity() == version
    monkeypatch.setattr(nvrtc, "package_folders", lambda: install(tmp_path / "other", "99.1.2"))
    assert nvrtc_identity() == version
    monkeypatch.setattr(nvrtc, "package_folders", lambda: install(tmp_path / "patched", f"{version}.2"))
    assert nvrtc_identity() == version


BEFORE_AND_AFTER = """
import ctypes, shutil, sys
from pathlib import Path
from phalanx.cuda import nvrtc
folder, loaded, replaced = sys.argv[1:]
nvrtc.package_folders = lambda: (folder,)
nvrtc.nvrtc_version = lambda: "as it says"
print(nvrtc.nvrtc_identity())
ctypes.CDLL(loaded)
if replaced:
    shutil.copy(replaced, f"{replaced}.new")
    Path(f"{replaced}.new").replace(replaced)
print(nvrtc.nvrtc_identity())
"""


@pytest.mark.parametrize("case", ["the wheel's", "another's", "the wheel's, replaced since"])
def test_which_library_is_loaded_decides(case: str, tmp_path: Path) -> None:
    """Before one is loaded, by us or by a framework, the wheel is believed; after that only if it is the wheel's file."""
    (folder,) = install(tmp_path / "packages", "13.4.92")
    library = next(Path(folder).glob("nvidia/*/lib/libnvrtc.so.*"))
    other = tmp_path / library.name
    for path in (library, other):
        shutil.copy(numpy.random._common.__file__, path)  # any library that can be loaded: only its name counts
    wheel = f"13.4.92, {library.stat().st_size} bytes"
    loaded = str(other if case == "another's" else library)
    command = [sys.executable, "-c", BEFORE_AND_AFTER, folder, loaded, str(library) if "replaced" in case else ""]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [wheel, wheel if case == "the wheel's" else "as it says"]
