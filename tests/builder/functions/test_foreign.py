"""Functions of other compilers called from kernels: nvcc's, our own, and hand-written ones; and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, bf16, f16, f32, f64, i32, i64, pred, s8, s16, u8
from nvbackend.intrinsics.row.types import BY_NAME
from nvbackend.signature import Parameter
from tests.rules.setup import wgmma_parts
from tests.support.linked_functions import scaled
from tests.support.ptxas import assemble

FILE = Path(__file__).parent / "foreign" / "functions.ptx"
"""What nvcc made of functions.cu beside it."""
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
ROW = nvb.Pointer(f32, align=4)


def foreign(name, parameters, result=None, **options):
    """A function of nvcc's text."""
    return nvb.extern_function(name, parameters, result, ptx=FILE, **options)


def of_text(body, *, result=".param .b32 r", parameters=".param .b32 n", head=HEAD):
    """A text with one function."""
    return f"{head}.visible .func ({result}) f({parameters})\n{{ .reg .b32 %r<4>; .reg .b64 %d<4>; {body} ret; }}\n"


def refused(call, *arguments, **options):
    """The one rule that it breaks, with its message and its fix."""
    with pytest.raises(DiagnosticError) as caught:
        call(*arguments, **options)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.rule_id, diagnostic.message, diagnostic.fix


def ran(kernel, *arguments, target="sm_90"):
    """The PTX, after ptxas took it and the simulator ran it."""
    ptx = kernel.compile(target=target, assemble=False).ptx
    done, said = assemble(ptx, target)
    assert done, said
    nvb.simulator.Simulator().load(ptx).launch(kernel.name, block=(32, 1, 1), args=list(arguments))
    return ptx


SHIFTED = foreign("shifted", {"x": f32, "n": i32}, f32, effects=("reads",))
TRIPLED = foreign("tripled", {"x": f32}, f32, effects=("reads",))


@nvb.kernel("sm_90", threads=32)
def shifts(k, x: nvb.Pointer[f32]):
    t = k.thread_id()
    x[t] = SHIFTED(k, x[t], t) + SHIFTED(k, 1.0, n=2)


@nvb.kernel("sm_90", threads=32)
def triples(k, x: nvb.Pointer[f32]):
    x[k.thread_id()] = SHIFTED(k, TRIPLED(k, x[k.thread_id()]), 3)


def test_a_function_with_its_helper_and_its_table() -> None:
    x = np.arange(32, dtype=np.float32)
    wanted = x * (1 + np.arange(32) % 4) + 1 + 4
    ptx = ran(shifts, x)
    assert (x == wanted).all()
    assert ptx.count(".func") == 2
    assert not any(word in ptx for word in ("vprintf", "neighbour", "clocked", ".extern"))


def test_two_functions_share_what_both_use() -> None:
    x = np.arange(32, dtype=np.float32)
    ptx = ran(triples, x)
    assert (x == np.arange(32) * 12 + 1).all()
    assert ptx.count(".func") == 3
    assert ptx.count(".global .align 4 .b8 table[16]") == 1


def test_a_module_of_kernels_has_the_text_once() -> None:
    module = nvb.compile_module([shifts, triples], assemble=False)
    assert assemble(module.ptx, "sm_90")[0]
    assert module.ptx.count(".func") == 3
    x = np.arange(32, dtype=np.float32)
    nvb.simulator.Simulator().load(module.ptx).launch("triples", block=(32, 1, 1), args=[x])
    assert (x == np.arange(32) * 12 + 1).all()


