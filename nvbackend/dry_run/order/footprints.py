"""Which bytes of shared memory an instruction accesses, of which CTAs: from the values of its operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.order.granules import Addresses, Moved, Sixteens, mask_of
from nvbackend.dry_run.order.naming import touch_of
from nvbackend.dry_run.order.record import Part, Span, span_of
from nvbackend.dry_run.order.shared_matrix import CHUNK, ROW_BYTES, SharedMatrix, of_tcgen05, of_wgmma
from nvbackend.dry_run.seam import RANK_SHIFT, Step, Unknown, Value
from nvbackend.dry_run.values.lanes import lanes_in
from nvbackend.dry_run.values.ranges import bounds
from nvbackend.dry_run.values.unknown import differs_by_data_alone
from nvbackend.dry_run.values.vectors import Lanes
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.row.semantics import Matrix, MemoryOperand
from nvbackend.isel.machine import facts
from nvbackend.isel.machine.function import INSTRUCTION_DESCRIPTOR, MachineInstr, instruction_descriptor

_OFFSETS = (1 << RANK_SHIFT) - 1
_SHARED = (RegisterClass.SHARED, RegisterClass.SHARED_CLUSTER, RegisterClass.GENERIC, RegisterClass.B64)
"""The registers that address shared memory, or may do so, or hold a descriptor of it."""
_WARPS, _ROWS = 4, 16
"""Of a warpgroup, and the rows of A that each warp multiplies."""
_KIND_BITS = {"f16": 16, "tf32": 32, "i8": 8, "f8f6f4": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}
"""Bits that an element of a tcgen05.mma of each kind has in shared memory."""
_COPY = "tcgen05.cp"
_PATTERN = 0x7FF
"""The bits of an address within two rows of the longest swizzle's pattern."""


@dataclass(slots=True)
class Access:
    """Bytes of a CTA of the cluster, -1 for the own one."""

    rank: int
    writes: bool
    part: Part
    warp: int | None = None
    """Of a warpgroup's rows, the warp that accesses these alone."""
    somewhere: bool = False
    """Whether it accesses a part of these bytes, and it is not known which part."""
    bytes: int = 0
    """How many it accesses there in each lane."""
    scattered: bool = False
    """Whether data alone decides where each lane accesses, and which lane accesses what."""


def lanes_of(value: Value, lanes: int, first: int = 32) -> Addresses | Unknown:
    """The value in the active lanes among the first ones, with a sign: a number where it is one in all."""
    if isinstance(value, (int, Unknown)):
        return value
    there = [value.numbers[lane] for lane in lanes_in(lanes & (1 << first) - 1)]
    return tuple([number - (1 << 64) if number >> 63 else number for number in there])


def multicast_mask(step: Step, ctas: int) -> int | None:
    """The CTAs that a multicast is to, of a cluster of so many: a bit of each; None where it is none, -1 where unknown.

    Without a mask of its own, as try_cancel is, it is to all of them.
    """
    row = step.instr.row
    if row is None or not row.semantics.multicast:
        return None
    if facts.MASK not in step.facts.operands:
        return (1 << ctas) - 1
    mask = number(step.value(facts.MASK), step.lanes)
    return -1 if mask is None else mask


def number(value: Value, lanes: int) -> int | None:
    """The value where all active lanes have the same, else None."""
    here = lanes_of(value, lanes)
    if isinstance(here, Unknown):
        return None
    if isinstance(here, int):
        return here
    return here[0] if len(set(here)) == 1 else None


