"""Loads and stores of consecutive elements: LLVM's own, and rows of ld and st for memory orders and cache hints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import NoReturn, Protocol

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.lower.conversions import llvm_type
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import CLUSTER_SPACE, GLOBAL_SPACE, Arithmetic, Operand, Value, as_value
from nvbackend.diagnostics import Rule
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy import load_store
from nvbackend.intrinsics.copy.load_store import LOAD, STORE, VOLATILE, WEAK, Caching
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType, u64
from nvbackend.isel.machine.function import MemoryUse
from nvbackend.isel.machine.pseudo import LOAD_SHARED, STORE_SHARED
from nvbackend.isel.operands.memory import check_policy, check_policy_type
from nvbackend.isel.target.target import Target


class Accessed(Protocol):
    """What an access needs of an address."""

    element: ElementType
    space: int
    align: int
    const: bool

    @property
    def bytes(self) -> Value:
        """The address as a number."""

    def pointer(self) -> ir.Value:
        """The address as an llvmlite pointer."""

    def _how_to_align(self, wanted: int) -> str:
        """The fix of a diagnostic."""

    def _record(self, opcode: str, uses: Sequence[MemoryUse], size: int, pointer: ir.Value) -> None: ...

    def _facts(self) -> dict[str, int]: ...


ORDER = Rule(
    id="memory.order",
    message="a {kind} with order={order!r} and scope={scope!r}: {problem}",
    fix="{advice}",
    why=("ptxas refuses the instruction, or the access would be ordered with other accesses than intended."),
    reference="PTX ISA 8.5 (operation types), 8.6 (scope), 9.7.9 (ld, st)",
)
CACHING = Rule(
    id="memory.caching",
    message="no {kind} has these hints: {problem}",
    fix="{advice}",
    why="ptxas refuses such an instruction.",
    reference="PTX ISA 9.7.9.1 (cache operators), 9.7.9.2 (eviction priority hints), 9.7.9 (ld, ld.global.nc, st)",
)
CONSTANT = Rule(
    id="memory.constant",
    message="{what} memory of a pointer that is declared const",
    fix="{advice}",
    why="Loads through it are from the non-coherent cache, which no write updates: they may give old values.",
    reference="PTX ISA 9.7.9 (ld.global.nc)",
)
_KINDS = {LOAD: "load", STORE: "store"}
_SIZES = (1, 2, 4, 8, 16)
_BYTE, _HALF, _WORD = (ir.IntType(bits) for bits in (8, 16, 32))


@dataclass(frozen=True, slots=True)
class How:
    """What a call says of an access besides place and count: all of it as the caller wrote it."""

    order: str = WEAK
    scope: str | None = None
    cache: str | None = None
    evict: str | Sequence[str] = ()
    prefetch: int | None = None
    cache_policy: Operand | None = field(default=None, compare=False)
    """Values are not compared: `==` of two is an instruction."""

    @property
    def is_plain(self) -> bool:
        """Whether it says nothing."""
        return self.cache_policy is None and self == PLAIN


PLAIN = How()


def widest(target: Target, space: int) -> int:
    """The most bytes of one access."""
    wide = space == GLOBAL_SPACE and target.has(load_store.WIDE_FEATURE) and target.ptx_version >= load_store.WIDE_PTX
    return load_store.WIDE_BYTES if wide else _SIZES[-1]


def load(k: Core, address: Accessed, count: int, how: How) -> list[Value]:
    """See `Address.load`."""
    kind, size = kind_of(k, address, count)
    caching = checked(LOAD, address, size, how)
    if how.order != WEAK or caching != load_store.PLAIN:
        return _load_by_row(k, address, count, how, caching)
    pointer = address.pointer()
    loaded = k.llvm.load(pointer, typ=kind, align=size)
    if address.const:
        loaded.set_metadata("invariant.load", k.llvm.module.add_metadata([]))
    address._record(LOAD_SHARED, (MemoryUse.READ,), size, pointer)
    if count == 1:
        return [k.wrap(loaded, address.element)]
    return [k.wrap(part, address.element) for part in _parts(k, loaded, count)]


def store(k: Core, address: Accessed, values: Sequence[Operand], how: How) -> None:
    """See `Address.store`."""
    kind, size = kind_of(k, address, len(values))
    check_writable(address, "a store to")
    caching = checked(STORE, address, size, how)
    registers = [as_value(k, value, address.element).ir for value in values]
    if how.order != WEAK or caching != load_store.PLAIN:
        _store_by_row(k, address, registers, how, caching)
        return
    pointer = address.pointer()
    k.llvm.store(_together(k, registers, kind), pointer, align=size)
    address._record(STORE_SHARED, (MemoryUse.WRITE,), size, pointer)


def check_writable(address: Accessed, what: str) -> None:
    """Raises memory.constant where the address comes from a pointer that is declared const."""
    if address.const:
        CONSTANT.fail(what=what, advice="declare the pointer without const=True, or write to other memory")


def check_whole(element: ElementType) -> None:
    """Raises memory.element for elements that share a byte."""
    if element.bits % 8:
        rules.PART_OF_A_BYTE.fail(element=element, bits=element.bits)


def kind_of(k: Core, address: Accessed, count: int) -> tuple[ir.Type, int]:
    """LLVM's type of an access, and its bytes, which the address must be a multiple of."""
    k.check_live()
    element = address.element
    if type(count) is not int:
        raise TypeError("counts are integers")  # the boundary knows which argument of the call it is
    check_whole(element)
    size = count * element.bits // 8
    most = widest(k.target, address.space)
    sizes = (*_SIZES, most) if most > _SIZES[-1] else _SIZES
    if size not in sizes:
        legal = f"{', '.join(map(str, sizes[:-1]))} or {sizes[-1]}"
        rules.VECTOR_WIDTH.fail(count=count, element=element, bytes=size, legal=legal, most=most)
    if address.align % size:
        rules.VECTOR_ALIGNMENT.fail(bytes=size, align=address.align, advice=address._how_to_align(size))
    scalar = llvm_type(element)
    return (scalar if count == 1 else ir.VectorType(scalar, count)), size