def test_small_integers_predicates_and_wide_results() -> None:
    of_small = foreign("of_small", {"c": s8, "d": u8, "h": s16, "b": pred}, s16)
    is_odd = foreign("is_odd", {"n": i32}, pred)
    summed = foreign("summed", {"row": ROW, "n": i64}, f64, effects=("reads row",))
    root = foreign("root", {"x": f32}, f32)

    @nvb.kernel("sm_90", threads=32)
    def small(k, x: ROW, out: nvb.Pointer(f64, align=8)):
        t = k.thread_id()
        with k.if_(is_odd(k, t)):
            out[t] = of_small(k, (t - 20).to(s8), (t + 200).to(u8), (t * -50).to(s16), t > 9).to(f64)
        with k.else_():
            out[t] = summed(k, x, t.to(i64)) + root(k, t.to(f32)).to(f64)

    x, out = np.arange(32, dtype=np.float32), np.zeros(32)
    ran(small, x, out)
    for t in range(32):
        odd = (t - 20) * (t * -50) if t > 9 else t + 200
        assert out[t] == (odd if t % 2 else sum(range(t)) + float(np.sqrt(np.float32(t))))


WIDTHS = {
    **dict.fromkeys(("u8", "s8"), (8, 32)),
    **dict.fromkeys(("u16", "s16", "f16", "bf16"), (16, 32)),
    **dict.fromkeys(("u32", "s32", "f32", "f16x2", "bf16x2"), (32,)),
    **dict.fromkeys(("u64", "s64", "f64"), (64,)),
}
"""How wide the parameters may be in which a type is passed."""


