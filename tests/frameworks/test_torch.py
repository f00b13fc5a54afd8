"""Kernels as operators of PyTorch: schemas, fake tensors, torch.compile, and numbers in the simulator and on a GPU."""

from __future__ import annotations

import itertools

import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f32, i32
from nvbackend.torch import op

torch = pytest.importorskip("torch")
THREADS = 128
_numbers = itertools.count()


@nvb.kernel("sm_80", threads=THREADS)
def scale(k, x: nvb.Pointer(f32, align=4), out: nvb.Pointer(f32, align=4), n: i32, factor: f32):
    at = k.block_id() * THREADS + k.thread_id()
    with k.if_(at < n):
        out[at] = x[at] * factor


@nvb.kernel("sm_80", threads=THREADS)
def add_to(k, total: nvb.Pointer(f32, align=4), x: nvb.Pointer(f32, align=4), n: i32):
    at = k.block_id() * THREADS + k.thread_id()
    with k.if_(at < n):
        total[at] += x[at]


def blocks(n):
    return (n + THREADS - 1) // THREADS


def like(x):
    return torch.empty_like(x)


def named():
    """A name that no other test has: operators live as long as the process."""
    return f"nvbackend_tests::op{next(_numbers)}"


PLACES = [pytest.param("cuda", marks=pytest.mark.gpu((8, 0))), "cpu"]


def made(place, kernel, **options):
    """The operator on the GPU, or of CPU tensors in the simulator."""
    if place == "cuda":
        major, minor = torch.cuda.get_device_capability()
        return op(kernel, named(), target=f"sm_{major}{minor}", **options)
    return op(kernel, named(), device="simulator", **options)


def scaled(place, **options):
    return made(place, scale, grid=blocks, results={"out": like}, **options)


def refusal(kernel, **options):
    with pytest.raises(DiagnosticError) as caught:
        op(kernel, named(), **options)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.rule_id, diagnostic.message


@pytest.mark.parametrize("place", PLACES)
def test_a_result(place) -> None:
    times = scaled(place)
    x = torch.arange(300, dtype=torch.float32, device=place)
    assert torch.equal(times(x, 300, 2.5), x * 2.5)
    torch.library.opcheck(times, (x, 300, 2.5))


@pytest.mark.parametrize("place", PLACES)
def test_a_mutated_tensor(place) -> None:
    add = made(place, add_to, grid=blocks, mutates=("total",))
    total, x = torch.ones(300, device=place), torch.arange(300.0, device=place)
    assert add(total, x, 300) is None
    assert torch.equal(total, x + 1)
    torch.library.opcheck(add, (total, x, 300))


def test_schemas() -> None:
    times = scaled("cpu")
    assert str(times._opoverload._schema).endswith("(Tensor x, SymInt n, float factor) -> Tensor")
    add = made("cpu", add_to, grid=blocks, mutates=("total",))
    assert str(add._opoverload._schema).endswith("(Tensor(a!) total, Tensor x, SymInt n) -> ()")


@pytest.mark.parametrize("place", PLACES)
def test_compiled(place) -> None:
    times = scaled(place)
    add = made(place, add_to, grid=blocks, mutates=("total",))

    def program(x):
        total = x + 1
        add(total, times(x, x.shape[0], 3.0), x.shape[0])
        return total.relu()

    compiled = torch.compile(program, fullgraph=True, backend="inductor" if place == "cuda" else "aot_eager")
    for count in (300, 77):
        x = torch.arange(-9.0, count - 9.0, device=place)
        assert torch.equal(compiled(x), (x + 1 + 3 * x).relu())


@pytest.mark.parametrize("place", PLACES)
def test_gradients(place) -> None:
    def keep(ctx, inputs, output):
        _, ctx.n, ctx.factor = inputs

    def backward(ctx, gradient):
        return times(gradient.contiguous(), ctx.n, ctx.factor), None, None

    times = scaled(place, backward=backward, setup_context=keep)
    x = torch.arange(300.0, device=place, requires_grad=True)
    times(x, 300, 2.5).square().sum().backward()
    assert torch.equal(x.grad, 2 * 2.5 * 2.5 * x.detach())
    y = x.detach().clone().requires_grad_()
    torch.compile(lambda y: times(y, 300, 2.5).sum(), backend="aot_eager")(y).backward()
    assert torch.equal(y.grad, torch.full_like(y, 2.5))


@pytest.mark.gpu((8, 0))
def test_in_a_cuda_graph() -> None:
    times = scaled("cuda")
    add = made("cuda", add_to, grid=blocks, mutates=("total",))
    x, total = torch.arange(300.0, device="cuda"), torch.zeros(300, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total.zero_()
        with pytest.raises(DiagnosticError, match=r"operator.capture"):
            times(x, 300, 2.0)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        add(total, times(x, 300, 2.0), 300)
    torch.cuda.synchronize()
    total.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add(total, times(x, 300, 2.0), 300)
    for _ in range(3):
        graph.replay()
    x.fill_(1.0)
    graph.replay()
    expected = 3 * 2.0 * torch.arange(300.0, device="cuda") + 2
    assert torch.equal(total, expected)


@pytest.mark.gpu((8, 0))
def test_on_the_current_stream() -> None:
    times = scaled("cuda")
    x = torch.zeros(300, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x.fill_(3.0)
        y = times(x, 300, 2.0)
    side.synchronize()
    assert torch.equal(y, torch.full_like(y, 6.0))


@pytest.mark.gpu((9, 0))
def test_a_compiled_module_with_cuda_graphs() -> None:
    times = scaled("cuda")
    program = torch.compile(lambda x: times(x, 300, 2.0).sin(), mode="reduce-overhead", fullgraph=True)
    x = torch.arange(300.0, device="cuda")
    for _ in range(4):
        y = program(x)
    assert torch.allclose(y, (x * 2).sin())


def test_undeclared_writes_are_refused() -> None:
    rule, message = refusal(add_to, grid=blocks)
    assert rule == "operator.mutates"
    assert "writes total" in message


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"grid": blocks, "mutates": ("y",)}, "'y' is not a tensor of it"),
        ({"grid": blocks, "mutates": "out"}, r"mutates is the text 'out'"),
        ({"grid": blocks, "mutates": ("n",)}, "'n' is not a tensor of it"),
        ({"grid": lambda m: m, "mutates": ("out",)}, "takes m, which the operator does not take"),
        ({"grid": blocks, "mutates": ("out",), "results": {"out": lambda x: x}}, "mutated and a result"),
        ({"grid": blocks, "results": {"out": 3}}, "the result out is 3"),
        ({"grid": blocks, "mutates": ("out",), "device": "cpu"}, "there is no device 'cpu'"),
    ],
)
def test_wrong_operators(options, said) -> None:
    rule, message = refusal(scale, **options)
    assert rule == "operator.declared"
    assert said in message


def test_a_wrong_tensor_is_a_diagnostic_of_the_launch() -> None:
    with pytest.raises(DiagnosticError, match=r"launch.dtype"):
        scaled("cpu")(torch.arange(300), 300, 2.0)
