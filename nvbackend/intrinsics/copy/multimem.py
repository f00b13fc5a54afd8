"""multimem rows: one address for the same place in the memory of several GPUs. PTX ISA 9.7.9 (multimem).

`multimem.ld_reduce` combines what all of them hold, `multimem.st` writes to all, `multimem.red` combines a value into
all. The address is one of a multicast object (cuMulticastCreate), which takes GPUs joined by NVLink; any other address
is undefined. By asm: LLVM has no intrinsic for them. Operand names: `address`; `values` of the vector, one register an
element, four 8-bit elements in one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Asm,
    Effect,
    PtxVersion,
    RegisterClass,
    Row,
    RowOperand,
    chosen,
    operand,
    output,
    spelled,
)
from nvbackend.intrinsics.row.semantics import Scope, Semantics, reads, writes
from nvbackend.intrinsics.row.types import ElementType, s32, s64

FAMILY = "multimem"
SCOPES = ("cta", "cluster", "gpu", "sys")
SPACES: dict[str | None, RegisterClass] = {"global": RegisterClass.GLOBAL, None: RegisterClass.GENERIC}
"""State space of the address; None is a generic address, which must be one of global memory all the same."""

Order = tuple[str, ...]
"""Memory order as spelled: nothing, ("weak",), or semantics and scope, such as ("acquire", "sys")."""


def _orders(semantics: tuple[str, ...], *, weak: bool) -> tuple[Order, ...]:
    both = tuple((semantic, scope) for semantic in semantics for scope in SCOPES)
    return ((), ("weak",), *both) if weak else ((), *both)


LOAD_ORDERS = _orders(("relaxed", "acquire"), weak=True)
"""Orders of a load; none spelled is weak."""
STORE_ORDERS = _orders(("relaxed", "release"), weak=True)
"""Orders of a store; none spelled is weak."""
REDUCE_ORDERS = _orders(("relaxed", "release"), weak=False)
"""Orders of a reduction; none spelled is relaxed at system scope."""


@dataclass(frozen=True, slots=True)
class Element:
    """A type of the values: the register of one, its bits, the vectors there are of it (1: no vector qualifier).

    `loaded`, `reduced` are the operations; `accumulator` the wider type in which an addition of a load can be done.
    """

    register: RegisterClass
    bits: int
    vectors: tuple[int, ...] = (1,)
    loaded: tuple[str, ...] = ()
    reduced: tuple[str, ...] = ()
    accumulator: str | None = None
    requires: Feature = Feature.NONE
    ptx_version: PtxVersion = (8, 1)
    held: ElementType | None = None
    """The type of a value in the register, where not the register's own."""

    @property
    def is_byte(self) -> bool:
        """Whether PTX wants registers of 8 bits for it, which inline asm does not have."""
        return self.bits == 8


_ORDER = ("min", "max")
_ARITHMETIC = ("add", *_ORDER)
_BITWISE = ("and", "or", "xor")


def _integer(register: RegisterClass, operations: tuple[str, ...], held: ElementType | None = None) -> Element:
    bits = 32 if register is RegisterClass.B32 else 64
    return Element(register, bits, (1,), operations, operations, held=held)


def _half(register: RegisterClass, vectors: tuple[int, ...]) -> Element:
    bits = 16 if register is RegisterClass.B16 else 32
    return Element(register, bits, vectors, _ARITHMETIC, ("add",), "f32")


def _quarter(register: RegisterClass, bits: int, vectors: tuple[int, ...]) -> Element:
    return Element(register, bits, vectors, _ARITHMETIC, (), "f16", Feature.SM_100 | Feature.MULTIMEM_FP8, (8, 6))


