"""Launches an exported kernel or function from Python: it reads the manifest beside it, and needs cuda-bindings alone.

    from scale import load                      # this file, as px.export named it
    scale = load()                              # the device of the current context
    scale(x, 2.0, sizes={"m": 1024}, stream=stream)

Arrays are addresses (int), or anything with `data_ptr()` or `__cuda_array_interface__`; `strides` gives those that are not
contiguous, in elements. Arguments outside of what was exported raise a ValueError.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import json
import math
import operator
from pathlib import Path
from typing import Any

from cuda.bindings import driver

_SCALARS = {
    "bool": ctypes.c_ubyte, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
    "u8": ctypes.c_uint8, "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64,
    "f32": ctypes.c_float, "f64": ctypes.c_double,
}  # fmt: skip
_SIGNS: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Eq: operator.eq, ast.Lt: operator.lt, ast.LtE: operator.le,
}  # fmt: skip


def load(manifest: str | Path | None = None) -> Exported:
    """The exported kernel or function; a manifest is looked for beside this file, under its name."""
    path = Path(manifest) if manifest is not None else Path(__file__).with_suffix(".json")
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Exported(content, path.parent)


def _asked(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"CUDA: {status.name}")
    return values[0] if len(values) == 1 else values


class Program:
    """One kernel on one device, that of the context which is current when it is made."""

    def __init__(self, made: dict[str, Any], folder: Path, name: str) -> None:
        self.made, self.name = made, name
        device = _asked(driver.cuCtxGetDevice())
        names = driver.CUdevice_attribute
        major, minor, self._processors = (
            _asked(driver.cuDeviceGetAttribute(attribute, device))
            for attribute in (
                names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                names.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            )
        )
        image = (folder / Path(self._target(major, minor)["cubin"]).name).read_bytes()
        self._module = _asked(driver.cuModuleLoadData(image))
        self._function = _asked(driver.cuModuleGetFunction(self._module, made["entry"].encode()))
        attributes = driver.CUfunction_attribute
        if made["shared_bytes"] > 48 * 1024:
            wanted = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _asked(driver.cuFuncSetAttribute(self._function, wanted, made["shared_bytes"]))
        if math.prod(made["cluster"]) > 8:
            wanted = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            _asked(driver.cuFuncSetAttribute(self._function, wanted, 1))

    def _target(self, major: int, minor: int) -> dict[str, Any]:
        for name, target in self.made["targets"].items():
            number = int("".join(letter for letter in name if letter.isdigit()))
            exact = number == 10 * major + minor
            if exact or (name.endswith("f") and number // 10 == major and number % 10 <= minor):
                found: dict[str, Any] = target
                return found
        raise ValueError(f"{self.name} was exported for {', '.join(self.made['targets'])}, not for sm_{major}{minor}")

    def grid(self, texts: list[str] | None, values: dict[str, Any]) -> tuple[int, int, int]:
        """The grid of a launch: arithmetic that px.export wrote, or as many clusters as fit."""
        cluster = tuple(self.made["cluster"])
        if texts is None:
            return self._fitting() * cluster[0], cluster[1], cluster[2]
        x, y, z = (_value(text, values) for text in texts)
        if min(x, y, z) < 0 or any(n % part for n, part in zip((x, y, z), cluster, strict=True)):
            raise ValueError(f"{self.name} has a grid of {(x, y, z)}, which is no whole number of clusters {cluster}")
        return x, y, z

    def _fitting(self) -> int:
        made = self.made
        if math.prod(made["cluster"]) > 1:
            config = self._config(tuple(made["cluster"]), 0)
            return max(1, _asked(driver.cuOccupancyMaxActiveClusters(self._function, config)))
        each = _asked(
            driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(self._function, made["threads"], made["shared_bytes"])
        )
        return max(1, each * self._processors)

    def _config(self, grid: tuple[int, ...], stream: Any) -> Any:
        made, config, attributes = self.made, driver.CUlaunchConfig(), []
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = made["threads"], 1, 1
        config.sharedMemBytes, config.hStream = made["shared_bytes"], driver.CUstream(int(stream))
        if made["as_cluster"]:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            dims = attribute.value.clusterDim
            dims.x, dims.y, dims.z = made["cluster"]
            attributes.append(attribute)
        if made["overlap"]:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attribute.value.programmaticStreamSerializationAllowed = 1
            attributes.append(attribute)
        if made["cooperative"]:
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attribute.value.cooperative = 1
            attributes.append(attribute)
        config.attrs, config.numAttrs = attributes, len(attributes)
        return config

    def launch(self, grid: tuple[int, ...], stream: Any, kept: list[Any]) -> None:
        """Launches it with parameters that are C values, or descriptors."""
        addresses = [ctypes.addressof(value) for value in kept]
        parameters = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        _asked(driver.cuLaunchKernelEx(self._config(grid, stream), self._function, ctypes.addressof(parameters), 0))


class Exported:
    """An exported kernel or function on one device, that of the context which is current when it is made."""

    def __init__(self, manifest: dict[str, Any], folder: Path) -> None:
        self.manifest = manifest
        self.name: str = manifest["name"]
        self._programs = [Program(made, folder, self.name) for made in manifest["programs"]]

    def __call__(
        self, *args: Any, sizes: dict[str, int] | None = None, strides: dict[str, Any] | None = None, stream: Any = 0,
        workspace: Any = None,
    ) -> None:
        """Calls it: its arguments in their order, then its results; named sizes, and strides of arrays by name.

        `workspace` begins at a multiple of 256 bytes and has `workspace_bytes` of them, of which the manifest's
        `zeroed_bytes` are 0 before the first call.
        """
        values, end = self._end(args, sizes, strides)
        if end["workspace"] != "0":
            if workspace is None:
                raise ValueError(f"{self.name} takes a workspace of {_value(end['workspace'], values)} bytes")
            values["workspace"] = _address(workspace)
            if values["workspace"] % 256:
                raise ValueError(f"the workspace of {self.name} does not begin at a multiple of 256 bytes")
        for name, place in end["scratch"].items():
            values[name] = values["workspace"] + _value(place, values)
        for launch in end["launches"]:
            self._launch(launch, values, stream)

    def workspace_bytes(
        self, *args: Any, sizes: dict[str, int] | None = None, strides: dict[str, Any] | None = None
    ) -> int:
        """How many bytes of a workspace a call with these arguments needs."""
        values, end = self._end(args, sizes, strides)
        return int(_value(end["workspace"], values))

    def _end(self, args: tuple[Any, ...], sizes: Any, strides: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The values of all that a call passes, and the launches that follow."""
        made, values, strides = self.manifest, dict(sizes or {}), dict(strides or {})
        count = len(made["parameters"])
        if len(args) != count + len(made["results"]) or set(values) != set(made["sizes"]):
            names = ", ".join(item["name"] for item in (*made["parameters"], *made["results"]))
            raise ValueError(f"{self.name} takes {names} and the sizes {made['sizes']}")
        for item, value in zip(made["parameters"], args):
            name = item["name"]
            if item["kind"] == "scalar":
                values[name] = float(value) if item["dtype"] in ("f32", "f64") else int(value)
                continue
            values[name] = _address(value)
            steps = self._strides(item, values[name], values, strides.get(name))
            values |= {f"{name}_{axis}": step for axis, step in enumerate(steps)}
        for item, value in zip(made["results"], args[count:]):
            values[item["memory"]] = _address(value)
            if values[item["memory"]] % 16:
                raise ValueError(f"{self.name}: {item['name']} does not begin at a multiple of 16 bytes")
        found = made["choose"]
        while isinstance(found, list):
            guard, holds, fails = found
            found = holds if _value(guard, values) else fails
        if found is None:
            raise ValueError(f"{self.name} was not exported for {values}")
        end: dict[str, Any] = made["ends"][found]
        return values, end

    def _strides(self, item: dict[str, Any], data: int, values: dict[str, Any], strides: Any) -> list[int]:
        """The strides of an array, checked against what was exported."""
        shape = [values[size] if isinstance(size, str) else size for size in item["shape"]]
        dense = [math.prod(max(size, 1) for size in shape[axis + 1 :]) for axis in range(len(shape))]
        steps = dense if strides is None else list(strides)

        def refuse(why: str) -> None:
            raise ValueError(f"{self.name}: {item['name']}, of shape {tuple(shape)} and strides {tuple(steps)}, {why}")

        if any(not 0 <= size < 2**31 for size in shape) or len(steps) != len(shape):
            refuse("has a size that no array has")
        if 0 in shape:
            return steps
        long = [axis for axis, size in enumerate(shape) if size > 1]
        if item["contiguous"] and any(steps[axis] != dense[axis] for axis in long):
            refuse("is not contiguous")
        if shape and (item["unit_inner"] or item["share"] > 1):
            if shape[-1] > 1 and steps[-1] != 1:
                refuse("has a stride along its last axis")
            if shape[-1] % item["share"]:
                refuse("does not consist of whole bytes")
        nbytes = [steps[axis] * item["nbytes"] // item["share"] for axis in long if axis < len(shape) - 1]
        if item["aligned"] and (data % 16 or any(n % 16 or not 0 <= n < 2**40 for n in nbytes)):
            refuse("is not aligned to 16 bytes")
        if item["whole"] and shape[-1] * item["nbytes"] // item["share"] % 16:
            refuse("has rows that are no multiple of 16 bytes")
        if not data:
            refuse("is NULL")
        return steps

    def _launch(self, launch: dict[str, Any], values: dict[str, Any], stream: Any) -> None:
        program = self._programs[launch["program"]]
        grid = program.grid(launch["grid"], values)
        if 0 in grid:
            return
        kept: list[Any] = []
        views: list[dict[str, Any] | None] = []
        for item in launch["arguments"]:
            if item["kind"] == "scalar":
                views.append(None)
                kept.append(_SCALARS[item["dtype"]](_value(item["value"], values)))
                continue
            view = {
                "data": _value(item["data"], values), "shape": [_value(size, values) for size in item["shape"]],
                "strides": [_value(step, values) for step in item["strides"]],
            }  # fmt: skip
            views.append(view)
            kept.append(_packed(_in_bytes(view, item["share"]) if item["in_bytes"] else view))
        for a, b in launch["apart"]:
            first, second = (_span(views[n] or {}, launch["arguments"][n]) for n in (a, b))
            if first[0] < second[1] and second[0] < first[1]:
                raise ValueError(f"two arguments of {self.name} share memory")
        if launch["counters"]:
            place = values["workspace"] + launch["counters_at"]
            kept.append(_packed({"data": place, "shape": [launch["counters"]], "strides": [1]}))
        for item in launch["tensor_maps"]:
            view_of = views[item["array"]]
            assert view_of is not None
            kept.append(_descriptor(item, launch["arguments"][item["array"]], view_of))
        program.launch(grid, stream, kept)


def _value(text: str, values: dict[str, Any]) -> Any:
    """What a text gives: numbers, names, + - * / // %, and one comparison by == < <=. Anything else is refused, not run."""
    return _computed(_parsed(text), values)


@functools.cache
def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, TypeError, RecursionError, MemoryError) as problem:
        raise ValueError(f"{text!r} in the manifest is no arithmetic") from problem