def test_all_bits_of_each_type_go_in_and_come_out() -> None:
    k = nvb.KernelBuilder(
        "all_of_them",
        "sm_90",
        threads=32,
        parameters=[Parameter(name, nvb.Pointer(BY_NAME[name])) for name in WIDTHS],
    )
    t = k.thread_id()
    for pointer, (name, widths) in zip(k.arguments, WIDTHS.items(), strict=True):
        for bits in widths:
            same, held = f"same_{name}_{bits}", f".b{max(bits, 16)}"
            text = f".visible .func (.param .b{bits} r) {same}(.param .b{bits} x)\n{{ .reg {held} %a; "
            text += f"ld.param.b{bits} %a, [x]; st.param.b{bits} [r], %a; ret; }}\n"
            element = BY_NAME[name]
            function = nvb.extern_function(same, {"x": element}, element, ptx=HEAD + text)
            pointer[t + bits * 4] = function(k, pointer[t])
    ptx = k.compile(assemble=False).ptx
    assert assemble(ptx, "sm_90")[0]
    rng = np.random.default_rng(3)
    data = [rng.integers(0, 256, 320 * BY_NAME[name].bits // 8, np.uint8) for name in WIDTHS]
    arrays = [each.view(BY_NAME[name].numpy_dtype()) for each, name in zip(data, WIDTHS, strict=True)]
    nvb.simulator.Simulator().load(ptx).launch("all_of_them", block=(32, 1, 1), args=arrays)
    for each, (name, widths) in zip(data, WIDTHS.items(), strict=True):
        rows = each.reshape(320, -1)
        for bits in widths:
            assert (rows[bits * 4 : bits * 4 + 32] == rows[:32]).all(), (name, bits)


def test_a_table_of_addresses_brings_what_they_point_to() -> None:
    tables = """.global .align 4 .b32 numbers[2] = {5, 7};
.global .align 8 .u64 there[1] = {numbers};
.global .align 4 .b32 unused[1] = {1};
"""
    body = "ld.global.u64 %d1, [there]; ld.global.u32 %r1, [%d1+4]; st.param.b32 [r], %r1;"
    text = of_text(body, head=HEAD + tables)
    second = nvb.extern_function("f", {"n": i32}, i32, ptx=text, effects=("reads",))

    @nvb.kernel("sm_90", threads=32)
    def reads(k, x: nvb.Pointer(i32, align=4)):
        x[k.thread_id()] = second(k, k.thread_id())

    x = np.zeros(32, np.int32)
    ptx = ran(reads, x)
    assert (x == 7).all()
    assert "unused" not in ptx


def test_memory_that_it_writes() -> None:
    swapped = foreign("swapped", {"row": ROW, "i": i32, "j": i32}, effects=("reads row", "writes row"))

    @nvb.kernel("sm_90", threads=32)
    def swaps(k, x: ROW):
        t = k.thread_id()
        before = x[t * 2]
        swapped(k, x, t * 2, t * 2 + 1)
        x[t * 2] = x[t * 2] * 100.0 + before

    x = np.arange(64, dtype=np.float32)
    ran(swaps, x)
    assert (x[0::2] == (np.arange(32) * 2 + 1) * 100 + np.arange(32) * 2).all()
    assert (x[1::2] == np.arange(32) * 2).all()


SWAP_SHARED = foreign(
    "swapped",
    {"row": nvb.Pointer(f32, space="shared", align=4), "i": i32, "j": i32},
    effects=("reads row", "writes row"),
    extents={"row": 8},
)


@nvb.kernel("sm_90", threads=64)
def exchange(k, x: ROW):
    box, t = k.shared(f32, 64), k.thread_id()
    box[t] = x[t]
    k.barrier.sync()
    with k.if_(t < 1):
        SWAP_SHARED(k, box, 0, 1)
    k.barrier.sync()
    x[t] = box[t]


def test_shared_memory_of_the_kernel() -> None:
    x = np.arange(64, dtype=np.float32)
    ptx = exchange.compile(assemble=False).ptx
    assert assemble(ptx, "sm_90")[0]
    nvb.simulator.Simulator().load(ptx).launch("exchange", block=(64, 1, 1), args=[x], shared=256)
    assert x.tolist() == [1, 0, *range(2, 64)]


@pytest.mark.parametrize("fenced", [True, False])
def test_the_analyses_see_what_it_writes(fenced) -> None:
    @nvb.kernel("sm_90a", threads=128)
    def filled(k):
        mma, acc, tile = wgmma_parts(k)
        row = tile.address.cast(f32).byte_offset(k.thread_id() * 16, align=16)
        row[0] = 1.0
        row[1] = 2.0
        k.fence.proxy_async()
        SWAP_SHARED(k, row, 0, 1)
        if fenced:
            k.fence.proxy_async()
        k.barrier.sync()
        with k.wgmma.group():
            mma.accumulate(acc, tile, tile)

    if fenced:
        filled.build()
    else:
        assert refused(filled.build)[0] == "proxy.missing-fence"


def test_our_own_function_from_its_ptx() -> None:
    own = nvb.extern_function("scaled", {"x": f32, "n": i32}, f32, ptx=scaled.compile("sm_80").ptx)

    @nvb.kernel("sm_90", threads=32)
    def scales(k, x: ROW):
        x[k.thread_id()] = own(k, x[k.thread_id()], k.thread_id())

    x = np.full(32, 1.5, np.float32)
    ran(scales, x)
    assert (x == 1.5 * np.arange(32)).all()


def test_halves_are_passed_as_other_compilers_pass_them() -> None:
    wide = of_text("ld.param.b32 %r1, [n]; add.s32 %r1, %r1, 1; st.param.b32 [r], %r1;")
    array = of_text(
        ".reg .b16 %h; ld.param.b16 %h, [n]; add.s16 %h, %h, 1; st.param.b16 [r], %h;",
        result=".param .align 2 .b8 r[2]",
        parameters=".param .align 2 .b8 n[2]",
    )
    first = nvb.extern_function("f", {"n": bf16}, bf16, ptx=wide)
    second = nvb.extern_function("f", {"n": f16}, f16, ptx=array)
    for function, element, shown in ((first, bf16, 0x3F81), (second, f16, 0x3C01)):

        @nvb.kernel("sm_90", threads=32)
        def bits(k, out: nvb.Pointer(i32, align=4)):
            out[k.thread_id()] = function(k, k.const(1.0, element)).bitcast(nvb.u16).to(i32)  # noqa: B023

        out = np.zeros(32, np.int32)
        ran(bits, out)
        assert (out == shown).all()


def test_inside_a_called_function_and_one_for_others() -> None:
    @nvb.function(inline=False)
    def twice(k, x: f32) -> f32:
        return TRIPLED(k, TRIPLED(k, x))

    @nvb.kernel("sm_90", threads=32)
    def calls(k, x: ROW):
        x[k.thread_id()] = twice(k, x[k.thread_id()])

    x = np.ones(32, np.float32)
    ran(calls, x)
    assert (x == 9).all()
    ptx = twice.compile("sm_90").ptx
    assert ptx.count(".visible") == 1
    assert assemble(ptx, "sm_90")[0]


def test_a_pure_call_without_a_use_is_left_out() -> None:
    root = foreign("root", {"x": f32}, f32)

    @nvb.kernel("sm_90", threads=32)
    def unused(k, x: ROW):
        root(k, x[0])
        x[1] = root(k, x[2]) + root(k, x[2])

    assert unused.compile(assemble=False).ptx.count("call.uni") == 1


@pytest.mark.parametrize(
    ("name", "parameters", "effects", "said"),
    [
        ("missing", {"n": i32}, (), "its text has no function of that name"),
        ("kernel", {"n": i32}, (), "has it as a kernel"),
        ("vprintf", {"n": i32}, (), "declares it without a body"),
        ("printed", {"n": i32}, ("reads",), "calls vprintf, and the text declares it without a body"),
        ("barred", {"n": i32}, ("convergent",), "has bar.sync"),
        ("held", {"n": i32}, ("reads", "writes"), "in .shared memory of its own"),
        ("fibonacci", {"n": i32}, (), "calls itself: fibonacci -> fibonacci"),
        ("applied", {"f": ROW, "n": i32}, (), "calls a function by its address"),
        ("is_odd", {"n": f64}, (), "its parameter n is declared f64, and its text has .param .b32 is_odd_param_0"),
        ("is_odd", {"n": ROW}, (), "its parameter n is declared a pointer to f32"),
        ("is_odd", {"n": i32, "m": i32}, (), "2 parameters are declared, and its text has 1"),
        ("clocked", {"n": i32}, ("volatile",), "1 parameter is declared, and its text has 0: nothing"),
        ("is_odd", {"n": nvb.s4}, (), "which C passes in no way"),
        ("is_odd", {"n": i32}, ("reads n",), "effects has 'reads n'"),
        ("swapped", {"row": nvb.Pointer(f32, const=True), "i": i32, "j": i32}, ("writes row",), "declared const"),
        ("swapped", {"row": nvb.Pointer(f32, space="shared"), "i": i32, "j": i32}, ("reads",), "points to shared"),
    ],
)
def test_what_is_no_such_function(name, parameters, effects, said) -> None:
    result = None if name == "swapped" else i32
    rule, message, _ = refused(foreign, name, parameters, result, effects=effects)
    assert rule == "function.foreign"
    assert said in message


@pytest.mark.parametrize(
    ("name", "parameters", "wanted"),
    [
        ("neighbour", {"n": i32}, "convergent"),
        ("clocked", {}, "volatile"),
        ("shifted", {"x": f32, "n": i32}, "reads"),
        ("counted", {}, "reads"),
    ],
)
def test_effects_that_the_text_shows(name, parameters, wanted) -> None:
    result = f32 if name == "shifted" else i32
    rule, message, fix = refused(foreign, name, parameters, result)
    assert rule == "function.foreign-effects"
    assert f"foreign function {name}: " in message
    assert wanted in fix
    words = eval(fix.partition("effects=")[2])
    assert foreign(name, parameters, result, effects=words).name == name


def test_results_that_differ() -> None:
    assert "is declared to return nothing" in refused(foreign, "is_odd", {"n": i32})[1]
    assert "its result is declared f64" in refused(foreign, "is_odd", {"n": i32}, f64)[1]


@pytest.mark.parametrize("extents", [{"n": 4}, {"row": 4}, {"x": 4}])
def test_extents_of_what_is_not_shared_memory(extents) -> None:
    assert "extents has" in refused(foreign, "is_odd", {"n": i32}, i32, extents=extents)[1]


def test_texts_that_cannot_be_read(tmp_path) -> None:
    there = {"parameters": {"n": i32}, "result": i32}
    assert "cannot be read" in refused(nvb.extern_function, "f", **there, ptx=tmp_path / "f.ptx")[1]
    assert "ptx is 3" in refused(nvb.extern_function, "f", **there, ptx=3)[1]
    assert refused(nvb.extern_function, "f", **there, ptx="nothing")[0] == "ptx.syntax"
    assert refused(nvb.extern_function, "f", **there, ptx=of_text("mov.b32 %x, 1;"))[0] == "ptx.undeclared"
    narrow = of_text("", head=".version 8.0\n.target sm_80\n.address_size 32\n")
    assert "addresses of 32 bits" in refused(nvb.extern_function, "f", **there, ptx=narrow)[1]
    bytes_ = of_text("st.param.b32 [r], 1;").encode() + b"\0"
    assert nvb.extern_function("f", **there, ptx=bytes_).name == "f"


def called(function, *arguments, name="caller", target="sm_90"):
    """Build a kernel that calls it."""

    @nvb.kernel(target, threads=32, name=name)
    def caller(k, x: ROW):
        function(k, *arguments)

    return caller.build()


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        ("sm_90", "sm_80", "its text is for sm_90, and the kernel for sm_80"),
        ("sm_90a", "sm_90", "its text is for sm_90a"),
        ("sm_100f", "sm_120a", "its text is for sm_100f"),
        ("sm_100f", "sm_103a", None),
        ("sm_100f", "sm_103f", None),
        ("sm_90a", "sm_90a", None),
        ("sm_52", "sm_90a", None),
    ],
)
def test_targets(text, target, said) -> None:
    head = f".version 8.0\n.target {text}\n.address_size 64\n"
    body = of_text("st.param.b32 [r], 1;", head=head)
    function = nvb.extern_function("f", {"n": i32}, i32, ptx=body, effects=("writes",))
    if said is None:
        called(function, 1, target=target)
    else:
        rule, message, _ = refused(called, function, 1, target=target)
        assert rule == "function.foreign"
        assert said in message