ELEMENTS: dict[str, Element] = {
    "b32": _integer(RegisterClass.B32, _BITWISE),
    "b64": _integer(RegisterClass.B64, _BITWISE),
    "u32": _integer(RegisterClass.B32, _ARITHMETIC),
    "u64": _integer(RegisterClass.B64, _ARITHMETIC),
    "s32": _integer(RegisterClass.B32, _ARITHMETIC, s32),
    "s64": _integer(RegisterClass.B64, _ORDER, s64),
    "f32": Element(RegisterClass.F32, 32, (1, 2, 4), ("add",), ("add",)),
    "f64": Element(RegisterClass.F64, 64, (1,), ("add",), ("add",)),
    **{half: _half(RegisterClass.B16, (2, 4, 8)) for half in ("f16", "bf16")},
    **{pair: _half(RegisterClass.B32, (1, 2, 4)) for pair in ("f16x2", "bf16x2")},
    **{byte: _quarter(RegisterClass.B32, 8, (4, 8)) for byte in ("e5m2", "e4m3")},
    **{pair: _quarter(RegisterClass.B16, 16, (2, 4, 8)) for pair in ("e5m2x2", "e4m3x2")},
    **{four: _quarter(RegisterClass.B32, 32, (1, 2, 4)) for four in ("e5m2x4", "e4m3x4")},
}
"""The types, with what ptxas 13.5 and the PTX ISA agree on. The bits of a vector are 32, 64 or 128."""

_ACCUMULATED_PTX: PtxVersion = (8, 2)
_BYTES_A_WORD = 4


def _found(element: str, vector: int) -> Element:
    form = ELEMENTS[chosen("element", element, ELEMENTS)]
    chosen("vector", vector, form.vectors)
    return form


def _registers(form: Element, vector: int) -> int:
    return vector // _BYTES_A_WORD if form.is_byte else vector


def _address(space: str | None) -> RowOperand:
    register = SPACES[chosen("space", space, SPACES)]
    return operand("address", register, meaning="an address of a multicast object, aligned to the vector")


def _asm(form: Element, vector: int, *, loads: bool) -> Asm:
    if form.is_byte:
        return _asm_of_bytes(vector, loads=loads)
    values = "{{{values}}}" if vector > 1 else "{values}"
    return Asm("{ptx} " + (f"{values}, [{{address}}];" if loads else f"[{{address}}], {values};"))


def _asm_of_bytes(vector: int, *, loads: bool) -> Asm:
    """The statement in a block of its own, with registers of 8 bits that are packed into words, or come out of them."""
    names = [f"byte{index}" for index in range(vector)]
    groups = [names[start : start + _BYTES_A_WORD] for start in range(0, vector, _BYTES_A_WORD)]
    words = [f"word{index}" for index in range(len(groups))]
    pairs = [(word, _braced(group)) for word, group in zip(words, groups, strict=True)]
    whole, wide = ("{values}", "b32") if len(words) == 1 else ("{{{values}}}", "b64")
    inner = words[0] if len(words) == 1 else _braced(words)
    if loads:
        steps = [f"{{ptx}} {_braced(names)}, [{{address}}];", *(f"mov.b32 {word}, {group};" for word, group in pairs)]
        steps += [f"mov.{wide} whole, {inner};", f"mov.{wide} {whole}, whole;"]
    else:
        steps = [f"mov.{wide} whole, {whole};", f"mov.{wide} {inner}, whole;"]
        steps += [*(f"mov.b32 {group}, {word};" for word, group in pairs), f"{{ptx}} [{{address}}], {_braced(names)};"]
    declared = f".reg .b8 {', '.join(names)}; .reg .b32 {', '.join(words)}; .reg .{wide} whole;"
    return Asm("{{ " + " ".join((declared, *steps)) + " }}")


def _braced(names: list[str]) -> str:
    return "{{" + ", ".join(names) + "}}"


def _row(
    opcode: str, ptx: str, operands: tuple[RowOperand, ...], element: str, vector: int, order: Order, **axes: object
) -> Row:
    form = ELEMENTS[element]
    strong = order[:1] in (("acquire",), ("release",))
    return Row(
        family=FAMILY,
        opcode=opcode,
        ptx=ptx,
        operands=operands,
        lowering=_asm(form, vector, loads=opcode == _LOAD),
        requires=Feature.SM_90 | form.requires,
        ptx_version=max(form.ptx_version, _ACCUMULATED_PTX) if axes.get("accumulator") else form.ptx_version,
        effects=(Effect.WRITES_MEMORY if opcode != _LOAD else Effect.NONE)
        | (Effect.READS_MEMORY if opcode != _STORE else Effect.NONE)
        | (Effect.ORDERS if strong else Effect.NONE),
        semantics=_SEMANTICS[opcode],
        section="9.7.9 (multimem)",
        summary=_SUMMARIES[opcode],
        axes={"element": element, "vector": vector, "order": order, **axes},
    )


