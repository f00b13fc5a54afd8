"""Device functions: what they compile to, and what is said of wrong ones, at the caller's line."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, f32, i32


@nvb.function
def doubled(k, x: f32) -> f32:
    return x * 2.0


@nvb.function(inline=False)
def tripled(k, x: f32) -> f32:
    return x * 3.0


def built(body, **options):
    @nvb.kernel("sm_90a", threads=128, **options)
    def kernel(k, out: nvb.Pointer[f32], n: i32):
        body(k, out, n)

    return kernel.build()


def refused(body, **options):
    with pytest.raises(DiagnosticError) as raised:
        built(body, **options)
    return raised.value.diagnostics[0]


def test_a_called_function_is_a_function_of_the_ptx_once() -> None:
    def body(k, out, n):
        out[0] = tripled(k, tripled(k, out[1]))
        out[2] = tripled(k, 1.0)

    finished = built(body)
    assert [instr.opcode for instr in finished.machine.instructions()].count("call") == 3
    ptx = finished.compile(assemble=None).ptx
    assert ptx.count("call.uni") == 3
    assert ptx.count("tripled(\n") == 1


def test_an_inlined_function_is_the_code_of_its_body() -> None:
    def direct(k, out, n):
        out[0] = out[1] * 2.0

    def through(k, out, n):
        out[0] = doubled(k, out[1])

    def code(body):
        ptx = built(body).compile(assemble=False).ptx
        return [line for line in ptx[: ptx.index("\n}")].splitlines() if ".loc" not in line]

    assert code(direct) == code(through)


def test_the_text_is_the_same_each_time() -> None:
    def body(k, out, n):
        out[0] = tripled(k, 1.0) + doubled(k, 2.0)

    assert built(body).ir == built(body).ir


def test_a_finished_kernel_keeps_the_judged_bodies_in_its_machine_form() -> None:
    @nvb.function(inline=False)
    def synced(k):
        k.barrier.sync()

    def body(k, out, n):
        synced(k)
        synced(k)

    finished = built(body)
    assert [instr.opcode for instr in finished.machine.instructions()].count("call") == 2
    assert sum(finished.compile(assemble=False).selected.values()) == 2


@pytest.mark.parametrize("inline", [True, False])
def test_the_analyses_see_the_body(inline) -> None:
    @nvb.function(inline=inline)
    def synced(k):
        k.barrier.sync()

    def body(k, out, n):
        with k.if_(k.thread_id() < 5):
            synced(k)  # the call

    fault = refused(body)
    assert fault.rule.id.startswith(("convergence.", "barrier."))
    assert "k.barrier.sync()" in fault.location.source
    assert "synced(k)  # the call" in fault.location.callers[0].source


@pytest.mark.parametrize("inline", [True, False])
def test_a_race_through_a_function_is_seen(inline) -> None:
    """The kernel copies; a function reads what may not have come, or waits for too little."""

    @nvb.function(inline=inline)
    def wait(k, *, pending: int):
        k.cp_async.wait_group(pending)

    @nvb.function(inline=inline)
    def read(k, p: nvb.Pointer(f32, space="shared", align=4)) -> f32:
        return p[k.thread_id()]

    def body(pending):
        def copies(k, out, n):
            tile = k.shared(f32, 128)
            k.cp_async.copy(tile + k.thread_id(), out + k.thread_id(), 4)
            k.cp_async.commit_group()
            wait(k, pending=pending)
            out[k.thread_id()] = read(k, tile)

        return copies

    assert refused(body(1)).rule.id == "async-copy.read-before-wait"
    built(body(0))


WRONG = {
    "function.call": [
        (lambda k, out, n: doubled(k), "missing a required argument"),
        (lambda k, out, n: doubled(k, 1.0, 2.0), "too many"),
        (lambda k, out, n: doubled(1.0, 2.0), "not a builder"),
        (lambda k, out, n: doubled(k, 1.0, y=1.0), "'y'"),
    ],
    "function.argument": [
        (lambda k, out, n: doubled(k, n), "s32"),
        (lambda k, out, n: doubled(k, out), "an address of f32"),
        (lambda k, out, n: tripled(k, n), "s32"),
    ],
}


@pytest.mark.parametrize(
    ("rule", "body", "text"), [(rule, body, text) for rule, cases in WRONG.items() for body, text in cases]
)
def test_wrong_calls(rule, body, text) -> None:
    fault = refused(body)
    assert fault.rule.id == rule
    assert text in fault.message
    assert fault.location.file == __file__


def test_a_value_of_another_kernel_is_refused() -> None:
    other = nvb.KernelBuilder("other", "sm_90a", threads=32)
    x = other.const(1.0, f32)
    assert refused(lambda k, out, n: doubled(k, x)).rule.id == "value.kernel"
    assert refused(lambda k, out, n: tripled(k, x)).rule.id == "value.kernel"


def test_pointers_are_passed_to_their_own_space_type_and_alignment() -> None:
    @nvb.function(inline=False)
    def put(k, p: nvb.Pointer[f32]):
        p[0] = 1.0

    @nvb.function(inline=False)
    def read(k, p: nvb.Pointer(f32, const=True)) -> f32:
        return p[0]

    cases = [
        (lambda k, out, n: put(k, k.shared(f32, 4)), "shared"),
        (lambda k, out, n: put(k, out.cast(i32)), "s32"),
        (lambda k, out, n: put(k, out + n), "a multiple of 16"),
        (lambda k, out, n: read(k, out), "not declared const"),
        (lambda k, out, n: put(k, n), "s32"),
    ]
    for body, text in cases:
        fault = refused(body)
        assert fault.rule.id == "function.argument"
        assert text in fault.message


def test_recursion_names_the_cycle() -> None:
    @nvb.function
    def first(k, x: f32) -> f32:
        return second(k, x)

    @nvb.function(inline=False)
    def second(k, x: f32) -> f32:
        return first(k, x)

    @nvb.function
    def itself(k, x: f32) -> f32:
        return itself(k, x)

    fault = refused(lambda k, out, n: first(k, 1.0))
    assert fault.rule.id == "function.recursion"
    assert "first -> second -> first" in fault.message
    assert "itself -> itself" in refused(lambda k, out, n: itself(k, 1.0)).message


def test_results_are_those_declared() -> None:
    def returning(result, kind):
        def body(k, x: f32):
            return result(k, x)

        body.__annotations__["return"] = kind
        return nvb.function(body)

    wrong = [
        (lambda k, x: x.to(i32), f32),
        (lambda k, x: (x, x), f32),
        (lambda k, x: x, tuple[f32, f32]),
        (lambda k, x: (x,), tuple[f32, f32]),
        (lambda k, x: x, None),
        (lambda k, x: None, f32),
        (lambda k, x: "x", f32),
        (lambda k, x: k.return_(), f32),
    ]
    for result, kind in wrong:
        function = returning(result, kind)
        assert refused(lambda k, out, n, function=function: function(k, 1.0)).rule.id == "function.result"


@pytest.mark.parametrize("inline", [True, False])
def test_a_loop_of_the_caller_is_not_left(inline) -> None:
    @nvb.function(inline=inline)
    def leave(k):
        k.break_()

    def body(k, out, n):
        with k.range(n):
            leave(k)

    assert refused(body).rule.id == "control.loop"


def test_a_called_function_sees_only_its_arguments() -> None:
    def body(k, out, n):
        @nvb.function(inline=False)
        def reads(k) -> i32:
            return n + 1

        out[0] = reads(k).to(f32)

    assert refused(body).rule.id in ("kernel.outer", "value.kernel")

    def sets(k, out, n):
        total = k.var(0.0)

        @nvb.function(inline=False)
        def add(k):
            total.set(1.0)

        add(k)

    assert refused(sets).rule.id in ("kernel.outer", "value.kernel")


def test_a_value_that_leaves_a_called_function_is_refused() -> None:
    kept = []

    @nvb.function(inline=False)
    def keeps(k, x: f32):
        kept.append(x + 1.0)

    def body(k, out, n):
        keeps(k, out[0])
        out[1] = kept[0]

    assert refused(body).rule.id in ("value.scope", "function.escape")


@pytest.mark.parametrize("escapes", range(3))
def test_the_call_that_a_value_leaves_is_named(escapes: int) -> None:
    """Of several calls it is that one's function and line."""
    kept = []

    def made(name):
        def keeps(k, x: f32):
            kept.append((x + 1.0).ir)

        keeps.__name__ = name
        return nvb.function(inline=False)(keeps)

    functions = [made(name) for name in ("first", "second", "third")]

    def body(k, out, n):
        functions[0](k, out[0])
        functions[1](k, out[1])
        functions[2](k, out[2])
        out[3] = k.value(kept[2 * escapes], f32)  # each body is built twice

    found = refused(body)
    assert found.rule.id == "function.escape"
    assert f"made inside the called function {('first', 'second', 'third')[escapes]}," in found.message
    assert f"functions[{escapes}](k" in found.location.source


