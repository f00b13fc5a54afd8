"""One LLVM instruction as a closure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from nvbackend.dry_run.program.code import SELF
from nvbackend.dry_run.program.layout import constant
from nvbackend.dry_run.program.needed import SHARED_SPACES, is_assumption
from nvbackend.dry_run.values import arithmetic, floats
from nvbackend.dry_run.values.arithmetic import Operation, Registers
from nvbackend.dry_run.values.unknown import UNKNOWN, Unknown, combine
from nvbackend.intrinsics.arithmetic import integers

_TOWARDS_ZERO = {
    f"llvm.nvvm.{source}2{'' if sign == 's' else 'u'}{size}.rz": f"fpto{sign}i.sat"
    for source in "fd"
    for sign in "su"
    for size in ("i", "ll")
}
"""Conversions of a float to an integer, which saturate: by LLVM's name of each."""
_OF_ELEMENTS = (1, *SHARED_SPACES)
"""The address spaces of vectors whose elements are followed: global and shared memory."""
_CONSTANT = 4
"""That of arrays of constants."""
RegisterOf: TypeAlias = Callable[["ir.Value | int"], int]
_CASTS = ("ptrtoint", "inttoptr", "addrspacecast", "bitcast", "zext", "sext", "trunc")
_CERTAIN = {"add", "sub", "mul", "and", "or", "xor", "icmp", "getelementptr", *_CASTS}
_SHIFTS = ("shl", "lshr", "ashr")
_CONVERSIONS = ("fpext", "fptrunc", "sitofp", "uitofp", "fptosi", "fptoui")
_PURE = {*_CERTAIN, *_SHIFTS, "udiv", "urem", "sdiv", "srem", "select"}


def is_pure(one: ir.Instruction) -> bool:
    """Whether its value follows from its operands, all of which are followed: it may be computed later, or never."""
    kind = one.opname
    if not _is_followed(one.type):
        return False
    if kind == "getelementptr":
        return _is_plain(one)
    return kind in _PURE and _is_followed(one.operands[-1].type)


def is_movable(one: ir.Instruction) -> bool:
    """Whether it is as certain of all lanes of a warp as of some."""
    kind = one.opname
    return kind in _CERTAIN or (kind in _SHIFTS and isinstance(one.operands[1], ir.Constant))


def is_copy(one: ir.Instruction) -> bool:
    """Whether it keeps the bits of its operand, and that is no condition."""
    before = _bits(one.operands[0].type)
    return one.opname in _CASTS and one.opname != "sext" and 1 < before <= _bits(one.type)


def kind_of(one: ir.Instruction) -> tuple[str, str | None, int, int]:
    """What it computes of its operands, for comparisons: the last entry has the bits of its value."""
    kind = one.opname
    return kind, one.op if kind == "icmp" else None, _bits(one.operands[-1].type), _bits(one.type)


def operation_of(one: ir.Instruction, register: RegisterOf) -> Operation:
    """What `one` does to the registers."""
    if one.opname == "store":
        return _store(one, register)
    if is_assumption(one):
        return _assume(one, register)
    d = register(one)
    if one.opname == "load":
        return _load(one, d, register)
    if one.opname == "atomicrmw":
        return _fresh(d, one.type)
    return _value(one, d, register) if _is_followed(one.type) else arithmetic.unknown(d)


def _value(one: ir.Instruction, d: int, register: RegisterOf) -> Operation:
    bits, kind = _bits(one.type), one.opname
    if kind in arithmetic.BINARY:
        return arithmetic.BINARY[kind](d, register(one.operands[0]), register(one.operands[1]), bits)
    made = _MADE.get(kind)
    return _of_floats(one, kind, d, register) if made is None else made(one, d, register, bits)


def _of_floats(one: ir.Instruction, kind: str, d: int, register: RegisterOf) -> Operation:
    """Arithmetic of floats, a comparison, or a conversion, called `kind`."""
    given = [each for each in one.operands if not isinstance(each, ir.Function)]
    between = (
        [_name(given[0].type), _name(one.type)] if kind.partition(".")[0] in _CONVERSIONS else [_name(given[-1].type)]
    )
    said = " ".join([kind, *([str(one.op)] if kind == "fcmp" else ()), *between])
    function = floats.function_of(said)
    if function is None:
        return _named(one, kind, d, register)
    return arithmetic.computed(d, said, function, [register(each) for each in given])


