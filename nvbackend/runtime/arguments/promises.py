"""What a kernel promises of its scalar arguments by k.assume, which the simulator compares at each launch.

Promises that every thread makes at the start of the kernel, of integers alone, are read from its IR. A value of which
something is not known, or that LLVM leaves undefined, is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.arithmetic.relations import RELATIONS
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.runtime.rules import ASSUMED
from nvbackend.signature import Scalar, Signature

_ASSUME = "llvm.assume"
_RESULT = r'  %"([^"]+)" = '
_OPERAND = r'(%"[^"]+"|-?\d+|true|false)'
_BINARY = rf"{_RESULT}(\w+) (?:nuw |nsw |exact )*i(\d+) {_OPERAND}, {_OPERAND}"
_COMPARE = rf"{_RESULT}icmp (\w+) i(\d+) {_OPERAND}, {_OPERAND}"
_SELECT = rf"{_RESULT}select\s+i1 {_OPERAND}, i(\d+) {_OPERAND}, i\d+ {_OPERAND}"
_CAST = rf"{_RESULT}(zext|sext|trunc) i(\d+) {_OPERAND} to i(\d+)"
_ASSUMED = rf'  call void @"{re.escape(_ASSUME)}"\(i1 {_OPERAND}\)(?:, !dbg !(\d+))?'
Number = int | None
Operation = Callable[..., Number]
"""The bits of a result by those of its operands."""


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) else number


def _quotient(a: int, b: int) -> Number:
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _rest(a: int, b: int) -> Number:
    return None if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1)


_OPERATIONS: dict[str, Callable[[int, int, int], Number]] = {
    "add": lambda a, b, _: a + b,
    "sub": lambda a, b, _: a - b,
    "mul": lambda a, b, _: a * b,
    "and": lambda a, b, _: a & b,
    "or": lambda a, b, _: a | b,
    "xor": lambda a, b, _: a ^ b,
    "udiv": lambda a, b, _: _quotient(a, b),
    "urem": lambda a, b, _: _rest(a, b),
    "sdiv": lambda a, b, bits: _quotient(_signed(a, bits), _signed(b, bits)),
    "srem": lambda a, b, bits: _rest(_signed(a, bits), _signed(b, bits)),
    "shl": lambda a, b, bits: a << b if b < bits else None,
    "lshr": lambda a, b, bits: a >> b if b < bits else None,
    "ashr": lambda a, b, bits: _signed(a, bits) >> b if b < bits else None,
}
"""LLVM's instructions of two integers of so many bits."""


def _comparison(predicate: str, bits: int) -> Operation:
    relation = RELATIONS[predicate if predicate in RELATIONS else predicate[1:]]
    if predicate.startswith("s"):
        return lambda a, b: int(relation(_signed(a, bits), _signed(b, bits)))
    return lambda a, b: int(relation(a, b))


@dataclass(frozen=True, slots=True)
class _Step:
    """An instruction: the registers that it sets and reads, and the bits of its result."""

    to: int
    reads: tuple[int, ...]
    operation: Operation
    bits: int


@dataclass(frozen=True, slots=True)
class _Promise:
    """The register of a condition, the parameters that it depends on, and the line that promises it."""

    condition: int
    parameters: frozenset[str]
    place: Location | None


