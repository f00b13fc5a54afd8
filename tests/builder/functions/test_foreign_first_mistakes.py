"""First mistakes with functions of other compilers and attached builders: each message says what to write."""

from __future__ import annotations

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f32

TEXT = """.version 8.0
.target sm_90
.address_size 64
.visible .func moved(.param .b64 from, .param .b64 to)
{
    .reg .b64 %rd<3>;
    .reg .f32 %f<2>;
    ld.param.b64 %rd1, [from];
    ld.param.b64 %rd2, [to];
    ld.f32 %f1, [%rd1];
    st.f32 [%rd2], %f1;
    ret;
}
"""


def refusal(call):
    with pytest.raises(nvb.DiagnosticError) as caught:
        call()
    (only,) = caught.value.diagnostics
    return only


@pytest.mark.parametrize("path", ["/a/path.ptx", " path.ptx"])
def test_a_path_as_text_is_called_one(path):
    fault = refusal(lambda: nvb.extern_function("moved", {}, ptx=path))
    assert fault.rule_id == "function.foreign"
    assert "the path of a file" in fault.message
    assert fault.fix == f"pass the path as one: ptx=pathlib.Path({path.strip()!r})"


def test_the_fix_of_missing_effects_names_pointers_and_works():
    parameters = {"x": nvb.Pointer(f32, const=True), "y": nvb.Pointer(f32)}
    fault = refusal(lambda: nvb.extern_function("moved", parameters, ptx=TEXT))
    wanted = ("reads x", "reads y", "writes y")
    assert fault.fix == f"write effects={wanted!r}"
    nvb.extern_function("moved", parameters, ptx=TEXT, effects=wanted)
    for given, lacking in ((("reads x",), ("writes y",)), (("writes y",), ("reads x", "reads y"))):
        fault = refusal(lambda effects=given: nvb.extern_function("moved", parameters, ptx=TEXT, effects=effects))
        assert fault.fix == f"write effects={(*given, *lacking)!r}"


def builder():
    function = ir.Function(ir.Module("own"), ir.FunctionType(ir.VoidType(), []), "own")
    return ir.IRBuilder(function.append_basic_block())


def test_a_lowering_is_checked_also_where_a_builder_exists():
    own = builder()
    assert nvb.attach(own, "sm_90a", threads=32) is nvb.attach(own, "sm_90a", threads=32)
    fault = refusal(lambda: nvb.attach(own, "sm_90a", threads=32, lowering="foo"))
    assert fault.rule_id == "attach.lowering"