# -- memory orders and caches ---------------------------------------------------------------------------------------


def checked(opcode: str, address: Accessed, size: int, how: How) -> Caching:
    """What the caller asks of the caches. Raises memory.order and memory.caching."""
    if how.is_plain:
        return load_store.PLAIN
    _check_order(opcode, how)
    if address.const and how.order != WEAK:
        advice = "leave the order out, or declare the pointer without const=True"
        CONSTANT.fail(what=f"a load with order={how.order!r} from", advice=advice)
    caching = _caching(opcode, how)
    space = _space(address)
    problem = load_store.fault(opcode, how.order, space, size, caching, constant=address.const)
    if problem is not None:
        _refuse(opcode, problem, "leave one of the two out" if space == "global" else "leave them out")
    return caching


def _check_order(opcode: str, how: How) -> None:
    order, legal = how.order, load_store.ORDERS[opcode]
    if order in (WEAK, VOLATILE):
        if how.scope is not None:
            _refuse_order(opcode, how, f"{order} accesses have no scope", f'leave it out, or use order="{legal[1]}"')
        return
    if order not in legal:
        problem = "there is no such order"
        advice = f"use one of {', '.join(map(repr, (WEAK, *legal, VOLATILE)))}"
        if order in ("acquire", "release"):
            problem, advice = "loads acquire and stores release", f'use order="{legal[1]}"'
        elif order in ("acq_rel", "sc", "seq_cst"):
            problem = "only fences and atomics have this order"
            advice = f'use order="{legal[1]}"' if order == "acq_rel" else 'put k.fence.thread("sc") before the access'
        _refuse_order(opcode, how, problem, advice)
    if how.scope not in load_store.SCOPES:
        problem = "it needs a scope" if how.scope is None else f"{how.scope!r} is not a scope"
        advice = 'say whose threads see it in this order: scope="cta", "cluster", "gpu" or "sys"'
        _refuse_order(opcode, how, problem, advice)


def _refuse_order(opcode: str, how: How, problem: str, advice: str) -> NoReturn:
    ORDER.fail(kind=_KINDS[opcode], order=how.order, scope=how.scope, problem=problem, advice=advice)


def _refuse(opcode: str, problem: str, advice: str) -> NoReturn:
    CACHING.fail(kind=_KINDS[opcode], problem=problem, advice=advice)


def _caching(opcode: str, how: How) -> Caching:
    operators = load_store.OPERATORS[opcode]
    if how.cache not in (None, *operators):
        _refuse(opcode, f"there is no cache operator {how.cache!r}", f"use one of {_quoted(operators)}")
    if how.prefetch not in (None, *load_store.PREFETCHES):
        advice = f"use one of {', '.join(map(str, load_store.PREFETCHES))}"
        _refuse(opcode, f"{how.prefetch!r} bytes are not prefetched", advice)
    priorities: dict[str, str] = {}
    for hint in (how.evict,) if isinstance(how.evict, str) else how.evict:
        level, _, priority = str(hint).partition("::")
        if priority not in {"L1": load_store.L1_PRIORITIES, "L2": load_store.L2_PRIORITIES}.get(level, ()):
            legal = [f"L1::{each}" for each in load_store.L1_PRIORITIES]
            legal += [f"L2::{each}" for each in load_store.L2_PRIORITIES]
            _refuse(opcode, f"there is no eviction priority {hint!r}", f"use one of {_quoted(legal)}")
        if level in priorities:
            _refuse(opcode, f"{how.evict!r} has two priorities of {level}", "leave one of them out")
        priorities[level] = priority
    return Caching(how.cache, priorities.get("L1"), priorities.get("L2"), how.prefetch, how.cache_policy is not None)


