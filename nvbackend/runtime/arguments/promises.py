"""What a kernel promises of its scalar arguments by k.assume, which the simulator compares at each launch.

Promises that every thread makes at the start of the kernel, of integers alone, are read from its IR: a kernel of the
disk cache has nothing else of them. What its instructions compute is what the dry run computes of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from nvbackend.diagnostics import Diagnostic, Location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.dry_run.values import arithmetic
from nvbackend.dry_run.values.arithmetic import Operation, Registers, signed
from nvbackend.dry_run.values.unknown import UNKNOWN
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.runtime.rules import ASSUMED
from nvbackend.signature import Scalar, Signature

_ASSUME = "llvm.assume"
_OPERAND = r'(%"[^"]+"|-?\d+|true|false)'
_INSTRUCTION = (
    rf'  %"([^"]+)" = (\w+) +(?:\w+ )*?(\w*) ?i(\d+) {_OPERAND}'
    rf"(?:, (?:i(\d+) )?{_OPERAND})?(?:, i\d+ {_OPERAND})?(?: to i(\d+))? ?(?:, !|$)"
)
_ASSUMED = rf'  call void @"{re.escape(_ASSUME)}"\(i1 {_OPERAND}\)(?:, !dbg !(\d+))?'
_TRUTHS = {"true": 1, "false": 0}


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
        self._initial: Registers = [UNKNOWN] * len(self._integers)
        self._operations: list[Operation] = []
        self._places = _Places(ir, signature.name)
        self._promises = [promise for line in body.splitlines() if (promise := self._read(line)) is not None]

    def broken(self, values: Mapping[str, int]) -> Iterator[Diagnostic]:
        """launch.assumed for each promise that these arguments, by the names of their parameters, do not keep."""
        registers = [*self._initial]
        for number, (name, element) in enumerate(self._integers.items()):
            registers[number] = values[name] & (1 << element.bits) - 1
        for operation in self._operations:
            operation(registers)
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
        if match := re.match(_INSTRUCTION, line):
            name, opcode, predicate, width, first, others_width, *others, wanted = match.groups()
            bits = int(width)
            operands = [(first, bits), *((each, int(others_width or bits)) for each in others if each is not None)]
            reads = [self._operand(*each) for each in operands]
            to = self._operand(f'%"{name}"', bits)
            if (operation := _operation(opcode, predicate, to, reads, bits, int(wanted or 0))) is not None:
                self._operations.append(operation)
                none: frozenset[str] = frozenset()
                self._depends[to] = none.union(*(self._depends.get(each, none) for each in reads))
        return None

    def _operand(self, text: str, bits: int) -> int:
        """Its register, which nothing sets where its value is not known."""
        is_name = text.startswith("%")
        register = self._registers.setdefault(text if is_name else f"{text} i{bits}", len(self._initial))
        if register == len(self._initial):
            number = 0 if is_name else _TRUTHS[text] if text in _TRUTHS else int(text)
            self._initial.append(UNKNOWN if is_name else number & (1 << bits) - 1)
        return register


def _operation(opcode: str, predicate: str, to: int, reads: Sequence[int], bits: int, wanted: int) -> Operation | None:
    """An instruction as what sets the register `to`; `predicate` is the word before its type. None for others."""
    first, *others = reads
    if opcode in arithmetic.BINARY:
        return arithmetic.BINARY[opcode](to, first, others[0], bits)
    if opcode == "icmp":
        return arithmetic.compare(to, first, others[0], predicate, bits)
    if opcode == "select":
        return arithmetic.select(to, first, *others)
    if opcode == "sext":
        return arithmetic.sext(to, first, bits, wanted)
    if opcode == "trunc":
        return arithmetic.trunc(to, first, wanted)
    return arithmetic.copy(to, first) if opcode == "zext" else None


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
    return signed(value & (1 << element.bits) - 1, element.bits) if element.is_signed else value
