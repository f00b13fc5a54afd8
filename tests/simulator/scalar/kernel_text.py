"""A PTX kernel of scalar instructions: each reads its operands from its own columns and writes all its results.

Memory is words of 64 bits: (instruction, operand, lane). So the same text runs on a GPU and in the simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nvbackend.simulator.scalar import Pure, find
from tests.simulator.scalar.operands import drawn, width_of
from tests.simulator.scalar.spellings import Spelling

LANES = 128
OPERANDS = 6
RESULTS = 2
NAME = "scalars"
_HEADER = """.version {version}
.target {target}
.address_size 64
.visible .entry scalars(.param .u64 source, .param .u64 target)
{{
    .reg .b64 %in, %out, %word; .reg .b32 %lane, %flag;
    ld.param.u64 %in, [source];
    ld.param.u64 %out, [target];
    cvta.to.global.u64 %in, %in;
    cvta.to.global.u64 %out, %out;
    mov.u32 %lane, %tid.x;
    mul.wide.u32 %word, %lane, 8;
    add.s64 %in, %in, %word;
    add.s64 %out, %out, %word;
"""


def pure(spelling: Spelling) -> Pure:
    """The instruction of a spelling."""
    found = find(tuple(spelling[0].split(".")))
    assert found is not None, spelling
    return found


def kernel(spellings: Sequence[Spelling], target: str, version: str) -> str:
    """The text of one kernel."""
    body = "".join(_instruction(place, one) for place, one in enumerate(spellings))
    return _HEADER.format(target=target, version=version) + body + "    ret;\n}\n"


def _instruction(place: int, spelling: Spelling) -> str:
    opcode, destinations, sources = spelling
    kinds = pure(spelling).operands
    reads_carry, writes_carry = kinds[-1] == "cc", pure(spelling).results[-1] == "cc"
    lines = ["{"]
    names = []
    for number, source in enumerate(sources):
        offset = 8 * LANES * (place * OPERANDS + number)
        lines += _load(f"%a{number}", source.strip("{}"), offset)
        names.append(source.replace(source.strip("{}"), f"%a{number}"))
    if reads_carry:
        lines += _load("%carry", "u32", 8 * LANES * (place * OPERANDS + len(sources)))
        lines.append("add.cc.u32 %flag, %carry, -1;")
    results = [f"%d{number}" for number in range(len(destinations))]
    lines += [f".reg .{_register(kind)} {name};" for name, kind in zip(results, destinations, strict=True)]
    lines.append(f"{opcode} {'|'.join(results)}, {', '.join(names)};")
    for number, (name, kind) in enumerate(zip(results, destinations, strict=True)):
        lines += _store(name, kind, 8 * LANES * (place * RESULTS + number))
    if writes_carry:
        lines += ["addc.u32 %flag, 0, 0;", f"st.global.b32 [%out+{8 * LANES * (place * RESULTS + 1)}], %flag;"]
    return "    " + " ".join([*lines, "}"]) + "\n"


def _register(kind: str) -> str:
    return "pred" if kind == "pred" else f"b{bits_of(kind)}"


def bits_of(kind: str) -> int:
    """The bits of a type, with those of what only conversions make."""
    if kind == "tf32" or kind.endswith("x4"):
        return 16 if kind == "e2m1x4" else 32
    return width_of(kind)


def _load(name: str, kind: str, offset: int) -> list[str]:
    if kind == "pred":
        loads = f"ld.global.b32 %flag, [%in+{offset}]; setp.ne.u32 {name}, %flag, 0;"
    else:
        loads = f"ld.global.{_register(kind)} {name}, [%in+{offset}];"
    return [f".reg .{_register(kind)} {name};", loads]


def _store(name: str, kind: str, offset: int) -> list[str]:
    if kind == "pred":
        return [f"selp.b32 %flag, 1, 0, {name};", f"st.global.b32 [%out+{offset}], %flag;"]
    return [f"st.global.{_register(kind)} [%out+{offset}], {name};"]


def operands(spellings: Sequence[Spelling], seed: int) -> np.ndarray[Any, Any]:
    """Random operands for a kernel, as it reads them."""
    words = np.zeros((len(spellings), OPERANDS, LANES), np.uint64)
    for place, spelling in enumerate(spellings):
        rng = np.random.default_rng([seed, *spelling[0].encode()])
        kinds = pure(spelling).operands[: len(spelling[2]) + 1]
        for number, kind in enumerate(kinds):
            words[place, number] = drawn(kind, rng, LANES)
        _restrict(spelling[0], words[place])
    return words


def _restrict(opcode: str, words: np.ndarray[Any, Any]) -> None:
    """Keeps to operands for which PTX says what comes out."""
    if opcode.startswith("fns"):
        words[1] &= np.uint64(31)
    if opcode.startswith(("div.u", "div.s", "rem")):
        words[1] |= np.uint64(1)


def results(spellings: Sequence[Spelling]) -> np.ndarray[Any, Any]:
    """Memory for the results of a kernel."""
    return np.zeros((len(spellings), RESULTS, LANES), np.uint64)


def computed(spelling: Spelling, words: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The results of one instruction by its function alone: what should stand in memory."""
    instruction = pure(spelling)
    count = len(spelling[2]) + (instruction.operands[-1] == "cc")
    given = [
        words[number].astype(bool if kind in ("pred", "cc") else f"uint{width_of(kind)}")
        for number, kind in enumerate(instruction.operands[:count])
    ]
    found = np.zeros((RESULTS, LANES), np.uint64)
    with np.errstate(all="ignore"):
        made = instruction.call(*given)
    carries = instruction.results[-1] == "cc"
    for number, one in enumerate(made[: 2 if carries else len(spelling[1])]):
        found[number] = one
    return found
