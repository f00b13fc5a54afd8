"""tcgen05.mma: dense, sparse, block-scaled, weight-stationary, of one CTA or a pair. PTX ISA 9.7.16.10."""

from __future__ import annotations

import numpy as np

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.ptx.syntax import Address, Instruction, Vector
from nvbackend.simulator.calls.tensor.pairs import ctas_of, shared_addresses, start
from nvbackend.simulator.calls.tensor.sparse_codes import check_codes
from nvbackend.simulator.calls.tensor.tmem import TensorMemory
from nvbackend.simulator.events import Bits, By, Pending
from nvbackend.simulator.machine.compiling import Compiling
from nvbackend.simulator.machine.lanes import Lanes, one_lane
from nvbackend.simulator.machine.wave import Step, Wave
from nvbackend.simulator.sync.swizzles import Swizzles
from nvbackend.simulator.tensor import descriptors, elements, tcgen05
from nvbackend.simulator.tensor.products import Scales
from nvbackend.simulator.tensor.sparse import chunk_elements, expanded
from nvbackend.simulator.tensor.tcgen05 import Spelling
from nvbackend.simulator.tensor.tensor_memory import (
    COLUMNS,
    LANES,
    Accumulator,
    accumulator,
    metadata_cells,
    scale_cells,
)

_WORD = 32


def compile(instruction: Instruction, place: Compiling) -> Step:
    """The step of a tcgen05.mma of any form."""
    form = tcgen05.spelling(instruction.parts)
    if form is None:
        place.unknown("this form")
    d, a, b, *rest = instruction.operands
    readers = {"d": place.address(d), "b": place.read(b, "b64")}
    in_tensor = isinstance(a, Address)
    readers["a"] = place.address(a) if in_tensor else place.read(a, "b64")
    if form.sparse:
        readers["metadata"] = place.address(rest.pop(0))
    readers["idesc"] = place.read(rest.pop(0), "b32")
    if form.factors:
        readers["scale_a"], readers["scale_b"] = place.address(rest.pop(0)), place.address(rest.pop(0))
    masks = place.reads(rest.pop(0), "b32") if isinstance(rest[0], Vector) else None
    enable = place.read(rest.pop(0), "pred")
    scale_d = 0
    if rest and form.stationary:
        readers["zero_mask"] = place.read(rest.pop(0), "b64")
    elif rest:
        scale_d = place.immediate(rest.pop(0))
    if rest:
        place.unknown(f"{len(instruction.operands)} operands")

    def issue(wave: Wave, lanes: Lanes) -> None:
        values = {name: reader(wave, lanes) for name, reader in readers.items()}
        words = None if masks is None else masks(wave, lanes)
        adds = enable(wave, lanes)
        for number, thread in enumerate(lanes.threads.tolist()):
            given = {name: int(value[number]) for name, value in values.items()}
            disabled = None if words is None else np.ascontiguousarray(words[:, number])
            operation = _Operation(
                place.site, one_lane(thread).threads, "tcgen05.mma", wave, form, given, in_tensor, bool(adds[number])
            )
            operation.disabled, operation.scale_d = disabled, scale_d
            start(wave, form.ctas, operation)

    return issue


@dataclass(eq=False)
class _Operation(Pending):
    """An mma in flight. `given` are addresses and descriptors: what is there is read when it completes."""

    wave: Wave
    form: Spelling
    given: dict[str, int]
    a_in_tensor: bool
    adds: bool
    disabled: Bits | None = None
    scale_d: int = 0

    def complete(self) -> None:
        """Multiply, CTA by CTA."""
        memory = self.wave.part(TensorMemory)
        by = By(self.site, self.threads, operation=self, proxy="async")
        found = tcgen05.decode(self.given["idesc"], self.form)
        if isinstance(found, str):
            memory.refuse(by, f"the instruction descriptor {self.given['idesc']:#010x} asks for {found}")
        ctas = ctas_of(self.wave, self.threads, self.form.ctas)
        shape = accumulator(found.m, found.n, len(ctas), stationary=self.form.stationary, sparse=self.form.sparse)
        if shape is None or found.n < 8:
            memory.refuse(by, f"M = {found.m} with N = {found.n} in {len(ctas)} CTAs is not a shape of tcgen05.mma")
        _Multiplication(self, memory, by, found, shape, ctas).run()