def test_a_body_that_depends_on_more_than_its_parameters_is_refused() -> None:
    counter = iter(range(100))

    @nvb.function(inline=False)
    def counts(k, p: nvb.Pointer[f32]):
        p[next(counter)] = 1.0

    assert refused(lambda k, out, n: counts(k, out)).rule.id == "function.differs"


@pytest.mark.parametrize(
    "what",
    [
        lambda k: k.shared(f32, 4),
        lambda k: k.shared_static(f32, 4),
        lambda k: k.setmaxnreg.dec(24),
        lambda k: k.wgmma.fence(),
        lambda k: k.assert_(k.thread_id() < 4, "text"),
        lambda k: k.trap(),
    ],
)
def test_what_a_called_function_cannot_have(what) -> None:
    @nvb.function(inline=False)
    def function(k):
        what(k)

    @nvb.function(inline=False)
    def around(k):
        inside(k)

    @nvb.function
    def inside(k):
        what(k)

    found = refused(lambda k, out, n: function(k))
    assert found.rule.id == "function.instruction"
    assert found.message.partition("a called function: ")[2]
    assert refused(lambda k, out, n: around(k)).rule.id == "function.instruction"


def test_declarations() -> None:
    def refusal(decorated, **options):
        def calls(k, out, n):
            nvb.function(**options)(decorated)(k, 1.0)

        with pytest.raises(DiagnosticError) as raised:
            built(calls)
        return raised.value.diagnostics[0]

    def no_annotation(k, x):
        pass

    def odd(k, x: str):
        pass

    def packed(k, x: nvb.e2m1):
        pass

    def any_number(k, *x):
        pass

    def builder_typed(x: f32):
        pass

    def returns_text(k, x: f32) -> str:
        return "x"

    def takes_variable(k, x: nvb.Variable):
        pass

    for decorated in (no_annotation, odd, packed, any_number, builder_typed, returns_text):
        assert refusal(decorated).rule.id == "function.declaration"
    assert refusal(takes_variable, inline=False).rule.id == "function.declaration"
    assert refusal(lambda k, x: x, inline=False).rule.id == "function.declaration"


