"""Tensors without memory, without rows, or that stand for others: what torch's operators give, or one clear error."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", minversion="2.6", reason="px.torch needs torch 2.6 or newer")

import phalanx as px  # noqa: E402
from support.torch_operators import CALLS  # noqa: E402


@px.kernel(warps=4)
def double(X, Y):
    px.store(Y[0:8, 0:64], px.load(X[0:8, 0:64]) * 2)


def fake() -> Any:
    with torch._subclasses.FakeTensorMode():
        return torch.empty(8, 64)


def jagged() -> Any:
    return torch.nested.nested_tensor([torch.ones(3, 64), torch.ones(2, 64)], layout=torch.jagged)


WITHOUT_MEMORY: dict[str, Callable[[], Any]] = {"meta": lambda: torch.empty(8, 64, device="meta"), "fake": fake}


@pytest.mark.parametrize("kind", WITHOUT_MEMORY)
def test_tensors_without_memory_give_tensors_without_memory(kind: str) -> None:
    x = WITHOUT_MEMORY[kind]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no word about addresses of fake tensors
        y = px.kernels.softmax(x)
        double[1](x, y)
    assert (type(y), y.shape, y.device) == (type(x), x.shape, x.device)


@pytest.mark.parametrize("kind", WITHOUT_MEMORY)
def test_tensors_without_memory_are_not_checked_or_compiled_for(kind: str) -> None:
    x = WITHOUT_MEMORY[kind]()
    for run in (lambda: px.check(double[1], x, x), lambda: px.compile(double[1], x, x)):
        with pytest.raises(px.Error, match=r"argument 'X': a .* has no memory"):
            run()


LAYOUTS: dict[str, Callable[[], Any]] = {
    "coo": lambda: torch.eye(8, 64).to_sparse(),
    "csr": lambda: torch.eye(8, 64).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(3, 64), torch.ones(2, 64)]),
    "jagged": jagged,
}
CALLERS: dict[str, Callable[[Any], Any]] = {
    "px.kernels": lambda x: px.kernels.softmax(x),
    "px.torch": lambda x: px.torch.rms_norm(x),
    "a product": lambda x: px.kernels.matmul(x, torch.ones(64, 8)),
    "a launch": lambda x: double[1](x, torch.ones(8, 64)),
    "px.check": lambda x: px.check(double[1], torch.ones(8, 64), x),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:Sparse")
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_elements_that_lie_elsewhere_are_an_error(layout: str, caller: str) -> None:
    with pytest.raises(px.Error) as caught:
        CALLERS[caller](LAYOUTS[layout]())
    assert "has no elements at regular places in memory" in caught.value.message
    assert caught.value.remedy == "pass a dense tensor, such as x.to_dense(), or the values alone: x.values()"


def test_vmap() -> None:
    """Functions of the library have a rule for it, launches have none."""
    x = torch.randn(3, 8, 64)
    assert torch.equal(torch.vmap(px.kernels.softmax)(x), px.kernels.softmax(x))
    with pytest.raises(px.Error) as caught:
        torch.vmap(lambda each: double[1](each, each))(x)
    assert caught.value.message == "kernel 'double' is launched within a transform of torch.func, which has no rule for it"


def test_subclasses_without_a_dispatch_of_their_own_are_tensors() -> None:
    class Named(torch.Tensor):
        pass

    x = torch.randn(8, 64).as_subclass(Named)
    y = torch.zeros(8, 64)
    double[1](x, y)
    assert torch.equal(y, 2 * x.as_subclass(torch.Tensor))


@pytest.mark.share(4)
@pytest.mark.parametrize("name", sorted(set(px.kernels.__all__) & set(CALLS)))
def test_every_function_of_the_library_is_its_operator_for_tensors_without_memory(name: str) -> None:
    """One mechanism for all of them; for those that torch.compile traces it is the same function."""
    if name == "quantize" and not hasattr(torch, "float8_e8m0fnu"):
        pytest.skip(f"torch {torch.__version__} has no float8_e8m0fnu")
    function = getattr(px.kernels, name)
    assert function._torchdynamo_inline is function.memory.operator
    seen = []

    class Seeing(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(op.name())
            return op(*args, **(kwargs or {}))

    schema = getattr(torch.ops.phalanx, name).default._schema
    names = [argument.name for argument in schema.arguments]
    parameters = inspect.signature(function).parameters
    mode = torch._subclasses.FakeTensorMode()
    options = {key: x for key, x in zip(names, CALLS[name]()) if key in parameters}
    options = {key: mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for key, x in options.items()}
    with mode, Seeing():
        function(**options)
    assert any(op.startswith("phalanx::") for op in seen), seen
