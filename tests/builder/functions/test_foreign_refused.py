"""Texts of other compilers that a kernel cannot take: what is wrong with each, and what to write."""

from __future__ import annotations

import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import f32, f64, i32

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def refused(text: str, parameters: dict[str, object], **options: object) -> tuple[str, str | None]:
    with pytest.raises(nvb.DiagnosticError) as caught:
        nvb.extern_function("mine", parameters, ptx=HEAD + text, **options)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "function.foreign"
    return found.message, found.fix


def function(body: str, parameters: str = "", before: str = "") -> str:
    registers = ".reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .f32 %f<3>;"
    return f"{before}\n.visible .func mine({parameters})\n{{\n{registers}\n{body}\nret;\n}}\n"


@pytest.mark.parametrize("name", ["result", "result0", "a b", "1st", "größe", ""])
def test_a_parameter_has_a_name_of_c(name: str) -> None:
    message, fix = refused(function("", ".param .b32 x"), {name: i32})
    assert f"{name!r} is not a name of a parameter" in message
    assert fix == "use letters, digits and _, but neither result nor result0"


def test_a_parameter_of_the_text_is_no_register() -> None:
    message, fix = refused(function("", ".reg .b32 x"), {"x": i32})
    assert "its parameter x is declared s32, and its text has .reg .b32 x" in message
    assert fix == "declare the type that the source of the function has"


@pytest.mark.parametrize(
    ("text", "problem", "fix"),
    [
        (
            function("mov.u64 %rd1, outside;", before=".extern .global .b32 outside;"),
            "it uses outside, which the text declares without a value",
            "pass the address as an argument, or define the variable in the text",
        ),
        (
            function("mov.u64 %rd1, other;", before=".func other()\n{\nret;\n}"),
            "it takes the address of other",
            "call the function by its name in the source",
        ),
        (
            function("call.uni vprintf;", before=".func vprintf()\n{\nret;\n}"),
            "vprintf is the name of a function of CUDA or LLVM",
            "give it another name in its source",
        ),
        (
            function("mov.b32 %r1, 0; ld.shared.f32 %f1, [%r1];"),
            "it has ld.shared.f32, and no parameter points to shared memory",
            'declare the parameter that points there: nvb.Pointer(nvb.f32, space="shared")',
        ),
        (
            function("call.uni other;", before=".func other()\n{\ncall.uni mine;\nret;\n}\n.visible .func mine();"),
            "it calls itself: mine -> other -> mine",
            "write the recursion as a loop",
        ),
    ],
)
def test_what_a_text_has_that_no_kernel_can_take(text: str, problem: str, fix: str) -> None:
    message, advice = refused(text, {})
    assert problem in message
    assert advice == fix


@pytest.mark.parametrize(
    ("held", "declared", "said"),
    [
        (".param .b64 x", i32, "s32"),
        (".param .b32 x", f64, "f64"),
        (".param .b8 x[]", i32, "s32"),
        (".param .b8 x[5]", i32, "s32"),
        (".param .b32 x[2]", i32, "s32"),
        (".param .b32 x", nvb.Pointer(f32, const=True), "a pointer to f32"),
    ],
)
def test_a_parameter_of_the_text_holds_what_is_declared(held: str, declared: object, said: str) -> None:
    """PTX ISA 5.1.6.4: a parameter of a function has a size, that of its type, or of all elements of an array."""
    message, _ = refused(function("", held), {"x": declared})
    assert message == f"foreign function mine: its parameter x is declared {said}, and its text has {held}"


@pytest.mark.parametrize(
    ("space", "count"),
    [("shared", 0), ("shared", 8.0), ("shared", True), ("global", 8), ("generic", 8)],
)
def test_extents_are_bytes_of_shared_memory(space: str, count: object) -> None:
    """C passes every pointer alike: only what is declared says in which space these bytes are."""

    def parameters(space: str) -> dict[str, object]:
        return {"row": nvb.Pointer(f32, space=space, align=4)}

    text, effects = function("", ".param .b64 row"), ("reads row", "writes row")
    taken = nvb.extern_function("mine", parameters("shared"), ptx=HEAD + text, effects=effects, extents={"row": 1})
    assert taken.name == "mine"
    message, fix = refused(text, parameters(space), effects=effects, extents={"row": count})
    assert f"extents has 'row': {count}" in message
    assert fix == "give the bytes of pointers to shared memory by their names"


def test_a_compiler_of_its_own_links_its_module_itself() -> None:
    module = ir.Module("theirs")
    theirs = ir.Function(module, ir.FunctionType(ir.VoidType(), []), "theirs")
    k = nvb.attach(ir.IRBuilder(theirs.append_basic_block("entry")), "sm_90", threads=32)
    mine = nvb.extern_function("mine", {"x": i32}, ptx=HEAD + function("", ".param .b32 x"))
    with pytest.raises(nvb.DiagnosticError) as caught:
        mine(k, 1)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "function.call"
    assert "mine" in found.message
    assert "theirs is attached to a compiler of its own, which links its module itself" in found.message
    assert found.fix == "link the text there, and call it by that compiler"