class _Multiplication:
    """The parts of one mma."""

    def __init__(
        self,
        operation: _Operation,
        memory: TensorMemory,
        by: By,
        instruction: tcgen05.Instruction,
        shape: Accumulator,
        ctas: list[int],
    ) -> None:
        self.operation, self.memory, self.by, self.found, self.shape = operation, memory, by, instruction, shape
        self.ctas = ctas
        self.rows = instruction.m // len(ctas)
        self.given = operation.given
        self.stored_k = instruction.k // 2 if instruction.sparse else instruction.k
        self._written = np.zeros(0, np.int64)
        """The cells of D in the CTA whose rows are multiplied."""

    def run(self) -> None:
        """Multiply."""
        found = self.found
        parts = [self._shared(cta, "b", found.n // len(self.ctas)) for cta in self.ctas]
        b = np.concatenate(parts)
        if "zero_mask" in self.given:
            zero = tcgen05.zero_columns(self.given["zero_mask"], found.m, found.n)
            if isinstance(zero, str):
                self.memory.refuse(self.by, f"the zero-column mask asks for {zero}, which the simulator does not know")
            b = np.where(zero[:, None], b.dtype.type(0), b)
        for number, cta in enumerate(self.ctas):
            self._multiply(number, cta, b)

    def _multiply(self, number: int, cta: int, b: Bits) -> None:
        found = self.found
        own = slice(number * self.rows, (number + 1) * self.rows)
        lane, column = self._cells("d", self.shape.lane[own], self.shape.column[own])
        self._written = np.unique(_numbers(lane, column))
        a, present = self._a(cta, own), None
        if found.sparse:
            a, present = self._expanded(cta, own, a)
        before = np.zeros((self.rows, found.n), np.uint32)
        if self.operation.adds:
            before = self._scaled(self.memory.read(self.by, cta, lane, column))
        after = found.product(
            a[None],
            b.T[None],
            before[None],
            present=None if present is None else present[None],
            signs=found.negate,
            scales=self._scales(cta),
        )[0].astype(np.uint32)
        self._write(number, cta, lane, column, after)

    def _write(self, number: int, cta: int, lane: Bits, column: Bits, words: Bits) -> None:
        if self.operation.disabled is None:
            self.memory.write(self.by, cta, lane, column, words)
            return
        bits = np.unpackbits(self.operation.disabled.view(np.uint8), bitorder="little").astype(bool)
        kept = ~bits[number * LANES : (number + 1) * LANES][lane]
        self.memory.write(self.by, cta, lane[kept], column[kept], words[kept])

    def _scaled(self, words: Bits) -> Bits:
        """D before it, times a power of two where the instruction says so."""
        if not self.operation.scale_d:
            return words
        factor = 2.0**-self.operation.scale_d
        if self.found.product.d == "f16":
            halves = words.astype(np.uint16).view(np.float16) * np.float16(factor)
            return halves.view(np.uint16).astype(np.uint32)
        return (words.view(np.float32) * np.float32(factor)).view(np.uint32)

    def _cells(self, name: str, lane: Bits, column: Bits) -> tuple[Bits, Bits]:
        """Cells from the address that an operand gives."""
        return lane + (self.given[name] >> 16), column + (self.given[name] & 0xFFFF)

    def _read(self, what: str, cta: int, lane: Bits, column: Bits) -> Bits:
        """The words of an operand beside D. Raises simulator.tensor-memory where D is written to its cells."""
        both = np.intersect1d(_numbers(lane, column), self._written)
        if both.size:
            at, fix = int(both[0]) % COLUMNS, f"give D and {what} columns that do not overlap"
            self.memory.refuse(self.by, f"D is written to column {at}, where {what} are read from", fix)
        return self.memory.read(self.by, cta, lane, column)

    def _a(self, cta: int, own: slice) -> Bits:
        """The codes of A's rows of a CTA, as stored."""
        if not self.operation.a_in_tensor:
            return self._shared(cta, "a", self.rows)
        found = self.found
        column = np.arange(self.stored_k * found.width // _WORD)
        lane, column = self._cells("a", self.shape.row_lanes[own][:, None], column[None])
        words = self._read("the rows of A", cta, lane, column)
        codes = descriptors.codes_of(np.ascontiguousarray(words).view(np.uint8), found.width)
        if found.in_bytes:
            codes = elements.from_bytes(found.product.a, codes)
        if self.operation.form.shifted:
            codes = np.concatenate([codes[:1], codes[:-1]])
        return codes

    def _shared(self, cta: int, name: str, rows: int) -> Bits:
        """The codes of `rows` rows of an operand in shared memory."""
        found = self.found
        matrix = descriptors.of_tcgen05(self.given[name])
        if matrix is None or matrix.absolute:
            self.memory.refuse(
                self.by, f"descriptor {self.given[name]:#018x} has a mode that the simulator does not know"
            )
        k_major = not found.transpose[name == "b"]
        size = (self.stored_k if name == "a" else found.k) * found.width // 8
        chunks = matrix.chunks(rows, size, k_major=k_major, bits=found.width)
        addresses = shared_addresses(self.operation.wave, cta, chunks)
        data = self.operation.wave.read(self.by, "shared::cluster", addresses, descriptors.CHUNK)
        self.operation.wave.part(Swizzles).check(self.by, "shared::cluster", addresses, matrix.swizzle, matrix.base)
        if found.in_bytes:
            kind = found.product.a if name == "a" else found.product.b
            data = descriptors.in_bytes(data, elements.width(kind))
        return matrix.matrix(data, k_major=k_major, bits=found.width)

    def _expanded(self, cta: int, own: slice, stored: Bits) -> tuple[Bits, Bits]:
        """A sparse A with its zeros."""
        found = self.found
        if found.selector:
            self.memory.refuse(self.by, f"a sparsity selector of {found.selector}, which the simulator does not know")
        chunks = found.k // chunk_elements(found.width)
        lane, column, bit = metadata_cells(self.rows, chunks, found.width, self.shape.row_lanes[own])
        lane, column = self._cells("metadata", lane, column)
        words = self._read("the indices of A", cta, lane, column)
        codes = (words >> bit.astype(np.uint32)).astype(np.uint8) & np.uint8(15)
        check_codes(self.operation.wave, self.by, codes, found.width)
        return expanded(stored, codes, found.width)

    def _scales(self, cta: int) -> Scales | None:
        found, factors = self.found, self.operation.form.factors
        if not factors:
            return None
        split = len(self.ctas) == 2 and found.m == LANES
        of_a = self._factors(cta, "scale_a", self.rows, found.scale_ids[0], split=False)
        of_b = self._factors(cta, "scale_b", found.n, found.scale_ids[1], split=split)
        return Scales(found.scale, of_a[None], of_b.T[None])

    def _factors(self, cta: int, name: str, rows: int, first: int, *, split: bool) -> Bits:
        """(rows, factors) bytes."""
        lane, column = self._cells(name, *scale_cells(rows, split=split))
        words = self._read(f"the factors of {name[-1].upper()}", cta, lane, column)
        shifts = (8 * (first + np.arange(self.operation.form.factors))).astype(np.uint32)
        return (words[:, None] >> shifts).astype(np.uint8)


def _numbers(lane: Bits, column: Bits) -> Bits:
    """A number for each cell."""
    return lane * COLUMNS + column
