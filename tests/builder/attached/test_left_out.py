"""What was not judged of an attached function is said, and why; single instructions are judged wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from llvmlite import ir

from nvbackend import DiagnosticError
from tests.builder.attached.test_attach_judged import (
    I32,
    VOID,
    attached,
    of_a_barrier,
    of_a_call,
    of_a_generic_pointer,
    of_assembly,
    of_copied_memory,
    of_shared_memory,
    of_unknown_assembly,
    said,
)

BY_OWNER = "races, refills, reads without a wait, arrivals of mbarriers, groups of other threads, indices by thread: "
CODE = f"{BY_OWNER}the owner's own code may access shared memory or order threads"
WHO = f"{BY_OWNER}which threads come to the function is not known"
BLOCKS = "which threads come to the blocks that the owner made, and what depends on it there"
ALWAYS = "registers of a thread against the launch bounds; what a dry run of the kernel would show"


def nothing(builder: Any) -> None:
    pass


def a_block(builder: Any) -> None:
    block = builder.append_basic_block("own")
    builder.branch(block)
    builder.position_at_end(block)


def a_shared_store_as_text(builder: Any) -> None:
    kind = ir.FunctionType(VOID, [])
    builder.asm(kind, "st.shared.u32 [64], 3;", "", [], side_effect=True)


def of_its_own(builder: Any) -> None:
    """Memory on the stack of a thread, by what llvmlite knows as such."""
    place = builder.alloca(I32)
    builder.store(builder.load(place), place)


def in_space(number: int) -> Callable[[Any], None]:
    """An access of memory in the address space of LLVM with this number."""

    def body(builder: Any) -> None:
        pointer = builder.inttoptr(ir.Constant(ir.IntType(64), 64), ir.PointerType(addrspace=number))
        builder.load(pointer, typ=I32)

    return body


AFTER = "what runs after {}, along the control flow"
LEFT_OUT: dict[str, tuple[Callable[[Any], None], bool, list[str]]] = {
    "nothing": (nothing, False, [ALWAYS]),
    "who comes": (nothing, True, [WHO, ALWAYS]),
    "a block of the owner's": (a_block, False, [BLOCKS, ALWAYS]),
    "the stack": (of_its_own, False, [ALWAYS]),
    **{f"space {each}": (in_space(each), False, [ALWAYS]) for each in (1, 4, 5)},
    **{f"space {each}": (in_space(each), False, [CODE, ALWAYS]) for each in (0, 3, 7)},
    "a known barrier": (of_a_barrier, False, [ALWAYS]),
    "a known barrier as text": (of_assembly, False, [ALWAYS]),
    "a load": (of_shared_memory, False, [CODE, ALWAYS]),
    "a load, and who comes": (of_shared_memory, True, [CODE, ALWAYS]),
    "a store by a generic pointer": (of_a_generic_pointer, False, [CODE, ALWAYS]),
    "a copy": (of_copied_memory, False, [CODE, ALWAYS]),
    "a call": (of_a_call, False, [AFTER.format("a call of function callee"), CODE, ALWAYS]),
    "a store as text": (
        a_shared_store_as_text,
        False,
        ["whether the inline assembly 'st.shared.u32 [64], 3;' is PTX, before ptxas assembles it", CODE, ALWAYS],
    ),
}


@pytest.mark.parametrize("what", LEFT_OUT)
def test_what_is_left_out_and_why(what: str) -> None:
    mine, later, sentences = LEFT_OUT[what]
    k, builder, _, _ = attached(later=later)
    mine(builder)
    builder.ret_void()
    assert said(k) == []
    assert list(k.unknown) == sentences


@pytest.mark.parametrize("before", [nothing, of_unknown_assembly, of_a_call], ids=lambda one: one.__name__)
@pytest.mark.parametrize("apart", [nothing, a_block], ids=lambda one: one.__name__)
@pytest.mark.parametrize("so_far", [False, True])
def test_an_instruction_is_judged_after_what_is_unknown_too(before: Any, apart: Any, so_far: bool) -> None:
    """The target lacks it, whoever comes to it."""
    k, builder, _, _ = attached()
    before(builder)
    apart(builder)
    builder.asm(ir.FunctionType(VOID, []), "tcgen05.wait::ld.sync.aligned;", "", [], side_effect=True)
    if not so_far:
        builder.ret_void()
    with pytest.raises(DiagnosticError, match=r"tcgen05\.wait::ld") as caught:
        k.verify(partial=so_far)
    assert [one.rule_id for one in caught.value.diagnostics] == ["target.feature"]
