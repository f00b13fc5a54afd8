"""What a row's semantics say that it computes, compared with what its text computes in the simulator."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from nvbackend.diagnostics import DiagnosticError
from nvbackend.intrinsics.row.row import Asm, RegisterClass, Role, Row, RowOperand

_THREADS, _TRIES = 32, 4
"""Threads of a launch, each with inputs of its own, and launches, each with numbers of its own for immediates."""
_WHOLE = RegisterClass.B16, RegisterClass.B32, RegisterClass.B64
_KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry compute(.param .u64 from, .param .u64 to) {{
.reg .b64 %at, %step;
.reg .b32 %lane;
{registers}
mov.u32 %lane, %tid.x;
mul.wide.u32 %step, %lane, 8;
ld.param.u64 %at, [from];
add.u64 %at, %at, %step;
{loads}
{{
{text}
}}
ld.param.u64 %at, [to];
add.u64 %at, %at, %step;
st.global.{type} [%at], {result};
ret;
}}
"""
_SEED = 20
Case = tuple[dict[str, int], int, object]
"""Inputs by name, what the text computes of them, and what the claim is, a number or an exception."""


def contradiction(row: Row, claim: Callable[..., int]) -> Case | None:
    """Inputs for which the text does not compute what is claimed; None if none is found, or the text cannot be run.

    Some are random, and some at the ends of their types.
    """
    inputs = [each for each in row.operands if each.role is not Role.OUTPUT]
    if not row.is_pure or not row.outputs or not _is_simple(row, inputs):
        return None
    chance = random.Random(_SEED)
    for _ in range(_TRIES):
        immediates = {each.name: chance.choice(each.numbers) for each in inputs if each.role is Role.IMMEDIATE}
        values = {each.name: _values(each, chance) for each in inputs if each.role is not Role.IMMEDIATE}
        got = _computed(row, values, immediates)
        if got is None:
            return None
        case = _first_wrong(row, claim, inputs, values, immediates, got)
        if case is not None:
            return case
    return None


def _is_simple(row: Row, inputs: Sequence[RowOperand]) -> bool:
    plain = all(each.count == 1 and each.register in _WHOLE for each in (row.outputs[0], *inputs))
    return plain and isinstance(row.lowering, Asm) and not any(each.tied for each in row.operands)


def _values(operand: RowOperand, chance: random.Random) -> list[int]:
    bits = _bits(operand)
    ends = [0, 1, 2, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1]
    picked = [chance.choice(ends) for _ in range(_THREADS // 2)]
    return [*picked, *(chance.getrandbits(chance.choice((5, bits))) for _ in range(_THREADS - len(picked)))]


def _bits(operand: RowOperand) -> int:
    return int(operand.register.llvm[1:])


def _computed(row: Row, values: Mapping[str, Sequence[int]], immediates: Mapping[str, int]) -> list[int] | None:
    """What the text computes in each thread; None where the simulator does not run it."""
    import numpy as np

    from nvbackend.simulator import Simulator

    assert isinstance(row.lowering, Asm)
    names = {each.name: f"%nvb_{each.name}" for each in row.operands if each.role is not Role.IMMEDIATE}
    shown = {name: str(number) for name, number in immediates.items()}
    loads = [
        f"ld.global.b{_bits(row.operand(name))} {names[name]}, [%at + {8 * _THREADS * place}];"
        for place, name in enumerate(values)
    ]
    result = row.outputs[0]
    text = _KERNEL.format(
        registers=" ".join(f".reg .b{_bits(row.operand(name))} {register};" for name, register in names.items()),
        loads="\n".join(loads),
        text=row.lowering.template.format(ptx=row.ptx, **names, **shown).replace("$$", "$"),
        type=f"b{_bits(result)}",
        result=names[result.name],
    )
    source = np.array([*values.values()] or [[0] * _THREADS], np.uint64)
    answers = np.zeros(_THREADS, np.uint64)
    try:
        Simulator().load(text).launch("compute", block=(_THREADS, 1, 1), args=[source, answers])
    except DiagnosticError:
        return None
    return [int(each) for each in answers]


def _first_wrong(
    row: Row,
    claim: Callable[..., int],
    inputs: Sequence[RowOperand],
    values: Mapping[str, Sequence[int]],
    immediates: dict[str, int],
    got: Sequence[int],
) -> Case | None:
    mask = (1 << _bits(row.outputs[0])) - 1
    for thread, number in enumerate(got):
        own = immediates | {name: column[thread] for name, column in values.items()}
        case = {each.name: own[each.name] for each in inputs}
        claimed = _claimed(claim, case)
        if not isinstance(claimed, int) or claimed & mask != number:
            return case, number, claimed
    return None


def _claimed(claim: Callable[..., int], case: Mapping[str, int]) -> object:
    """What a user's function gives, or raises."""
    try:
        return claim(*case.values())
    except Exception as error:  # noqa: BLE001
        return error