class Footprints:
    """The accesses of steps in clusters of so many CTAs, kept by the values of the operands, which recur."""

    def __init__(self, cluster: int) -> None:
        self._cluster = cluster
        self._names: dict[int, tuple[str, ...]] = {}
        self._shared: dict[int, tuple[tuple[MemoryOperand, bool], ...]] = {}
        """Of each instruction, what it accesses that may be shared memory, and whether a descriptor says where."""
        self._known: dict[tuple[int | Lanes, ...], tuple[Access, ...]] = {}
        self.unknown = False
        """Whether a write went to a place that is not known."""
        self.unseen = False
        """Whether something is read at a place that is not known."""

    def of(self, step: Step) -> Sequence[Access]:
        """The accesses of shared memory at the step's operands, as far as they are known."""
        instr = step.instr
        names = self._names.get(id(instr))
        if names is None:
            self._shared[id(instr)] = shared = tuple(_in_shared(instr))
            names = self._names[id(instr)] = tuple(_deciding(instr, [said for said, _ in shared]))
        key: list[int | Lanes] = [id(instr), step.lanes, step.cta % self._cluster]
        for name in names:
            value = step.value(name)
            if isinstance(value, Unknown):
                return [*self._accesses(step)]
            key.append(value)
        found = self._known.get(tuple(key))
        if found is None:
            found = self._known[tuple(key)] = tuple(self._accesses(step))
        return found

    def _accesses(self, step: Step) -> Iterator[Access]:
        for said, is_descriptor in self._shared[id(step.instr)]:
            yield from (self._descriptor if is_descriptor else self._plain)(step, said)

    def _plain(self, step: Step, said: MemoryOperand) -> Iterator[Access]:
        instr = step.instr
        value = lanes_of(step.value(said.name), step.lanes, said.lanes or 32)
        extent = self._extent(step, said)
        if isinstance(value, Unknown) and extent is not None and (instr.row is None or instr.semantics.atomic):
            yield from self._somewhere(instr, said, value, extent)
            return
        if isinstance(value, Unknown) or extent is None:
            self._lose(said)
            return
        addresses, size = value, extent
        if isinstance(said.extent, Matrix):
            lines = self._lines(step, said.extent, value)
            if lines is None:
                self._lose(said)
                return
            addresses, size = lines
        found = [*_split(instr, said, addresses, size, self._cluster, step.cta % self._cluster)]
        if not found:
            self._lose(said)
        yield from found

    def _lose(self, said: MemoryOperand) -> None:
        """It is not known what an instruction accesses."""
        self.unknown |= said.writes
        self.unseen |= not said.writes

    def _somewhere(self, instr: MachineInstr, said: MemoryOperand, value: Unknown, size: int) -> Iterator[Access]:
        """An access at a place that data decides, as far as its address has bounds."""
        self.unseen |= not said.writes
        between, scattered = bounds(value), differs_by_data_alone(value)
        ranks = [one >> RANK_SHIFT for one in between or ()]
        if between is None or ranks[0] != ranks[1] or ranks[0] >= self._cluster:
            part = Part(instr, 0, _OFFSETS, said.name)
            yield Access(-1, said.writes, part, somewhere=True, scattered=scattered)
            return
        part = Part(instr, between[0] & _OFFSETS, between[1] - between[0] + size, said.name)
        yield Access(ranks[0], said.writes, part, somewhere=True, bytes=size, scattered=scattered)

    def _extent(self, step: Step, said: MemoryOperand) -> int | None:
        extent = said.extent
        if isinstance(extent, int):
            return extent
        if isinstance(extent, str):
            return number(step.value(extent), step.lanes)
        if isinstance(extent, Matrix):
            return extent.bytes
        touch = touch_of(step.instr, said.name)
        return None if touch is None else touch.bytes

    def _lines(self, step: Step, matrix: Matrix, value: Addresses) -> tuple[Addresses, int] | None:
        """The lines of a matrix: their addresses, and bytes of each."""
        stride = number(step.value("stride"), step.lanes) if _has(step.instr, "stride") else matrix.line
        if stride is None or not isinstance(value, int) or matrix.line * matrix.bits % 8:
            return None
        lines = tuple([value + line * (stride * matrix.bits // 8) for line in range(matrix.lines)])
        return lines, matrix.line * matrix.bits // 8

    def _descriptor(self, step: Step, said: MemoryOperand) -> Iterator[Access]:
        word = number(step.value(said.name), step.lanes)
        if word is None:
            self.unseen = True
            return
        instr = step.instr
        assert instr.row is not None
        is_copy = instr.row.opcode == _COPY
        is_wgmma = not is_copy and "shape" in instr.row.axes
        matrix = (of_wgmma if is_wgmma else of_tcgen05)(word)
        found: list[_Chunks] | None = None
        swizzle = None
        if matrix is not None and is_copy:
            found = [_of_copy(instr.row, matrix)]
        elif matrix is not None and instr.semantics.multiplies:
            found, swizzle = (_of_wgmma if is_wgmma else _of_tcgen05)(instr, said, matrix), matrix.swizzle
        if found is None:
            self.unseen = True
            start = (word & 0x3FFF) * CHUNK
            yield Access(-1, said.writes, Part(instr, start, CHUNK, said.name, swizzle=swizzle))
            return
        tile = tuple(one.addresses for one in found) if len(found) > 1 else ()
        for warp, (addresses, span, chunks) in enumerate(found):
            part = Part(instr, addresses, CHUNK, said.name, tile, swizzle, span, chunks)
            yield Access(-1, said.writes, part, warp if tile else None)


class _Chunks(NamedTuple):
    """The addresses of chunks of a matrix, their span, and these chunks among those of the memory."""

    addresses: Sequence[int]
    span: Span
    chunks: Sixteens


def _of_wgmma(instr: MachineInstr, said: MemoryOperand, matrix: SharedMatrix) -> list[_Chunks] | None:
    """What a wgmma reads of a matrix, where each warp reads rows of its own by warps; None where that is not known."""
    assert instr.row is not None
    axes = instr.row.axes
    if axes.get("sparse") or not isinstance(said.extent, int):
        return None
    bits = axes[said.name[0]].bits  # type: ignore[attr-defined]
    transposed = bool(instr.immediates.get(f"trans_{said.name[0]}", 0))
    rows = said.extent // ROW_BYTES
    if said.name == "a_desc" and not transposed and rows == _WARPS * _ROWS:
        return [_chunks(matrix, rows, bits, warp, k_major=True) for warp in range(_WARPS)]
    return [_chunks(matrix, rows, bits, k_major=not transposed)]


def _of_tcgen05(instr: MachineInstr, said: MemoryOperand, matrix: SharedMatrix) -> list[_Chunks] | None:
    """What a tcgen05.mma reads of a matrix; None where that is not known."""
    assert instr.row is not None
    axes, packed = instr.row.axes, instr.words.get(INSTRUCTION_DESCRIPTOR)
    kind = str(axes["kind"])
    if packed is None or axes.get("sparse") or axes.get("weight_stationary") or kind not in _KIND_BITS:
        return None
    said_of = instruction_descriptor(packed, kind=kind)
    if said_of.k96:
        return None
    is_a = said.name[0] == "a"
    rows = (said_of.m if is_a else said_of.n) // (instr.semantics.cta_group or 1)
    transposed = said_of.transpose_a if is_a else said_of.transpose_b
    return [_chunks(matrix, rows, _KIND_BITS[kind], k_major=not transposed)]


def _of_copy(row: Row, matrix: SharedMatrix) -> _Chunks:
    """What a tcgen05.cp reads: rows of its shape, whatever their elements are."""
    rows, _, bits = str(row.axes["shape"]).removesuffix("b").partition("x")
    return _chunks(matrix, int(rows), 8, row_bytes=int(bits) // 8, k_major=True)


@lru_cache(maxsize=1024)
def _chunks(
    matrix: SharedMatrix, rows: int, bits: int, warp: int = -1, *, k_major: bool, row_bytes: int = ROW_BYTES
) -> _Chunks:
    """The chunks of a matrix, by those of the same one near the start of the memory; of one warp's rows alone."""
    low = matrix.start & _PATTERN
    near, by = _near(replace(matrix, start=low), rows, bits, warp, k_major, row_bytes), matrix.start - low
    first, last, low_bits = near.span
    return _Chunks(Moved(near.addresses, by), Span(first + by, last + by, low_bits | by), (near.chunks[0], by // CHUNK))


@lru_cache(maxsize=256)
def _near(matrix: SharedMatrix, rows: int, bits: int, warp: int, k_major: bool, row_bytes: int) -> _Chunks:
    if k_major:
        made = matrix.rows_of_k(rows, row_bytes)
    else:
        made = matrix.columns_of_k(rows * bits // 8, row_bytes * 8 // bits)
    made = made if warp < 0 else made[_ROWS * warp : _ROWS * (warp + 1)]
    addresses = tuple(sorted({address for row in made for address in row}))
    return _Chunks(addresses, span_of(addresses), (mask_of([address // CHUNK for address in addresses]), 0))


def _has(instr: MachineInstr, operand: str) -> bool:
    return instr.row is not None and instr.row.has_operand(operand)


def _in_shared(instr: MachineInstr) -> Iterator[tuple[MemoryOperand, bool]]:
    """What an instruction accesses that may be shared memory, and whether a descriptor says where."""
    for said in instr.semantics.memory:
        register = None if instr.row is None else instr.row.operand(said.name).register
        if register is None or register in _SHARED:
            yield said, register is RegisterClass.B64


def _deciding(instr: MachineInstr, shared: Sequence[MemoryOperand]) -> Iterator[str]:
    """The operands that decide what an instruction accesses."""
    for said in shared:
        yield said.name
        if isinstance(said.extent, str):
            yield said.extent
        if isinstance(said.extent, Matrix) and _has(instr, "stride"):
            yield "stride"


def far_from(own: int, address: int) -> int:
    """The offset in the memory of the CTA of rank `own`, below 0 where a sum of 32 bits is."""
    far = address - (own << RANK_SHIFT)
    return far - (1 << 32) if far >> 31 == 1 else far


def _split(
    instr: MachineInstr, said: MemoryOperand, addresses: Addresses, size: int, cluster: int, own: int
) -> Iterator[Access]:
    """One access for each CTA that is accessed by the CTA of rank `own`.

    What is beyond the memory of all CTAs of the cluster is an access of the own CTA, far from what it has.
    """
    span = span_of(addresses)
    if span.last >> RANK_SHIFT >= cluster:
        if instr.row is not None and cluster > 1:
            return  # it may be a peer's, of a rank computed from parameters that the run chose
        every = (addresses,) if isinstance(addresses, int) else addresses
        far = tuple([far_from(own, address) for address in every])
        yield Access(-1, said.writes, Part(instr, far, size, said.name))
        return
    first = span.first >> RANK_SHIFT
    if isinstance(addresses, int):
        is_box = said.writes and _has(instr, "tensor_map")
        swizzle = instr.facts.get(facts.SWIZZLE) if is_box else None
        yield Access(first, said.writes, Part(instr, addresses & _OFFSETS, size, said.name, swizzle=swizzle))
        return
    if not len(addresses):
        return
    if span.last >> RANK_SHIFT == first:
        there = tuple([address & _OFFSETS for address in addresses]) if first else addresses
        span = Span(*(each & _OFFSETS for each in span))
        yield Access(first, said.writes, Part(instr, there, size, said.name, span=span))
        return
    for rank in sorted({address >> RANK_SHIFT for address in addresses}):
        there = tuple([address & _OFFSETS for address in addresses if address >> RANK_SHIFT == rank])
        yield Access(rank, said.writes, Part(instr, there, size, said.name))