def _quoted(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _space(address: Accessed) -> str:
    return {GLOBAL_SPACE: "global", CLUSTER_SPACE: "shared::cluster"}.get(address.space, "shared")


def _row(opcode: str, address: Accessed, count: int, how: How, caching: Caching) -> Row:
    size = count * address.element.bits // 8
    form = load_store.FORMS[size][-1 if address.element.bits == u64.bits else 0]
    return load_store.access(
        *(opcode, *form),
        order=how.order,
        scope=how.scope,
        space=_space(address),
        caching=caching,
        constant=address.const,
    )


def _load_by_row(k: Core, address: Accessed, count: int, how: How, caching: Caching) -> list[Value]:
    row = _row(LOAD, address, count, how, caching)
    operands = {"address": address.bytes.ir, **_policy(k, how)}
    registers = k.emit(row, operands, facts=address._facts())["values"]
    return [k.wrap(value, address.element) for value in _elements(k, registers, address.element, count)]


def _store_by_row(k: Core, address: Accessed, values: list[ir.Value], how: How, caching: Caching) -> None:
    row = _row(STORE, address, len(values), how, caching)
    registers = _registers(k, values, row.operand("values").count)
    k.emit(row, {"address": address.bytes.ir, "values": registers, **_policy(k, how)}, facts=address._facts())


def _policy(k: Core, how: How) -> dict[str, ir.Value]:
    return {} if how.cache_policy is None else {"cache_policy": policy_of(k, how.cache_policy).ir}


def policy_of(k: Core, operand: Operand) -> Value:
    """A cache policy. Raises cache.policy for what certainly is not one."""
    if isinstance(operand, Arithmetic):
        check_policy_type(operand.type)
    policy = as_value(k, operand, u64)
    if isinstance(number := policy.constant, int):
        check_policy(number)
    return policy


def _elements(k: Core, registers: list[ir.Value], element: ElementType, count: int) -> list[ir.Value]:
    """The elements in the registers of a load, whose bits lie side by side."""
    kind = llvm_type(element)
    if element.bits == _BYTE.width and count == 1:
        return [_cast(k, k.llvm.trunc(registers[0], _BYTE), kind)]
    if len(registers) == count:
        return [_cast(k, register, kind) for register in registers]
    whole = _together(k, registers, ir.VectorType(registers[0].type, len(registers)))
    return list(_parts(k, k.llvm.bitcast(whole, ir.VectorType(kind, count)), count))


def _registers(k: Core, values: list[ir.Value], count: int) -> list[ir.Value]:
    """The values in so many registers of bits, side by side."""
    bits = llvm_bits(values[0].type)
    if bits == _BYTE.width and len(values) == 1:
        return [k.llvm.zext(_cast(k, values[0], _BYTE), _HALF)]
    if len(values) == count:
        return [_cast(k, value, ir.IntType(bits)) for value in values]
    whole = _together(k, values, ir.VectorType(values[0].type, len(values)))
    if count == 1:
        return [k.llvm.bitcast(whole, ir.IntType(bits * len(values)))]
    return list(_parts(k, k.llvm.bitcast(whole, ir.VectorType(_WORD, count)), count))


def llvm_bits(kind: ir.Type) -> int:
    """The bits of a scalar."""
    if isinstance(kind, ir.IntType):
        return int(kind.width)
    return {"half": 16, "bfloat": 16, "float": 32, "double": 64}[str(kind)]


def _cast(k: Core, value: ir.Value, kind: ir.Type) -> ir.Value:
    return value if value.type == kind else k.llvm.bitcast(value, kind)


def _parts(k: Core, vector: ir.Value, count: int) -> list[ir.Value]:
    return [k.llvm.extract_element(vector, ir.Constant(_WORD, index)) for index in range(count)]


def _together(k: Core, values: list[ir.Value], kind: ir.Type) -> ir.Value:
    if len(values) == 1:
        return values[0]
    packed: ir.Value = ir.Constant(kind, ir.Undefined)
    for index, value in enumerate(values):
        packed = k.llvm.insert_element(packed, value, ir.Constant(_WORD, index))
    return packed