def test_a_newer_ptx() -> None:
    head = ".version 99.0\n.target sm_80\n.address_size 64\n"
    function = nvb.extern_function("f", {"n": i32}, i32, ptx=of_text("st.param.b32 [r], 1;", head=head))
    assert "its text is PTX 99.0, and the kernel is printed as" in refused(called, function, 1)[1]


def test_names_that_are_taken() -> None:
    one, two = (
        nvb.extern_function("f", {"n": i32}, i32, ptx=of_text(f"st.param.b32 [r], {number};")) for number in (1, 2)
    )
    assert "the kernel's module has another f" in refused(called, one, 1, name="f")[1]

    @nvb.kernel("sm_90", threads=32)
    def both(k, x: nvb.Pointer(i32)):
        x[0] = one(k, 1) + two(k, 1)

    assert "another text has another f" in refused(both.build)[1]

    @nvb.kernel("sm_90", threads=32)
    def first(k, x: nvb.Pointer(i32)):
        x[0] = one(k, 1)

    @nvb.kernel("sm_90", threads=32)
    def second(k, x: nvb.Pointer(i32)):
        x[0] = two(k, 1)

    rule, message, _ = refused(nvb.compile_module, [first, second], assemble=False)
    assert rule == "module.kernels"
    assert "both define f" in message

    @nvb.kernel("sm_90", threads=32, name="f")
    def third(k, x: nvb.Pointer(i32)):
        x[0] = 1

    assert refused(nvb.compile_module, [first, third], assemble=False)[0] == "module.kernels"


def test_calls_that_are_wrong() -> None:
    assert refused(called, SHIFTED, 1.0)[0] == "function.call"
    assert refused(called, SHIFTED, 1.0, 2, 3)[0] == "function.call"
    assert refused(called, SHIFTED, 1.0, 2.5)[0] in ("value.constant", "value.type")
    assert refused(SHIFTED, 1.0, 2)[0] == "function.call"


def test_what_ptxas_refuses_is_at_the_call() -> None:
    wrong = of_text("ld.param.b32 %r1, [n]; add.f64 %r1, %r1, %r1; st.param.b32 [r], %r1;")
    function = nvb.extern_function("f", {"n": i32}, i32, ptx=wrong)
    with pytest.raises(DiagnosticError) as caught:
        called(function, 1)
    assert caught.value.diagnostics[0].location.file == __file__