def _named(one: ir.Instruction, name: str, d: int, register: RegisterOf) -> Operation:
    """What a function, which is called `name` and not known further, gives of floats: the same of the same."""
    if name in _TOWARDS_ZERO:
        return _of_floats(one, _TOWARDS_ZERO[name], d, register)
    given = list(one.args) if one.opname == "call" and _is_followed(one.type) else []
    if not given or any(floats.format_of(each.type) is None for each in given):
        return arithmetic.unknown(d)
    if isinstance(one.callee, ir.InlineAsm) and one.callee.side_effect:
        return arithmetic.unknown(d)
    return arithmetic.named(d, f"{name} {_name(one.type)}", [register(each) for each in given])


def _name(kind: ir.Type) -> str:
    return floats.format_of(kind) or str(kind)


def _compare(one: ir.Instruction, d: int, register: RegisterOf, bits: int) -> Operation:
    del bits
    left, right = one.operands
    if not _is_followed(left.type):
        return arithmetic.unknown(d)
    return arithmetic.compare(d, register(left), register(right), str(one.op), _bits(left.type))


def _select(one: ir.Instruction, d: int, register: RegisterOf, bits: int) -> Operation:
    del bits
    return arithmetic.select(d, *(register(each) for each in one.operands))


def _is_followed(kind: ir.Type) -> bool:
    if isinstance(kind, ir.IntType):
        return bool(kind.width <= 64)
    return isinstance(kind, ir.PointerType) or floats.format_of(kind) is not None


def _bits(kind: ir.Type) -> int:
    return int(kind.width) if isinstance(kind, ir.IntType) else floats.SIZES.get(_name(kind), 64)


def _cast(one: ir.Instruction, d: int, register: RegisterOf, bits: int) -> Operation:
    source = one.operands[0].type
    a = register(one.operands[0])
    if not _is_followed(source):
        return arithmetic.unknown(d)
    if one.opname == "sext":
        return arithmetic.sext(d, a, _bits(source), bits)
    if bits < _bits(source):
        return arithmetic.trunc(d, a, bits)
    return arithmetic.copy(d, a)


def _gep(one: ir.Instruction, d: int, register: RegisterOf, bits: int) -> Operation:
    del bits
    if not _is_plain(one):
        return arithmetic.unknown(d)
    base, index = one.operands
    a, b = register(base), register(index)
    source, mask = _bits(index.type), (1 << 64) - 1
    widen = arithmetic.sext(d, b, source, 64)

    def run(r: Registers) -> None:
        widen(r)
        r[d] = (r[a] + r[d]) & mask

    return run


def _is_plain(one: ir.Instruction) -> bool:
    """Whether a getelementptr adds bytes."""
    kind = getattr(one, "source_etype", None)
    return len(one.operands) == 2 and isinstance(kind, ir.IntType) and kind.width == 8


def _call(one: ir.CallInstr, d: int, register: RegisterOf, bits: int) -> Operation:
    if isinstance(one.callee, ir.InlineAsm):
        asm = str(one.callee.asm)
        function, said = integers.function_of(asm), asm.partition(" ")[0]
        if function is None:
            return _named(one, asm.replace(" ", "_"), d, register)
        return arithmetic.computed(d, said, function, [register(each) for each in one.args])
    name = str(getattr(one.callee, "name", ""))
    if name.startswith("llvm.") and not name.startswith("llvm.nvvm."):
        kind = name.split(".")[1]
        given = [register(each) for each in one.operands if not isinstance(each, ir.Function)]
        if kind in ("umin", "umax", "smin", "smax"):
            return arithmetic.BINARY[kind](d, given[0], given[1], bits)
        if kind in ("fshl", "fshr"):
            return arithmetic.funnel(d, given[0], given[1], given[2], bits, left=kind == "fshl")
        if floats.format_of(one.type) is not None or kind in _CONVERSIONS:
            return _of_floats(one, f"{kind}.sat" if kind in _CONVERSIONS else kind, d, register)
    return _named(one, name, d, register) if name.startswith("llvm.") else arithmetic.unknown(d)


def _fresh(d: int, kind: ir.Type) -> Operation:
    """A value that differs each time it is asked for."""
    bits = _bits(kind)

    def run(r: Registers) -> None:
        r[d] = r[SELF].fresh(bits)

    return run


