"""Global and shared memory: typed addresses, vector accesses, allocation of shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from nvbackend.builder.core import access
from nvbackend.builder.core.address_arithmetic import compared, negative, whole_bytes
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.masked import load_where, store_where
from nvbackend.builder.lower.conversions import wrapped_constant
from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.in_functions import check_of_kernel
from nvbackend.builder.scopes.names import check_name, name_or
from nvbackend.builder.value_tracking.addresses.alignment import (
    check_aligned,
    check_alignment,
    check_promise,
    how_to_align,
)
from nvbackend.builder.value_tracking.addresses.peers import fail_peer
from nvbackend.builder.value_tracking.addresses.places import Place
from nvbackend.builder.value_tracking.expressions.provenance import swizzle_fact
from nvbackend.builder.values.attributes import missing_attribute
from nvbackend.builder.values.values import (
    CLUSTER_SPACE,
    GLOBAL_SPACE,
    SHARED_SPACE,
    Operand,
    Value,
    address_type,
    as_index,
    as_value,
    scaled,
)
from nvbackend.diagnostics import Location, Rule, Uncopied, caller_location, user_facing
from nvbackend.intrinsics.copy.load_store import WEAK
from nvbackend.intrinsics.row.types import ElementType, u32
from nvbackend.isel.machine.function import MemoryUse
from nvbackend.isel.machine.pseudo import ATOMIC_GLOBAL, ATOMIC_SHARED, IN_CLUSTER, OF_GLOBAL
from nvbackend.isel.protocols.cluster.rules import NO_PEER
from nvbackend.isel.target.shared_memory import SHARED_LIMIT, static_limit
from nvbackend.isel.target.target import VARIANT
from nvbackend.signature import LARGEST_ALIGNMENT

SHARED_BASE_ALIGNMENT = 1024
"""Dynamic shared memory starts at a multiple of this, the longest swizzle period (PTX ISA 5.5.7: 128-byte mode)."""

_PASS = 'allocate it in the kernel and pass it: nvb.Pointer(element, space="shared")'

SHARED_EXTENT = Rule(
    id="shared.extent",
    message="{name}: {count} elements at a multiple of {align} bytes cannot be laid out",
    fix="ask for at least one element, aligned to a power of two, not larger than shared memory",
    why="The memory would overlap with what was laid out before.",
    reference="PTX ISA 5.4.5 (alignment)",
)
GLOBAL_POINTER = Rule(
    id="memory.pointer",
    message="{given!r} is not an LLVM pointer in address space {space}",
    fix="take the address of a Pointer parameter, or give an llvmlite value of type ptr addrspace({space})",
    why="A pointer of another space is another number, and the access would go elsewhere or fault.",
    reference="LLVM NVPTX usage guide, address spaces",
)


@user_facing
class Address(Uncopied):
    """A typed address in global or shared memory: `address + n` and `address - n` move by elements, `address[n]` reads
    and writes.

    `align` is the alignment in bytes that is promised for this address. `const` says that it comes from a pointer
    that is declared const. An address in shared memory also knows its allocation and its offset there.
    """

    __slots__ = ("_base", "_k", "_offset", "_place", "_root", "align", "const", "element", "space")

    def __init__(
        self,
        k: Core,
        base: ir.Value,
        element: ElementType,
        space: int,
        align: int,
        offset: Value | None = None,
        place: Place | None = None,
        root: int | None = None,
        const: bool = False,
    ):
        if not isinstance(element, ElementType) or not isinstance(align, int):
            raise TypeError("elements have a type, alignments are integers")  # the boundary knows which argument it is
        self._k = k
        self._base = base
        self._offset = offset
        self._place = place
        self._root = align if root is None else root  # what the base is a multiple of, from which the offset counts
        self.element = element
        self.space = space
        self.align = align
        self.const = const

    @property
    def bytes(self) -> Value:
        """The address as a number: u32 for shared memory (the shared window's own addresses), s64 for global."""
        k, kind = self._k, address_type(self.space)
        k.check_scope(self._base)
        base = k.wrap(self._base if kind is u32 else k.llvm.ptrtoint(self._base, ir.IntType(64)), kind)
        address = base if self._offset is None else _plus(k, base, self._offset)
        if self._place is not None:
            k.places.addresses[address.ir] = self._place
        return address

    def __add__(self, elements: Operand) -> Address:
        if self.element.bits % 8:
            return self.byte_offset(whole_bytes(self.element, elements))
        return self.steps(elements, self.element.bits // 8)

    __radd__ = __add__

    def __sub__(self, elements: Operand) -> Address:
        return self + negative(self, elements)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return compared(self, other, equal=True)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return compared(self, other, equal=False)

    __hash__ = object.__hash__

    def steps(self, index: Operand, unit: int, *, align: int | None = None) -> Address:
        """This address plus `index * unit` bytes; the product has as many bits as an address."""
        return self.byte_offset(scaled(self._k, index, unit, self.space), align=align)

    def byte_offset(self, step: Operand, *, align: int | None = None) -> Address:
        """This address plus `step` bytes. `align` is what the caller promises; otherwise the arithmetic decides."""
        promised = align is not None
        if align is None:
            align = self._alignment_after(step)
        kind = address_type(self.space)
        moved = self._constant_step(step) if isinstance(step, (int, float)) else as_index(self._k, step).to(kind)
        offset = moved if self._offset is None else _plus(self._k, self._offset, moved)
        place = None if self._place is None else self._place.moved(self._k.places.step(moved.ir))
        if promised:
            check_promise(self._k, offset.ir, self._root, align, self._alignment_after(step))
        return self._moved(self.element, align, offset, place)

    def _constant_step(self, step: float) -> Value:
        """A constant number of bytes; a negative step in shared memory wraps modulo 2^32 (value.constant)."""
        kind = address_type(self.space)
        back = self.space != GLOBAL_SPACE and isinstance(step, int) and -(1 << kind.bits - 1) <= step < 0
        return as_value(self._k, step + (1 << kind.bits) if back else step, kind)

    def _alignment_after(self, step: Operand) -> int:
        """The alignment after a step: the largest power of two that its arithmetic proves."""
        if isinstance(step, (int, float)):
            known = step if isinstance(step, int) else 1  # a fraction is refused when it becomes a value
        else:
            known = self._k.places.multiples.divisor(as_value(self._k, step).ir)
        return self.align if known == 0 else min(self.align, known & -known)

    def cast(self, element: ElementType) -> Address:
        """The same address, of elements of another type."""
        if isinstance(element, ElementType):
            return self._moved(element, self.align, self._offset, self._place)
        raise TypeError("elements have a type")  # the boundary names the argument

    def _moved(self, element: ElementType, align: int, offset: Value | None, place: Place | None) -> Address:
        moved = object.__new__(Address)  # the constructor looks at each of its arguments
        moved._k, moved._base, moved._root, moved.space = self._k, self._base, self._root, self.space
        moved._offset, moved._place, moved.element, moved.align, moved.const = offset, place, element, align, self.const
        return moved

    def _check_aligned(self, wanted: int, instruction: str) -> None:
        """Raises memory.misaligned if this is certainly not a multiple of `wanted` bytes, as `instruction` needs."""
        check_alignment(wanted)
        check_aligned(self._k, None if self._offset is None else self._offset.ir, self._root, wanted, instruction)

    def _how_to_align(self, wanted: int) -> str:
        """The fix of a diagnostic: how to make this address a known multiple of `wanted` bytes."""
        check_alignment(wanted)
        return how_to_align(self._root, wanted, shared=self.space == SHARED_SPACE, stepped=self._offset is not None)

    def _check_own(self, instruction: str) -> None:
        """Raises cluster.peer-address if this is in another CTA's shared memory, which `instruction` cannot address."""
        if self.space == CLUSTER_SPACE:
            fail_peer(instruction, "address")

    def load(
        self,
        count: int = 1,
        *,
        order: str = WEAK,
        scope: str | None = None,
        cache: str | None = None,
        evict: str | Sequence[str] = (),
        prefetch: int | None = None,
        cache_policy: Operand | None = None,
        where: Operand | None = None,
        otherwise: Operand = 0,
    ) -> list[Value]:
        """`count` consecutive elements in one access of at most 16 bytes; from sm_100 on 32 of global memory.

        `order` is "weak", "relaxed" or "acquire" at a `scope` ("cta", "cluster", "gpu", "sys"), or "volatile". A strong
        load sees what others store meanwhile; one that acquires also what they did before they released it. Of global
        memory: `cache` is an operator (ca, cg, cs, lu, cv), or `evict` a priority such as "L1::no_allocate" or, of 32
        bytes, "L2::evict_first", or both levels'; `prefetch` 64, 128 or 256 bytes to L2; `cache_policy` is one of
        `k.cache`. From a pointer that is declared const it is ld.global.nc.

        `where` is a predicate, without which nothing is loaded, or how many elements there are from this address on: if
        all of `count`, they are one access, else one each, and none of a negative number. The rest is `otherwise`.
        Raises memory.vector, memory.alignment, memory.order, memory.caching, memory.constant, target.feature, and
        memory.element for types of less than a byte. PTX ISA 9.7.9 (ld, ld.global.nc).
        """
        how = access.How(order, scope, cache, evict, prefetch, cache_policy)
        if where is None:
            return access.load(self._k, self, count, how)
        return load_where(self._k, self, self.__add__, count, how, where, otherwise)

    def store(
        self,
        *values: Operand,
        order: str = WEAK,
        scope: str | None = None,
        cache: str | None = None,
        evict: str | Sequence[str] = (),
        cache_policy: Operand | None = None,
        where: Operand | None = None,
    ) -> None:
        """Write consecutive elements in one access of at most 16 bytes; from sm_100 on 32 of global memory.

        `order` is "weak", "relaxed" or "release" at a `scope`, or "volatile": who loads what a store released, and
        acquires, sees all that this thread did before. Of the cache operators it has wb, cg, cs and wt. The rest,
        `where` too, is as in `load`. Raises what that does. PTX ISA 9.7.9 (st).
        """
        how = access.How(order, scope, cache, evict, None, cache_policy)
        if where is None:
            access.store(self._k, self, values, how)
        else:
            store_where(self._k, self, self.__add__, values, how, where)

    def atomic(self, operation: str, value: Operand) -> Value:
        """Atomically combine the element with `value`, at GPU scope; returns the old value.

        `operation` is add, min, max, exch, and, or, xor (integers of 32 or 64 bits) or add (f32, f64). It orders no
        other access: `k.atomic` has the other orders, scopes and types. Raises memory.atomic. PTX ISA 9.7.13 (atom).
        """
        from nvbackend.isel.operands.atomics import atomic_operation

        instruction = atomic_operation(operation, self.element)
        access.check_writable(self, "an atomic on")
        _, size = access.kind_of(self._k, self, 1)
        operand, pointer = as_value(self._k, value, self.element).ir, self.pointer()
        old = self._k.llvm.atomic_rmw(instruction, pointer, operand, 'syncscope("device") monotonic')
        if self.space == GLOBAL_SPACE:
            self._k.pseudo(ATOMIC_GLOBAL)  # threads may synchronise through it
        self._record(ATOMIC_SHARED, (MemoryUse.READ, MemoryUse.WRITE), size, pointer)
        return self._k.wrap(old, self.element)

    def _record(self, opcode: str, uses: Sequence[MemoryUse], size: int, pointer: ir.Value) -> None:
        """Record an ordinary access in the machine form, for the analyses."""
        if self.space == GLOBAL_SPACE:
            if opcode in OF_GLOBAL:
                self._k.plain_access(OF_GLOBAL[opcode], pointer, size)
            return
        of_peer = self.space == CLUSTER_SPACE and not self._k.peers.is_own(self._base)
        place = self._k.places.of_peer(self._place) if of_peer else self._place
        touched = [] if place is None else [place.touch(use, size=size) for use in uses]
        if of_peer:
            self._k.pseudo(IN_CLUSTER[opcode], memory=touched, facts=self._facts())
        elif touched:
            known = swizzle_fact(pointer.operands[0], self._k.places.bits)
            self._k.pseudo(opcode, memory=touched, facts=known)
        elif MemoryUse.WRITE in uses:
            self._k.pseudo(opcode)

    def _facts(self) -> dict[str, int]:
        return self._k.peers.facts(self._base) if self.space == CLUSTER_SPACE else {}

    __iter__ = None  # otherwise Python would iterate over elements 0, 1, 2, ... without end
    __contains__ = None

    def __getitem__(self, index: Operand) -> Value:
        access.check_whole(self.element)
        return (self + index).load()[0]

    def __setitem__(self, index: Operand, value: Operand) -> None:
        access.check_whole(self.element)
        (self + index).store(value)

    if not TYPE_CHECKING:  # it would make a type checker accept every name

        def __getattr__(self, name: str) -> Any:
            """Raises value.attribute."""
            raise missing_attribute(self, name, f"an address of {self.element}", "element")

    def pointer(self) -> ir.Value:
        """The llvmlite pointer, for code that emits with llvmlite itself. Raises value.scope."""
        builder = self._k.llvm
        if self.space == CLUSTER_SPACE and self._k.execution.of_cluster is not None:
            self._k.tracking.check_rank(self.bytes.ir)
        if self.space != GLOBAL_SPACE:
            return builder.inttoptr(self.bytes.ir, ir.PointerType(addrspace=self.space))
        self._k.check_scope(self._base)
        if self._offset is None:
            return self._base
        return builder.gep(self._base, [self._offset.ir], source_etype=ir.IntType(8))

    def __repr__(self) -> str:
        space = {SHARED_SPACE: "shared", CLUSTER_SPACE: "shared::cluster"}.get(self.space, "global")
        return f"<{space} address of {self.element}, align {self.align}>"


def _plus(k: Core, a: Value, b: Value) -> Value:
    """`a + b` of numbers as wide as an address: no instruction where one is 0, or both are constants."""
    x, y = (_number(each.ir) for each in (a, b))
    if x == 0:
        return b
    if y == 0:
        return a
    if x is not None and y is not None:
        return k.wrap(wrapped_constant(x + y, a._type), a._type)
    return k.wrap(k.llvm.add(a.ir, b.ir), a._type)


def _number(value: ir.Value) -> int | None:
    number = value.constant if isinstance(value, ir.Constant) else None
    return number if isinstance(number, int) else None  # that of an allocation is a text


def _check_extent(name: str, count: int, align: int, most: int) -> None:
    if not isinstance(count, int) or not isinstance(align, int):
        raise TypeError("extents are integers")  # the boundary knows which argument of the call it is
    check_name(name)
    if count < 1 or not 1 <= align <= most or align & (align - 1):
        SHARED_EXTENT.fail(name=name, count=count, align=align)


class Memory:
    """Allocation of shared memory, and addresses from pointers and numbers."""

    def __init__(self, k: Core) -> None:
        self._k = k
        self.start = 0
        """Where dynamic shared memory begins."""
        self.end = 0
        """The end of the dynamic shared memory that is allocated so far."""
        self.static_bytes = 0
        self.declares_base = False
        """Whether the caller said where dynamic shared memory begins; the bytes before it may belong to others."""
        self.first_shared: Location | None = None
        """The line of the first allocation."""
        self.dynamic: ir.GlobalVariable | None = None

    def shared(self, element: ElementType, count: int, *, align: int = 16, name: str | None = None) -> Address:
        """`k.shared`."""
        return self.lay_out(element, count, align, name_or(name, "shared", "shared"), element.bytes_for(1))

    def lay_out(self, element: ElementType, count: int, align: int, name: str, part: int) -> Address:
        """As `shared`, divided into equal parts of `part` bytes."""
        _check_extent(name, count, align, LARGEST_ALIGNMENT)
        check_of_kernel(self._k.functions.open, "an allocation of shared memory", _PASS)
        if align > SHARED_BASE_ALIGNMENT:
            rules.SHARED_ALIGNMENT.fail(name=name, align=align, base=SHARED_BASE_ALIGNMENT, cause="")
        start = -(-self.end // align) * align
        end = start + element.bytes_for(count)
        self._check_total(name, self.static_bytes, end)
        self.end = end
        self.first_shared = self.first_shared or caller_location()
        array = self._dynamic()
        place = self._k.places.allocate(name, end - start, part, (array.name, start))
        offset, base = as_value(self._k, start, u32), array.ptrtoint(ir.IntType(32))
        return Address(self._k, base, element, SHARED_SPACE, align, offset, place, SHARED_BASE_ALIGNMENT)

    def shared_static(self, element: ElementType, count: int, *, align: int = 16, name: str = "static") -> Address:
        """`k.shared_static`."""
        check_of_kernel(self._k.functions.open, "an allocation of shared memory", _PASS)
        limit = static_limit(self._k.target)
        _check_extent(name, count, align, limit)
        end = -(-self.static_bytes // align) * align + element.bytes_for(count)
        if end > limit:
            rules.SHARED_STATIC_SIZE.fail(name=name, total=end, target=self._k.target, limit=limit, over=end - limit)
        self._check_total(name, end, self.end)
        self.static_bytes = end
        array = ir.ArrayType(ir.IntType(8), element.bytes_for(count))
        variable = ir.GlobalVariable(
            self._k.llvm.module, array, self._k.llvm.module.get_unique_name(f"{self._k.name}__{name}"), SHARED_SPACE
        )
        variable.linkage, variable.align = "internal", align
        variable.initializer = ir.Constant(array, ir.Undefined)
        place = self._k.places.allocate(name, element.bytes_for(count), element.bytes_for(1), (variable.name, 0))
        return Address(self._k, variable.ptrtoint(ir.IntType(32)), element, SHARED_SPACE, align, place=place)

    def _check_total(self, name: str, static: int, dynamic: int) -> None:
        """Raises shared.size if static memory and the dynamic memory after it exceed what the target has."""
        total = static
        if dynamic:
            total = -(-static // SHARED_BASE_ALIGNMENT) * SHARED_BASE_ALIGNMENT + dynamic
        limit = SHARED_LIMIT[self._k.target.number]
        if total > limit:
            rules.SHARED_SIZE.fail(name=name, total=total, target=self._k.target, limit=limit, over=total - limit)

    def global_address(self, pointer: ir.Value, element: ElementType, align: int, *, const: bool) -> Address:
        """`k.global_address`; `const` where nothing writes the memory while the kernel runs."""
        if getattr(pointer, "type", None) != ir.PointerType(addrspace=GLOBAL_SPACE):
            GLOBAL_POINTER.fail(given=pointer, space=GLOBAL_SPACE)
        check_alignment(align)
        return Address(self._k, pointer, element, GLOBAL_SPACE, align, const=const)

    def shared_address(self, address: Value, element: ElementType, align: int, *, window: str | None = None) -> Address:
        """`k.shared_address`."""
        check_alignment(align)
        number = as_value(self._k, address, u32).ir
        if window is None:
            return self.from_number(number, element, align)
        if window not in ("cta", "cluster"):
            VARIANT.fail(instruction="window of k.shared_address", reason=f'{window!r} is not "cta" or "cluster"')
        if window == "cta" and self._k.peers.has(number):
            fail_peer('k.shared_address(..., window="cta")', "address")
        if window == "cta":
            return Address(self._k, number, element, SHARED_SPACE, align, place=self._k.places.of_address(number))
        if not self._k.in_cluster:
            NO_PEER.fail(call='k.shared_address(..., window="cluster")', cluster=1, instead=2)
        self._k.peers.map_unknown(number)
        return Address(self._k, number, element, CLUSTER_SPACE, align, place=self._k.places.of_address(number))

    def from_number(self, number: ir.Value, element: ElementType, align: int) -> Address:
        """An address of shared memory, this CTA's or another's, from its number."""
        space = CLUSTER_SPACE if self._k.peers.has(number) else SHARED_SPACE
        if space == SHARED_SPACE and self._k.in_cluster:
            self._k.peers.check_number(number)
        return Address(self._k, number, element, space, align, place=self._k.places.of_address(number))

    def _dynamic(self) -> ir.GlobalVariable:
        if self.dynamic is None:
            module = self._k.llvm.module
            name = module.get_unique_name(f"{self._k.name}__dynamic_shared")
            self.dynamic = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8), 0), name, SHARED_SPACE)
            self.dynamic.linkage, self.dynamic.align = "external", SHARED_BASE_ALIGNMENT
        return self.dynamic


def own(k: Core, address: Address) -> Address:
    """`address`, which must be one of this kernel's (value.kernel)."""
    if address._k is not k:
        rules.FOREIGN_VALUE.fail(owner=address._k.name, user=k.name)
    return address
