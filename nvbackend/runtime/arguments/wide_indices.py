"""Indices of large arrays that wrap: `row * stride` of two i32 keeps its low 32 bits.

The simulator holds no such array, and before a launch nobody knows the sizes. So some threads of a launch are followed
through the PTX with the arguments that it has, in two ways: with numbers as the hardware computes them, and with exact
ones. What depends on memory is unknown, and ends the way where it decides a branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from nvbackend.diagnostics import Diagnostic, DiagnosticError
from nvbackend.dry_run.values.arithmetic import signed
from nvbackend.ptx import parse
from nvbackend.ptx.names import names_in, resolve
from nvbackend.ptx.syntax import Address, Instruction, Integer, Label, Name, Operand
from nvbackend.runtime.arguments.exact import Number, computed, converted, of_constant
from nvbackend.runtime.arguments.large import extent_of
from nvbackend.runtime.rules import WRAPPED_INDEX
from nvbackend.signature import Pointer, Scalar, Signature
from nvbackend.simulator.events import Site
from nvbackend.simulator.program.listing import listing

_STEPS = 4000
"""So many instructions of each thread."""
_MOST_LAUNCHES = 16
"""So many launches of a kernel are followed, each for up to a third of a second."""
_APART = 52
"""Arrays are taken to lie so many bits apart."""
_PARTS = ((1, 1), (1, 2), (1, 4), (3, 4), (7, 8), (15, 16))
Grid = tuple[int, int, int]
Thread = tuple[Grid, Grid]
"""The indices of a thread in its CTA, and of the CTA in the grid."""


class _Wrapped(NamedTuple):
    """The place of a parameter, the byte that is meant, the one that is accessed, and the instruction."""

    place: int
    meant: int
    accessed: int
    site: Site


class WideIndices:
    """Those of one compiled kernel."""

    def __init__(self, signature: Signature, compiled: object) -> None:
        self._signature = signature
        self._compiled = compiled
        self._right: set[tuple[int, ...]] = set()
        """The magnitudes of launches in which nothing wraps."""

    def wrapped(self, grid: Grid, values: Sequence[Any]) -> list[Diagnostic]:
        """launch.wrapped-index for the first access at an index that wraps; `values` are arguments that are bound.

        A launch is not followed where another one had numbers of as many bits, nor after `_MOST_LAUNCHES`: in a program
        whose sizes grow with each launch, every one of them would take longer than its kernel.
        """
        extents = [extent_of(value) for value in values]
        kinds = [parameter.type for parameter in self._signature.parameters]
        numbers = [_integer(kind, value) for kind, value in zip(kinds, values, strict=True)]
        magnitudes = tuple((number or 0).bit_length() for number in (*grid, *extents, *numbers))
        if magnitudes in self._right or len(self._right) >= _MOST_LAUNCHES:
            return []
        diagnostics = list(self._first(grid, extents, numbers))
        if not diagnostics:
            self._right.add(magnitudes)
        return diagnostics

    def _first(self, grid: Grid, extents: Sequence[int], numbers: Sequence[int | None]) -> Iterator[Diagnostic]:
        if self._code is None:
            return
        for thread in _threads(grid, self._signature.bounds.shape):
            way = _Way(self._code, self._signature, grid, thread, extents, numbers)
            access = next(way.wrapped(), None)
            if access is not None:
                parameter = self._signature.parameters[access.place]
                size = max(parameter.type.element.bits // 8, 1) if isinstance(parameter.type, Pointer) else 1
                yield WRAPPED_INDEX.diagnose(
                    name=parameter.name,
                    thread=_shown(thread[0]),
                    cta=_shown(thread[1]),
                    meant=access.meant // size,
                    accessed=access.accessed // size,
                    notes=((f"PTX {access.site}", access.site.origin),),
                )
                return

    @cached_property
    def _code(self) -> _Code | None:
        text = getattr(self._compiled, "ptx", None)
        try:
            code = _Code(text, self._signature.name) if text else None
        except (DiagnosticError, StopIteration):  # text that this does not read, of another compiler
            return None
        return code if code is not None and len(code.parameters) == len(self._signature.parameters) else None


class _Code:
    """The instructions of a kernel, and where its labels are."""

    def __init__(self, text: str, kernel: str) -> None:
        module = parse(text)
        self.names = resolve(module)
        function = next(each for each in module.functions if each.name == kernel)
        self.lines = listing(module, function)
        self.parameters = [each.name for each in function.parameters]

    def target(self, branch: Instruction) -> int | None:
        """The index of the instruction that a branch goes to."""
        last = branch.operands[-1]
        declared = self.names[last] if isinstance(last, Name) else None
        return self.lines.labels.get(declared.position) if isinstance(declared, Label) else None


class _Way:
    """One thread on its way."""

    def __init__(
        self,
        code: _Code,
        signature: Signature,
        grid: Grid,
        thread: Thread,
        extents: Sequence[int],
        numbers: Sequence[int | None],
    ) -> None:
        self._code = code
        self._extents = extents
        self._registers: dict[str, Number] = {}
        self._given = {
            name: of_constant((place + 1) << _APART if extent else number)
            for place, (name, extent, number) in enumerate(zip(code.parameters, extents, numbers, strict=True))
            if extent or number is not None
        }
        sizes = {"tid": thread[0], "ntid": signature.bounds.shape, "ctaid": thread[1], "nctaid": grid}
        self._specials = {
            f"%{name}.{axis}": of_constant(number)
            for name, indices in sizes.items()
            for axis, number in zip("xyz", indices, strict=True)
        }

    def wrapped(self) -> Iterator[_Wrapped]:
        """The accesses that are in no array, and would be in one if no index had wrapped."""
        place, lines = 0, self._code.lines.lines
        for _ in range(_STEPS):
            if place >= len(lines):
                return
            instruction, site = lines[place]
            place += 1
            opcode = instruction.parts[0]
            holds = True if instruction.guard is None else self._holds(instruction)
            if opcode in ("bra", "ret", "exit", "brx", "call", "trap"):
                target = self._code.target(instruction) if opcode == "bra" else None
                if holds is None or (holds and target is None):
                    return
                place = target if holds and target is not None else place
                continue
            if holds:
                yield from self._accesses(instruction, site)
                self._execute(instruction)
            elif holds is None:
                self._forget(instruction)

    def _holds(self, instruction: Instruction) -> bool | None:
        assert instruction.guard is not None
        known = self._registers.get(instruction.guard.register.text)
        return None if known is None else bool(known.bits) is not instruction.guard.negated

    def _accesses(self, instruction: Instruction, site: Site) -> Iterator[_Wrapped]:
        for operand in instruction.operands:
            base = self._value(operand.base) if isinstance(operand, Address) else None
            if base is None or base.exact is None or not isinstance(operand, Address):
                continue
            real, meant = base.bits + operand.offset, base.exact + operand.offset
            place = self._array(meant)
            if place is not None and self._array(real) is None:
                start = (place + 1) << _APART
                yield _Wrapped(place, meant - start, real - start, site)

    def _array(self, address: int) -> int | None:
        place, offset = (address >> _APART) - 1, address & (1 << _APART) - 1
        return place if 0 <= place < len(self._extents) and offset < self._extents[place] else None

    def _execute(self, instruction: Instruction) -> None:
        result = self._result(instruction)
        self._forget(instruction)
        if result is not None and isinstance(instruction.operands[0], Name):
            self._registers[instruction.operands[0].text] = result

    def _forget(self, instruction: Instruction) -> None:
        for name in names_in(instruction.operands[0]) if instruction.operands else ():
            self._registers.pop(name.text, None)

    def _result(self, instruction: Instruction) -> Number | None:
        parts, sources = instruction.parts, instruction.operands[1:]
        if parts[:2] == ("ld", "param") and isinstance(sources[0], Address):
            base = sources[0].base
            return self._given.get(base.text) if isinstance(base, Name) and not sources[0].offset else None
        values = [self._value(each) for each in sources]
        if parts[0] == "cvta":
            return values[0]
        if parts[0] == "selp":
            condition = values[2]
            return None if condition is None else values[0 if condition.bits else 1]
        known = [each for each in values if each is not None]
        if len(known) < len(values):
            return None
        return converted(parts, known[0]) if parts[0] == "cvt" and len(known) == 1 else computed(parts, known)

    def _value(self, operand: Operand) -> Number | None:
        if isinstance(operand, Integer):
            return of_constant(operand.value)
        if not isinstance(operand, Name):
            return None
        return self._registers.get(operand.text) or self._specials.get(operand.text)


def _threads(grid: Grid, block: Sequence[int]) -> Iterator[Thread]:
    """Some threads: the first and the last one of CTAs at the end of the grid, inside of it, and along each axis."""
    x, y, z = (extent - 1 for extent in grid)
    ctas = [(x * up // down, y * up // down, z * up // down) for up, down in _PARTS]
    last = tuple(extent - 1 for extent in (*block, 1, 1)[:3])
    for cta in dict.fromkeys([*ctas, (x, 0, 0), (0, y, 0), (0, 0, z)]):
        for thread in dict.fromkeys([(0, 0, 0), last]):
            yield (thread[0], thread[1], thread[2]), cta


def _integer(kind: object, value: Any) -> int | None:
    """An integer argument as its parameter has it."""
    if not isinstance(kind, Scalar) or not kind.element.is_integer:
        return None
    bits = int.from_bytes(value, "little") if isinstance(value, bytes) else int(value)
    return signed(bits & (1 << kind.element.bits) - 1, kind.element.bits) if kind.element.is_signed else bits


def _shown(indices: Grid) -> str:
    return str(indices) if any(indices[1:]) else str(indices[0])
