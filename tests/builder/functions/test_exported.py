"""Device functions as PTX that others link: C's calling convention, and what is refused."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
from llvmlite import binding

import nvbackend as nvb
from nvbackend import DiagnosticError, f16, f32, i32
from nvbackend.builder.functions import in_numba
from nvbackend.builder.functions.c_abi import declaration
from nvbackend.intrinsics.row.types import BY_NAME
from nvbackend.signature import Scalar
from tests.support.linked_functions import CALLER, FUNCTIONS, scaled, sum_of_row
from tests.support.linking import compiled_cuda, linked_cubin, needs_linker
from tests.support.ptxas import assemble

HEAD = re.compile(r"^\.(?:visible|extern) \.func\s+(.*?)[;{]", re.MULTILINE | re.DOTALL)


def heads(ptx):
    """The functions that a text defines or declares, without white space."""
    return {re.sub(r"\s", "", head) for head in HEAD.findall(ptx)}


def refusal(*arguments, of, **options):
    """The one rule that compiling the function breaks, and its message."""
    with pytest.raises(DiagnosticError) as caught:
        of.compile(*arguments, **options)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.rule_id, diagnostic.message


def test_declarations_of_c() -> None:
    assert scaled.compile("sm_80").c_declaration == 'extern "C" __device__ float scaled(float x, int n);'
    assert sum_of_row.compile("sm_80").c_declaration.splitlines() == [
        "struct sum_of_row_results { float result0; int result1; };",
        'extern "C" __device__ struct sum_of_row_results sum_of_row(float *row, int count);',
    ]


IN_C = {
    **{f"s{bits}": name for bits, name in ((8, "signed char"), (16, "short"), (32, "int"), (64, "long long"))},
    **{f"u{bits}": f"unsigned {name}" for bits, name in ((8, "char"), (16, "short"), (32, "int"), (64, "long long"))},
    "f32": "float",
    "tf32": "float",
    "f64": "double",
}
"""Types that C has; all others are the unsigned integer of their bits."""


@pytest.mark.parametrize("element", [each for each in BY_NAME.values() if each is not nvb.pred], ids=str)
def test_every_type_as_c_declares_it(element: nvb.ElementType) -> None:
    """What is packed into bytes in memory is bytes there."""
    bits = "unsigned " + {1: "char", 2: "short", 4: "int", 8: "long long"}[max(element.bits // 8, 1)]
    declared = declaration("f", {"p": nvb.Pointer(element, const=True)}, None)
    wanted = bits if element.bits < 8 else IN_C.get(element.name, bits)
    assert declared == f'extern "C" __device__ void f(const {wanted} *p);'
    if element.bits >= 8:
        assert declaration("f", {"x": Scalar(element)}, (element,)) == f'extern "C" __device__ {wanted} f({wanted} x);'


def test_a_truth_value_is_a_bool_of_cuda_and_a_byte_in_memory() -> None:
    kinds = {"x": Scalar(nvb.pred), "p": nvb.Pointer(nvb.pred)}
    assert declaration("f", kinds, (nvb.pred,)) == 'extern "C" __device__ bool f(bool x, unsigned char *p);'
    several = declaration("f", {}, (nvb.pred, f32)).splitlines()
    assert several == [
        "struct f_results { bool result0; float result1; };",
        'extern "C" __device__ struct f_results f(void);',
    ]


@nvb.function
def signed_sum(k, p: nvb.Pointer[nvb.s8]) -> nvb.s8:
    return p[0] + p[1]


@nvb.function
def unsigned_sum(k, p: nvb.Pointer[nvb.u8]) -> nvb.u8:
    return p[0] + p[1]


def test_a_narrow_result_fills_its_register_as_c_has_it() -> None:
    for function, extends in ((signed_sum, "cvt.s32.s8"), (unsigned_sum, "and.b32")):
        instruction = next(line for line in function.compile("sm_80").ptx.split("\n")[::-1] if "%r2," in line)
        assert extends in instruction
        assert extends != "and.b32" or instruction.endswith(" 255;")


def test_keywords_of_c_as_parameters() -> None:
    @nvb.function
    def blend(k, new: f32, double: f32, xor: f32, new_: f32) -> f32:
        return new + double + xor + new_

    wanted = "float blend(float new_, float double_, float xor_, float new__);"
    compiled = blend.compile("sm_80")
    assert compiled.c_declaration == f'extern "C" __device__ {wanted}'
    assert wanted in compiled.c_header()
    for name in ("nullptr", "NULL", "WARP_SZ", "threadIdx", "memcpy"):
        assert refusal("sm_80", of=blend, name=name)[0] == "function.declaration"


@pytest.mark.parametrize(
    "name",
    [
        "rsqrtf",
        "exp",
        "norm",
        "fmaf",
        "sinpif",
        "j0",
        "jnf",
        "tgamma",
        "fabsf",
        "abs",
        "ullmin",
        "isfinite",
        "clock64",
        "printf",
        "main",
        "atomicAdd",
        "atomicCAS_block",
        "make_float4",
        "make_double4_16a",
        "tex2D",
        "tex2DLayeredLod",
        "surfCubemapread",
        "syncthreads_or",
        "__expf",
        "__shfl_sync",
    ],
)
def test_a_name_that_cuda_declares_is_refused(name) -> None:
    """nvcc 13 calls its own rsqrtf without a word, and refuses a second exp (CUDA Math API Reference)."""
    assert refusal("sm_80", of=scaled, name=name)[0] == "function.declaration"


@pytest.mark.parametrize(
    "name", ["saxpy", "norm_of_rows", "expert", "tanhf_fast", "texture", "made_float", "atomic_add", "maximum", "_f"]
)
def test_a_name_like_one_of_cuda_is_taken(name) -> None:
    assert scaled.compile("sm_80", name=name).name == name


def test_its_representation_has_none_of_the_texts() -> None:
    compiled = scaled.compile("sm_80")
    shown = repr(compiled)
    assert "scaled" in shown
    for text in (compiled.ptx, compiled.ir, str(compiled.machine)):
        assert len(text) > 100
        assert text not in shown
        assert repr(text) not in shown


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_ptxas_accepts_each(function) -> None:
    for target in ("sm_80", "sm_120"):
        done, said = assemble(function.compile(target).ptx, target)
        assert done, said


def test_nvrtc_declares_the_same_parameters() -> None:
    needs_linker()
    functions = [function.compile("sm_90") for function in FUNCTIONS]
    ptx = compiled_cuda("".join(each.c_header() for each in functions) + CALLER, "sm_90")
    ours = set().union(*(heads(each.ptx) for each in functions))
    assert len(ours) == len(FUNCTIONS)
    assert heads(ptx) == ours
    assert linked_cubin("sm_90", [ptx, *(each.ptx for each in functions)]).startswith(b"\x7fELF")


def test_the_shape_of_the_callers_cta() -> None:
    @nvb.function
    def numbered(k) -> i32:
        return k.thread_id("linear")

    rule, message = refusal("sm_90a", of=numbered)
    assert rule == "function.threads"
    assert "depends on the threads of its callers" in message
    assert "%tid.y" in numbered.compile("sm_90a", threads=(32, 8)).ptx
    assert "%tid.y" not in numbered.compile("sm_90a", threads=256).ptx


def test_what_only_a_kernel_can_have_is_refused() -> None:
    @nvb.function
    def tiled(k, x: f32) -> f32:
        tile = k.shared(f32, 32)
        tile[0] = x
        return tile[0]

    @nvb.function
    def mapped(k, x: nvb.TensorMap(f16, box=(64, 64))):
        pass

    assert refusal("sm_90a", of=tiled)[0] == "function.instruction"
    assert refusal("sm_90a", of=mapped)[0] == "function.declaration"


@pytest.mark.parametrize("name", ["double", "a$b", "printf", "vprintf"])
def test_names_that_c_cannot_declare(name) -> None:
    rule, message = refusal("sm_80", of=scaled, name=name)
    assert rule == "function.declaration"
    assert repr(name) in message
    assert ".visible .func  (.param .b32 func_retval0) other(" in scaled.compile("sm_80", name="other").ptx


def test_constants_of_the_build() -> None:
    @nvb.function
    def clamped(k, x: f32, *, limit: float) -> f32:
        return k.math.min(x, limit)

    assert refusal("sm_80", of=clamped)[1].endswith("it lacks the constant 'limit'")
    assert refusal("sm_80", of=clamped, limits=3.0)[1].endswith("it has no constant 'limits': is 'limit' meant?")
    assert clamped.compile("sm_80", limit=6.0).ptx == clamped.compile("sm_80", constants={"limit": 6.0}).ptx


def test_a_divergent_barrier_in_the_function_is_refused() -> None:
    @nvb.function
    def halted(k, x: i32):
        with k.if_(k.thread_id() < 5):
            k.warp.sync()

    assert refusal("sm_80", of=halted, threads=32)[0].startswith("convergence.")


def test_functions_that_it_calls_stay_inside() -> None:
    @nvb.function(inline=False)
    def halved(k, x: f32) -> f32:
        return x * 0.5

    @nvb.function
    def quartered(k, x: f32) -> f32:
        return halved(k, halved(k, x))

    ptx = quartered.compile("sm_80").ptx
    assert ptx.count(".visible") == 1
    assert len(re.findall(r"call\b", ptx)) == 2
    assert assemble(ptx, "sm_80")[0]


def test_the_math_policy_is_that_of_the_function() -> None:
    @nvb.function
    def product(k, x: f32) -> f32:
        return x * x

    assert "mul.rn.ftz.f32" in product.compile("sm_80", math=nvb.MathPolicy(ftz=True)).ptx
    assert "ftz" not in product.compile("sm_80").ptx


def test_debugging_and_the_policy_reach_what_it_calls() -> None:
    @nvb.function(inline=False)
    def tripled(k, x: f32) -> f32:
        k.breakpoint()
        return x * 3.0

    @nvb.function
    def outer(k, x: f32) -> f32:
        k.breakpoint()
        return tripled(k, x * 2.5)

    def counts(**options):
        ptx = outer.compile("sm_80", **options).ptx
        return ptx.count("brkpt;"), ptx.count("mul.rn.f32"), ptx.count("mul.rn.ftz.f32")

    assert counts() == (2, 2, 0)
    assert counts(debug=False) == (0, 2, 0)
    assert counts(math=nvb.MathPolicy(ftz=True)) == (2, 0, 2)


@pytest.mark.parametrize("threads", [32, 256, (16, 8)])
def test_the_body_knows_the_threads_of_its_callers(threads) -> None:
    @nvb.function
    def checked(k, x: i32, *, bound: int) -> i32:
        k.static_assert(k.thread_id("linear") < bound)
        return x

    @nvb.function
    def met(k, x: i32, *, bound: int) -> i32:
        with k.if_(k.thread_id("linear") < bound):
            k.barrier.sync()
        return x

    count = math.prod(threads) if isinstance(threads, tuple) else threads
    for function, rule in ((checked, "static-assert.unknown"), (met, ".divergent")):
        assert function.compile("sm_90a", threads=threads, bound=count).ptx
        assert rule in refusal("sm_90a", of=function, threads=threads, bound=count - 1)[0]


def takes_a_float(k, x: f32):
    pass


def takes_a_multiple(k, x: i32(multiple_of=4)):
    pass


def takes_a_half(k, x: f16):
    pass


def takes_an_address(k, x: nvb.Pointer[f32]):
    pass


@pytest.mark.parametrize(
    ("body", "threads", "unknown", "described"),
    [
        (takes_a_float, None, (), None),
        (takes_a_float, 64, ("64 threads",), None),
        (takes_a_half, None, (), "x: f16"),
        (takes_a_multiple, None, ("asserted values",), "x: s32, a multiple of 4"),
        (takes_an_address, (8, 8), ("(8, 8) threads", "pointers point to"), "x: address of global memory, f32"),
    ],
)
def test_only_what_matters_to_a_caller_is_said_of_it(body, threads, unknown, described) -> None:
    compiled = nvb.function(body).compile("sm_80", threads=threads)
    _, _, *rest = compiled.unknown  # which threads call it, and what of theirs is pending: always
    assert len(rest) == len(unknown)
    assert all(words in line for words, line in zip(unknown, rest, strict=True))
    notes = [line.strip() for line in compiled.c_header().splitlines() if line.strip().startswith("x: ")]
    assert [note.startswith(described or "-") for note in notes] == [True] * (described is not None)


@pytest.mark.parametrize("body", [takes_a_float, takes_a_half, takes_a_multiple, takes_an_address])
def test_notes_of_a_header_are_one_comment_before_the_declaration(body) -> None:
    """What is left without comments is what a compiler of C reads."""
    compiled = nvb.function(body).compile("sm_80", threads=64)
    header, guard = compiled.c_header(), f"NVBACKEND_{compiled.name.upper()}_H"
    read = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL).split("\n")
    assert read == ["", f"#ifndef {guard}", f"#define {guard}", compiled.c_declaration, "#endif", ""]
    assert all(f"\n   Not known when it was checked: {each}." in header for each in compiled.unknown)


def test_a_warning_of_the_function_is_announced() -> None:
    @nvb.function
    def halved(k, x: i32) -> i32:
        with k.allow("shared.missing-barrier", reason="nothing here needs it"):
            return x // 2

    with pytest.warns(nvb.DiagnosticWarning) as announced:
        compiled = halved.compile("sm_80")
    assert [str(each.message) for each in announced] == [str(each) for each in compiled.diagnostics]
    assert len(compiled.diagnostics) == 1


def test_what_is_not_known_of_callers_is_said() -> None:
    unknown = sum_of_row.compile("sm_80", threads=64).unknown
    assert any("64 threads" in each for each in unknown)
    assert any("pointers" in each for each in unknown)
    assert all(each in sum_of_row.compile("sm_80", threads=64).c_header() for each in unknown)


CALLER_IN_PTX = """
.visible .entry caller(.param .u64 x, .param .u64 out)
{
    .reg .b64 %d<4>; .reg .b32 %r<6>;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [out];
    {
    .param .b64 row; .param .b32 count; .param .align 4 .b8 both[8];
    st.param.b64 [row], %d1;
    st.param.b32 [count], 9;
    call.uni (both), sum_of_row, (row, count);
    ld.param.b32 %r1, [both];
    ld.param.b32 %r2, [both+4];
    }
    {
    .param .b32 factor; .param .b32 times; .param .b32 product;
    st.param.b32 [factor], %r1;
    st.param.b32 [times], %r2;
    call.uni (product), scaled, (factor, times);
    ld.param.b32 %r3, [product];
    }
    cvta.to.global.u64 %d3, %d2;
    st.global.b32 [%d3], %r3;
    ret;
}
"""


def test_a_caller_gets_its_numbers() -> None:
    head, _, first = sum_of_row.compile("sm_80").ptx.partition(".address_size 64")
    second = scaled.compile("sm_80").ptx.partition(".address_size 64")[2]
    texts = [text.partition("\t.section")[0] for text in (first, second)]
    plain = [re.sub(r"^\s*\.loc.*$", "", text, flags=re.MULTILINE) for text in texts]
    renamed = plain[1].replace("$L__", "$M__")
    whole = f"{head}.address_size 64\n{plain[0]}{renamed}{CALLER_IN_PTX}"
    x, out = np.arange(-3, 6, dtype=np.float32), np.zeros(1, np.float32)
    nvb.simulator.Simulator().load(whole).launch("caller", block=(32, 1, 1), args=[x, out])
    assert out[0] == x.sum() * (x > 0).sum()


def test_numba_types_and_declares_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # numba-cuda 0.30 imports a name that newer releases of NumPy no longer have.
    monkeypatch.setattr(np, "row_stack", np.vstack, raising=False)
    if not hasattr(pytest.importorskip("numba.cuda.types"), "CPointer"):
        pytest.skip("needs the package numba-cuda")
    needs_linker()
    from numba import cuda
    from numba.core.errors import TypingError
    from numba.cuda import types

    sums, times = sum_of_row.compile("sm_90").numba(), scaled.compile("sm_90").numba()

    def kernel(x, out):
        total, positive = sums(x, 5)
        out[0] = times(total, positive)

    array = types.Array(types.float32, 1, "C")
    ptx, _ = cuda.compile(kernel, (array, array), cc=(9, 0), abi="c")
    for function in (sum_of_row, scaled):
        assert heads(function.compile("sm_90").ptx) <= heads(ptx)
    with pytest.raises(
        TypingError, match=r"function.numba.*row is a pointer to f32, and the call passes array.float64"
    ):
        cuda.compile(kernel, (types.Array(types.float64, 1, "C"), array), cc=(9, 0), abi="c")


def test_numba_has_no_such_type() -> None:
    @nvb.function
    def doubled(k, x: f16) -> f16:
        return x + x

    with pytest.raises(DiagnosticError, match=r"function.numba.*is f16"):
        doubled.compile("sm_90").numba()


@pytest.mark.parametrize("one", [scaled, sum_of_row], ids=lambda one: one.__name__)
def test_llvm_may_not_move_it_to_where_fewer_threads_are(one) -> None:
    """Who links it as LTO-IR has it inlined, with whatever barriers it has or gets."""
    compiled = one.compile("sm_80")
    function = binding.parse_assembly(compiled.ir).get_function(compiled.name)
    assert b"convergent" in b" ".join(function.attributes).split()


def test_another_numba_is_no_numba_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_numba, "_numba", lambda: (SimpleNamespace(), SimpleNamespace(Array=object)))
    with pytest.raises(DiagnosticError, match=r"function.numba.*not that of the package numba-cuda") as caught:
        sum_of_row.compile("sm_90").numba()
    assert caught.value.diagnostics[0].fix == "install it: pip install 'numba-cuda>=0.30'"