def _computed(node: ast.expr, values: dict[str, Any]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_computed(node.operand, values)
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        return _SIGNS[type(node.op)](_computed(node.left, values), _computed(node.right, values))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SIGNS:
        return _SIGNS[type(node.ops[0])](_computed(node.left, values), _computed(node.comparators[0], values))
    raise ValueError(f"{ast.unparse(node)!r} in the manifest is no arithmetic of what the call passes")


def _descriptor(item: dict[str, Any], array: dict[str, Any], view: dict[str, Any]) -> Any:
    """The TMA descriptor of an array; one that expands counts elements, all else bytes where elements share them."""
    in_bytes = array["in_bytes"] and not item["expands"]
    return _encoded(item, _in_bytes(view, array["share"]) if in_bytes else view)


def _address(value: Any) -> int:
    if isinstance(value, int):
        return value
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr())
    return int(value.__cuda_array_interface__["data"][0])


def _span(view: dict[str, Any], item: dict[str, Any]) -> tuple[int, int]:
    """The first byte of an array and the one behind its last."""
    if 0 in view["shape"]:
        return view["data"], view["data"]
    reach = [(size - 1) * step for size, step in zip(view["shape"], view["strides"], strict=True)]
    low, high = sum(n for n in reach if n < 0), sum(n for n in reach if n > 0)
    return (
        view["data"] + low // item["share"] * item["nbytes"], view["data"] + (high // item["share"] + 1) * item["nbytes"]
    )