_LOAD, _STORE, _REDUCE = "multimem.ld_reduce", "multimem.st", "multimem.red"
_SEMANTICS = {
    _LOAD: Semantics(acquires=Scope.GRID, memory=(reads("address"),)),
    _STORE: Semantics(releases=Scope.GRID, memory=(writes("address"),)),
    _REDUCE: Semantics(releases=Scope.GRID, memory=(writes("address"), reads("address"))),
}
_SUMMARIES = {
    _LOAD: "Combines what every GPU of a multicast object holds at an address.",
    _STORE: "Writes to an address in the memory of every GPU of a multicast object.",
    _REDUCE: "Combines a value into the memory of every GPU of a multicast object.",
}


def _spelled_vector(vector: int) -> str | None:
    return f"v{vector}" if vector > 1 else None


@cache
def load_reduce(
    operation: str,
    element: str,
    vector: int = 1,
    *,
    accumulator: str | None = None,
    order: Order = (),
    space: str | None = "global",
) -> Row:
    """multimem.ld_reduce: `operation` over what all GPUs hold at `address`, for each of `vector` elements.

    An addition of a narrow type can be done in its wider `accumulator`. `order` is one of LOAD_ORDERS. Raises NoSuchRow
    for axes that no instruction has.
    """
    form = _found(element, vector)
    chosen("operation", operation, form.loaded)
    chosen("accumulator", accumulator, (None, form.accumulator) if operation == "add" else (None,))
    chosen("order", order, LOAD_ORDERS)
    address = _address(space)
    wide = f"acc::{accumulator}" if accumulator else None
    return _row(
        _LOAD,
        spelled(_LOAD, *order, space, operation, wide, _spelled_vector(vector), element),
        (output("values", form.register, _registers(form, vector), element=form.held), address),
        element,
        vector,
        order,
        operation=operation,
        accumulator=accumulator,
        space=space,
    )


@cache
def store(element: str, vector: int = 1, *, order: Order = (), space: str | None = "global") -> Row:
    """multimem.st: write `values` to `address` in every GPU's memory; `order` is one of STORE_ORDERS."""
    form = _found(element, vector)
    chosen("order", order, STORE_ORDERS)
    return _row(
        _STORE,
        spelled(_STORE, *order, space, _spelled_vector(vector), element),
        (_address(space), operand("values", form.register, _registers(form, vector), element=form.held)),
        element,
        vector,
        order,
        space=space,
    )


@cache
def reduce(operation: str, element: str, vector: int = 1, *, order: Order = (), space: str | None = "global") -> Row:
    """multimem.red: combine `values` into `address` in every GPU's memory; `order` is one of REDUCE_ORDERS."""
    form = _found(element, vector)
    chosen("operation", operation, form.reduced)
    chosen("order", order, REDUCE_ORDERS)
    return _row(
        _REDUCE,
        spelled(_REDUCE, *order, space, operation, _spelled_vector(vector), element),
        (_address(space), operand("values", form.register, _registers(form, vector), element=form.held)),
        element,
        vector,
        order,
        operation=operation,
        space=space,
    )


def _forms() -> Iterator[tuple[str, Element, int, str | None]]:
    """Every element in every vector, in each space."""
    for element, form in ELEMENTS.items():
        for vector in form.vectors:
            yield from ((element, form, vector, space) for space in SPACES)


def rows() -> Iterator[Row]:
    """Every multimem row."""
    for element, form, vector, space in _forms():
        yield from (store(element, vector, order=order, space=space) for order in STORE_ORDERS)
        for operation in form.reduced:
            yield from (reduce(operation, element, vector, order=order, space=space) for order in REDUCE_ORDERS)
        for operation in form.loaded:
            for accumulator in sorted({"", form.accumulator or ""}) if operation == "add" else ("",):
                for order in LOAD_ORDERS:
                    wide = accumulator or None
                    yield load_reduce(operation, element, vector, accumulator=wide, order=order, space=space)