def _load(one: ir.Instruction, d: int, register: RegisterOf) -> Operation:
    pointer = one.operands[0]
    a = register(pointer)
    of_elements = isinstance(one.type, ir.VectorType) and pointer.type.addrspace in _OF_ELEMENTS
    if isinstance(pointer, ir.AllocaInstr) or of_elements:
        return arithmetic.copy(d, a)
    if pointer.type.addrspace == _CONSTANT:
        return _load_constant(d, pointer, register)
    if not isinstance(one.type, ir.IntType) and floats.format_of(one.type) is None:
        return arithmetic.unknown(d)
    if isinstance(pointer, ir.GEPInstr) and isinstance(pointer.operands[0], ir.AllocaInstr):
        return _fresh(d, one.type)  # of an array of the thread's own, which other indices may have set since
    if pointer.type.addrspace in SHARED_SPACES:
        size = _bits(one.type) // 8

        def run(r: Registers) -> None:
            r[d] = r[SELF].load(r[a], size)

        return run
    return _load_global(d, a, 0, one.type)


def _load_constant(d: int, pointer: ir.Value, register: RegisterOf) -> Operation:
    """An element of an array of constants."""
    if not isinstance(pointer, ir.GEPInstr):
        return arithmetic.unknown(d)
    array, *_, index = pointer.operands
    data = getattr(getattr(array, "initializer", None), "constant", None)
    numbers = [constant(each, {}) for each in data] if isinstance(data, list) else []
    known = [one for one in numbers if one is not None]
    if not known or len(known) < len(numbers):
        return arithmetic.unknown(d)
    return arithmetic.element(d, register(index), known)


def _load_global(d: int, a: int, offset: int, kind: ir.Type) -> Operation:
    said = f"load {_name(kind)}"

    def run(r: Registers) -> None:
        address = r[a] + offset
        r[d] = combine(said, address) if isinstance(address, Unknown) else UNKNOWN

    return run


def _extract(one: ir.Instruction, d: int, register: RegisterOf, bits: int) -> Operation:
    """An element of a vector that was loaded from memory, in whose register its address is."""
    vector, place = one.operands
    if getattr(vector, "opname", "") != "load" or vector.operands[0].type.addrspace not in _OF_ELEMENTS:
        return arithmetic.unknown(d)
    a, offset, size = register(vector), int(place.constant) * bits // 8, bits // 8
    if vector.operands[0].type.addrspace not in SHARED_SPACES:
        return _load_global(d, a, offset, one.type)

    def run(r: Registers) -> None:
        address = r[a]
        r[d] = UNKNOWN if isinstance(address, Unknown) else r[SELF].load(address + offset, size)

    return run


def _assume(one: ir.CallInstr, register: RegisterOf) -> Operation:
    a = register(one.args[0])

    def run(r: Registers) -> None:
        r[SELF].assume(r[a])

    return run


def _nothing(r: Registers) -> None:
    del r


def _store(one: ir.Instruction, register: RegisterOf) -> Operation:
    value, pointer = one.operands
    a, b = register(value), register(pointer)
    if isinstance(pointer, ir.AllocaInstr):
        return arithmetic.copy(b, a)
    if pointer.type.addrspace not in SHARED_SPACES:
        return _nothing
    if isinstance(value.type, ir.VectorType):
        return _store_elements(value, b, register)
    size = _bits(value.type) // 8

    def run(r: Registers) -> None:
        r[SELF].store(r[b], r[a], size)

    return run


def _store_elements(value: ir.Value, b: int, register: RegisterOf) -> Operation:
    """Store a vector to shared memory: those of its elements that were inserted, and something new for others."""
    size = _bits(value.type.element) // 8
    places = [(index * size, None if one is None else register(one)) for index, one in enumerate(_elements(value))]

    def run(r: Registers) -> None:
        for offset, a in places:
            r[SELF].store(r[b] + offset, UNKNOWN if a is None else r[a], size)

    return run


def _elements(vector: ir.Value) -> list[ir.Value | None]:
    """The elements that were inserted into a vector, and None for others."""
    elements: list[ir.Value | None] = [None] * int(vector.type.count)
    while getattr(vector, "opname", "") == "insertelement":
        vector, inserted, index = vector.operands
        if elements[int(index.constant)] is None:
            elements[int(index.constant)] = inserted
    return elements


_MADE: dict[str, Callable[[ir.Instruction, int, RegisterOf, int], Operation]] = {
    "icmp": _compare,
    "select": _select,
    "getelementptr": _gep,
    "extractelement": _extract,
    "call": _call,
    **dict.fromkeys(_CASTS, _cast),
}