def _in_bytes(view: dict[str, Any], share: int) -> dict[str, Any]:
    """Elements that share a byte as bytes, which is what the kernel sees."""
    shape, steps = view["shape"], view["strides"]
    return {
        "data": view["data"], "shape": [*shape[:-1], shape[-1] // share],
        "strides": [*(step // share for step in steps[:-1]), 1],
    }  # fmt: skip


def _packed(view: dict[str, Any]) -> Any:
    """The struct that a kernel takes for an array: address, strides, shape."""
    rank = len(view["shape"])
    fields: list[Any] = [("data", ctypes.c_uint64)]
    if rank:
        fields += [("strides", ctypes.c_int64 * rank), ("shape", ctypes.c_int32 * rank)]
    made = type("Array", (ctypes.Structure,), {"_fields_": fields})()
    made.data = view["data"]
    if rank:
        made.strides[:], made.shape[:] = view["strides"], view["shape"]
    return made


def _encoded(item: dict[str, Any], view: dict[str, Any]) -> Any:
    """A TMA descriptor; the hardware counts axes from the innermost."""
    kept = len(view["shape"]) - item["merged"]
    shape = [*view["shape"][:kept], math.prod(view["shape"][kept:])]
    steps = [*view["strides"][:kept], 1 if item["merged"] > 1 else view["strides"][kept]]
    order = item["axes"][::-1]
    chunk = 32 if item["expands"] else 16
    nbytes = []
    for axis in order[1:]:
        step = steps[axis] * item["nbytes"] // item["share"]
        nbytes.append(step if shape[axis] > 1 or (step > 0 and step % chunk == 0) else chunk)
    if 0 in shape or view["data"] % chunk or any(n % chunk or not 0 <= n < 2**40 for n in nbytes):
        raise ValueError(f"no TMA descriptor has shape {shape}, strides of {nbytes} bytes and the address {view['data']:#x}")
    memory = ctypes.create_string_buffer(128 + 64)
    made = (ctypes.c_char * 128).from_buffer(memory, -ctypes.addressof(memory) % 64)
    status = _encoder()(
        ctypes.addressof(made), item["data_type"], len(order), view["data"],
        (ctypes.c_uint64 * len(order))(*(shape[axis] for axis in order)), (ctypes.c_uint64 * len(nbytes))(*nbytes),
        (ctypes.c_uint32 * len(order))(*(item["box"][axis] for axis in order)),
        (ctypes.c_uint32 * len(order))(*[1] * len(order)), 0, item["swizzle"], item["l2_promotion"], int(item["fill_nan"]),
    )  # fmt: skip
    _asked((driver.CUresult(status),))
    return made


@functools.cache
def _encoder() -> Any:
    """cuTensorMapEncodeTiled itself: descriptors lie at multiples of 64 bytes, which those of cuda-bindings do not."""
    address, _ = _asked(driver.cuGetProcAddress(b"cuTensorMapEncodeTiled", 12000, 0))
    number, pointer = ctypes.c_int, ctypes.c_void_p
    return ctypes.CFUNCTYPE(
        number, pointer, number, ctypes.c_uint32, pointer, pointer, pointer, pointer, pointer, number, number, number, number
    )(address)