def test_objects_of_the_kernel_are_passed_to_a_function_in_place() -> None:
    @nvb.function
    def add(k, total: nvb.Variable, x: f32):
        total += x

    @nvb.kernel("sm_80", threads=32)
    def kernel(k, out: nvb.Pointer[f32]):
        total = k.var(1.0)
        with k.range(4):
            add(k, total, 2.0)
        out[k.thread_id()] = total.value

    out = np.zeros(32, np.float32)
    loaded = nvb.runtime.load(kernel.compile(assemble=False), device="simulator")
    loaded.launch(1, out)
    assert out.tolist() == [9.0] * 32


def test_else_does_not_belong_to_an_if_of_a_function() -> None:
    @nvb.function
    def ends_in_if(k, p: nvb.Pointer[f32]):
        with k.if_(k.thread_id() == 0):
            p[0] = 1.0

    def body(k, out, n):
        ends_in_if(k, out)
        with k.else_():
            out[1] = 1.0

    assert refused(body).rule.id == "control.else"


def test_an_attached_builder_expands_functions_and_calls_none() -> None:
    from llvmlite import ir

    module = ir.Module("m")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "owner")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    k = nvb.attach(builder, "sm_90a", threads=32)
    assert doubled(k, 1.0).type is f32
    with pytest.raises(DiagnosticError) as raised:
        tripled(k, 1.0)
    assert raised.value.diagnostics[0].rule.id == "function.call"


NUMBERS = {"constant": lambda k, n: 1, "bounded": lambda k, n: n % 2 + 1, "of a warp": lambda k, n: k.warp_id()}


@pytest.mark.parametrize("call", ["sync", "arrive"])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_barrier_may_have_the_number_of_a_parameter(name: str, call: str) -> None:
    """What the caller knows of the number does not make it another function, which takes it in a register."""

    @nvb.function(inline=False)
    def meets(k, number: i32):
        getattr(k.barrier, call)(number, 32)

    @nvb.kernel("sm_90a", threads=32)
    def kernel(k, n: i32(minimum=1)):
        meets(k, NUMBERS[name](k, n))

    ptx = kernel.build().compile(assemble=None).ptx
    assert ptx.count("call.uni") == 1
    number = re.search(rf"\.{call}[.a-z]*\s+(%r\d+), ", ptx)
    assert number is not None
    assert f"mov.b32 {number[1]}, " in ptx


def test_a_body_that_meets_at_another_number_of_barriers_is_refused() -> None:
    times = iter(range(1, 100))

    @nvb.function(inline=False)
    def meets(k, number: i32):
        for _ in range(next(times)):
            k.barrier.sync(number, 128)

    assert refused(lambda k, out, n: meets(k, 1)).rule.id == "function.differs"