class Promises:
    """Those of one kernel."""

    def __init__(self, signature: Signature, body: str, ir: str) -> None:
        scalars = [(each.name, each.type.element) for each in signature.parameters if isinstance(each.type, Scalar)]
        self._integers = {name: element for name, element in scalars if element.is_integer}
        self._registers = {f'%"{name}"': number for number, name in enumerate(self._integers)}
        self._depends = {number: frozenset({name}) for number, name in enumerate(self._integers)}
        self._constants: dict[int, int] = {}
        self._steps: list[_Step] = []
        self._places = _Places(ir, signature.name)
        self._promises = [promise for line in body.splitlines() if (promise := self._read(line)) is not None]

    def broken(self, values: Mapping[str, int]) -> Iterator[Diagnostic]:
        """launch.assumed for each promise that these arguments, by the names of their parameters, do not keep."""
        registers: list[Number] = [self._constants.get(number) for number in range(len(self._registers))]
        for number, (name, element) in enumerate(self._integers.items()):
            registers[number] = values[name] & (1 << element.bits) - 1
        for step in self._steps:
            operands = [registers[each] for each in step.reads]
            result = None if None in operands else step.operation(*operands)
            registers[step.to] = None if result is None else result & (1 << step.bits) - 1
        for promise in self._promises:
            if registers[promise.condition] == 0:
                used = [each for each in self._integers.items() if each[0] in promise.parameters]
                arguments = ", ".join(f"{name} = {_as_given(values[name], element)}" for name, element in used)
                notes = () if promise.place is None else (("it is promised here", promise.place),)
                yield ASSUMED.diagnose(arguments=arguments, notes=notes)

    def _read(self, line: str) -> _Promise | None:
        if match := re.match(_ASSUMED, line):
            condition = self._operand(match[1], 1)
            parameters = self._depends.get(condition, frozenset())
            return _Promise(condition, parameters, self._places.of(match[2])) if parameters else None
        if match := re.match(_BINARY, line):
            name, opcode, width, *pair = match.groups()
            if (of_two := _OPERATIONS.get(opcode)) is not None:
                bits = int(width)
                self._add(name, [(each, bits) for each in pair], lambda a, b: of_two(a, b, bits), bits)
        elif match := re.match(_COMPARE, line):
            name, predicate, width, *pair = match.groups()
            bits = int(width)
            self._add(name, [(each, bits) for each in pair], _comparison(predicate, bits), 1)
        elif match := re.match(_SELECT, line):
            name, by, width, *pair = match.groups()
            bits = int(width)
            self._add(name, [(by, 1), *((each, bits) for each in pair)], lambda c, a, b: a if c else b, bits)
        elif match := re.match(_CAST, line):
            name, cast, width, operand, wanted = match.groups()
            bits = int(width)
            extended: Operation = (lambda a: _signed(a, bits)) if cast == "sext" else lambda a: a
            self._add(name, [(operand, bits)], extended, int(wanted))
        return None

    def _add(self, name: str, operands: Sequence[tuple[str, int]], operation: Operation, bits: int) -> None:
        """An instruction with a result of so many bits; each operand is its text and its bits."""
        reads = tuple(self._operand(*each) for each in operands)
        to = self._registers[f'%"{name}"'] = len(self._registers)
        none: frozenset[str] = frozenset()
        self._depends[to] = none.union(*(self._depends.get(each, none) for each in reads))
        self._steps.append(_Step(to, reads, operation, bits))

    def _operand(self, text: str, bits: int) -> int:
        """Its register, which nothing sets where its value is not known."""
        is_name = text.startswith("%")
        register = self._registers.setdefault(text if is_name else f"{text} i{bits}", len(self._registers))
        if not is_name:
            truth = {"true": 1, "false": 0}.get(text)
            self._constants[register] = (int(text) if truth is None else truth) & (1 << bits) - 1
        return register


class _Places:
    """The lines that debug information names."""

    def __init__(self, ir: str, function: str) -> None:
        self._ir, self._function = ir, function

    def of(self, number: str | None) -> Location | None:
        """The line of a place, by its number."""
        line = number and re.search(rf"^!{number} = .*?DILocation\(.*?line: (\d+)", self._ir, re.MULTILINE)
        file = re.search(r'!DIFile\([^\n]*?filename: "([^"]+)"', self._ir)
        return Location(file[1], int(line[1]), self._function) if line and file else None


def promises_of(signature: Signature, compiled: object) -> Promises | None:
    """What a `compiled` kernel promises of its scalar arguments; None for nothing."""
    if not any(isinstance(each.type, Scalar) for each in signature.parameters):
        return None
    ir = str(getattr(compiled, "ir", ""))
    start = rf'^define [^\n]*@"?{re.escape(signature.name)}"?\([^{{]*\{{\s*^entry:$(.*?)^  (?:br|ret|switch)\b'
    body = re.search(start, ir, re.MULTILINE | re.DOTALL) if _ASSUME in ir else None
    return None if body is None else Promises(signature, body[1], ir)


def _as_given(value: int, element: ElementType) -> int:
    """An argument as the parameter has it."""
    return _signed(value & (1 << element.bits) - 1, element.bits) if element.is_signed else value
