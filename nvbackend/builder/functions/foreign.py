"""Functions of other compilers, called from our kernels: `nvb.extern_function`.

Their PTX is in the module as `module asm`, which LLVM prints after the header; the call is a row of inline asm, and so
everything judges it as one instruction with the effects that are declared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.functions import foreign_abi as abi
from nvbackend.builder.functions.foreign_text import ForeignText, read
from nvbackend.builder.functions.linked import module_asm
from nvbackend.builder.functions.parameters import check_alignment, check_argument
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.ops.inline import effects as of_text
from nvbackend.builder.ops.inline.text import check_assembled
from nvbackend.builder.scopes.function_rules import CALL, FOREIGN, FOREIGN_EFFECTS
from nvbackend.diagnostics import DiagnosticError, caller_location, printed, user_facing
from nvbackend.intrinsics.row.row import Asm, Effect, Row, operand, output
from nvbackend.intrinsics.row.semantics import MemoryOperand, Semantics, reads, writes
from nvbackend.intrinsics.row.types import ElementType, Scalar
from nvbackend.ptx.syntax import Variable
from nvbackend.signature import Pointer

_OF_MEMORY = (of_text.READS, of_text.WRITES)
RESULTS = frozenset({"result", *(f"result{at}" for at in range(64))})
"""The names of outputs."""


@user_facing
def extern_function(
    name: str,
    parameters: Mapping[str, ElementType | Scalar | Pointer],
    result: ElementType | Sequence[ElementType] | None = None,
    *,
    ptx: str | bytes | os.PathLike[str],
    effects: Sequence[str] = (),
    extents: Mapping[str, int] | None = None,
) -> ExternFunction:
    """The device function `name` of a PTX text, which kernels and functions call: `y = scaled(k, x, 2)`.

    `ptx` is the text that another compiler printed, or the path of a file with it. `parameters` are element types and
    pointers, in the order of the text, under names that you choose. `result` is the type that the function returns;
    several types, such as `(f32, i32)`, are the members of a C struct, and the call returns a tuple.

    `effects` are those of `k.ptx`: "reads row" and "writes row" for a pointer, "reads" and "writes" for other global
    memory, "convergent" and "volatile". A function without effects only computes: LLVM may merge its calls, and leave
    them out. A pointer to shared memory is passed as a generic address, and its effects must always be given. `extents`
    are the numbers of bytes, from such a pointer on, that every call accesses completely; without them these accesses
    are not judged. The part of the text that the function uses is copied into the kernel, once.

    Raises function.foreign where the text has another function or does what only a kernel may (barriers, protocols,
    shared memory of its own), function.foreign-effects, ptx.syntax, ptx.undeclared. A call raises function.call,
    function.argument, and function.foreign for another target or a name that is taken. PTX ISA 7.1.
    """
    return ExternFunction(name, parameters, result, ptx, effects, extents or {})


@user_facing
class ExternFunction:
    """A function of another compiler, which is called with a builder and its arguments."""

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, ElementType | Scalar | Pointer],
        result: ElementType | Sequence[ElementType] | None,
        ptx: object,
        effects: Sequence[str],
        extents: Mapping[str, int],
    ) -> None:
        self.name = name
        self._text = read(name, ptx)
        self._kinds = self._checked_kinds(parameters)
        self.result = result
        self._results = self._checked_results(result)
        self._check_signature()
        self._check_extents(extents)
        self._row = self._made_row(self._checked_effects(effects), extents)

    @property
    def parameters(self) -> Mapping[str, Scalar | Pointer]:
        """What it takes, by name."""
        return dict(self._kinds)

    def __call__(self, k: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call it at the present place of the builder `k`; returns its result."""
        core = self._core(k)
        core.check_live()
        passed = self._bound(args, kwargs)
        values = {name: check_argument(core, self.name, name, kind, passed[name]) for name, kind in self._kinds.items()}
        for name, kind in self._kinds.items():
            if isinstance(kind, Pointer):
                check_alignment(self.name, name, kind, values[name], inline=False)
        self._text.check_target(core.target)
        _check_text(self._text, core)
        self._bring(core.llvm.module)
        pairs = zip(values.items(), self._text.function.parameters, strict=True)
        registers = {name: abi.passed(value, own) for (name, value), own in pairs}
        outputs = core.emit(self._row, registers)
        made = [abi.received(core, outputs[name][0], each.element, each.own) for name, each in self._results.items()]
        return None if not made else made[0] if isinstance(self.result, ElementType) else tuple(made)

    def _fail(self, problem: str, advice: str) -> NoReturn:
        FOREIGN.fail(function=self.name, problem=problem, advice=advice)

    def _checked_kinds(self, parameters: Mapping[str, Any]) -> dict[str, Scalar | Pointer]:
        kinds: dict[str, Scalar | Pointer] = {}
        for name, declared in parameters.items():
            kind = Scalar(declared) if isinstance(declared, ElementType) else declared
            if not isinstance(name, str) or not name.isidentifier() or not name.isascii() or name in RESULTS:
                advice = "use letters, digits and _, but neither result nor result0"
                self._fail(f"{name!r} is not a name of a parameter", advice)
            if not isinstance(kind, (Scalar, Pointer)) or (
                isinstance(kind, Scalar) and not abi.is_passed(kind.element)
            ):
                advice = "use an integer, a float of 16 bits or more, a pair of 32 bits, nvb.pred or nvb.Pointer"
                self._fail(f"its parameter {name} is {printed(declared)}, which C passes in no way", advice)
            kinds[name] = kind
        return kinds

    def _check_signature(self) -> None:
        """Raises function.foreign where the text's function takes or returns something else."""
        function = self._text.function
        wanted = len(self._kinds), len(function.parameters)
        if wanted[0] != wanted[1]:
            shown = ", ".join(map(abi.shown, function.parameters)) or "nothing"
            self._fail(
                f"{wanted[0]} parameter{' is' if wanted[0] == 1 else 's are'} declared, and its text has {wanted[1]}: "
                f"{shown}",
                "declare those of the text",
            )
        for (name, kind), own in zip(self._kinds.items(), function.parameters, strict=True):
            self._check_type(f"its parameter {name}", kind, own)
        for each in self._results.values():
            self._check_type("its result", Scalar(each.element), each.own)

    def _checked_results(self, result: object) -> dict[str, abi.Returned]:
        """The results by the names of outputs. Raises function.foreign for types that the text does not return."""
        elements = () if result is None else (result,) if isinstance(result, ElementType) else result
        if not isinstance(elements, Sequence) or not all(
            isinstance(each, ElementType) and abi.is_passed(each) for each in elements
        ):
            advice = "declare one element type, or several: (nvb.f32, nvb.i32)"
            self._fail(f"its result is {printed(result)}, which C cannot return", advice)
        returned = abi.returned(elements, self._text.function)
        if returned is None:
            shown = ", ".join(map(abi.shown, self._text.function.results)) or "nothing"
            declared = ", ".join(map(str, elements)) or "nothing"
            self._fail(f"it is declared to return {declared}, and its text returns {shown}", "declare that")
        names = ["result"] if len(returned) == 1 else [f"result{at}" for at in range(len(returned))]
        return dict(zip(names, returned, strict=True))

    def _check_type(self, what: str, kind: Scalar | Pointer, own: Variable) -> None:
        if not abi.fits(kind, own):
            declared = f"a pointer to {kind.element}" if isinstance(kind, Pointer) else str(kind.element)
            advice = "declare the type that the source of the function has"
            self._fail(f"{what} is declared {declared}, and its text has {abi.shown(own)}", advice)

    def _checked_effects(self, effects: Sequence[str]) -> dict[str, set[str]]:
        """The declared effects by kind, with the names of pointers. Raises function.foreign and its effects' rule."""
        words: dict[str, set[str]] = {}
        passed = (effects,) if isinstance(effects, str) else tuple(effects)
        pointers = {name: kind for name, kind in self._kinds.items() if isinstance(kind, Pointer)}
        for word in passed:
            kind, _, name = str(word).partition(" ")
            if kind not in of_text.FLAGS or (name and (kind not in _OF_MEMORY or name not in pointers)):
                advice = 'use "reads x" and "writes x" of a pointer x, "reads", "writes", "convergent" and "volatile"'
                self._fail(f"effects has {word!r}", advice)
            if kind == of_text.WRITES and name and pointers[name].const:
                self._fail(f"it writes {name}, a pointer that is declared const", "declare it without const=True")
            words.setdefault(kind, set()).add(name)
        self._check_shared(words, pointers)
        for effect in self._text.performed:
            if effect.kind not in words:
                does = f"{effect.kind} memory" if effect.kind in _OF_MEMORY else f"is {effect.kind}"
                lacking = dict.fromkeys(each.kind for each in self._text.performed if each.kind not in words)
                wanted = (*passed, *(word for lack in lacking for word in _of_pointers(lack, pointers)))
                code = effect.instruction.opcode
                FOREIGN_EFFECTS.fail(function=self.name, instruction=code, does=does, given=passed, wanted=wanted)
        return words

    def _check_extents(self, extents: Mapping[str, int]) -> None:
        for name, count in extents.items():
            kind = self._kinds.get(name)
            if not isinstance(kind, Pointer) or kind.space != "shared" or type(count) is not int or count < 1:
                advice = "give the bytes of pointers to shared memory by their names"
                self._fail(f"extents has {name!r}: {printed(count)}", advice)

    def _check_shared(self, words: Mapping[str, set[str]], pointers: Mapping[str, Pointer]) -> None:
        shared = [name for name, kind in pointers.items() if kind.space == "shared"]
        said = set().union(*(words.get(kind, set()) for kind in _OF_MEMORY))
        for name in shared:
            if name not in said:
                advice = f'write effects=("reads {name}",), and "writes {name}" where it stores'
                self._fail(f"{name} points to shared memory, and effects does not say what happens to it", advice)
        for effect in self._text.performed:
            if effect.space.startswith("shared") and not shared:
                advice = 'declare the parameter that points there: nvb.Pointer(nvb.f32, space="shared")'
                self._fail(f"it has {effect.instruction.opcode}, and no parameter points to shared memory", advice)

    def _made_row(self, declared: Mapping[str, set[str]], extents: Mapping[str, int]) -> Row:
        """The call as a row."""
        kinds, function = self._kinds, self._text.function
        flags = Effect.NONE
        for kind in declared:
            flags |= of_text.FLAGS[kind]
        results = [output(name, abi.register(Scalar(each.element), each.own)) for name, each in self._results.items()]
        pairs = zip(kinds.items(), function.parameters, strict=True)
        arguments = [operand(name, abi.register(kind, each)) for (name, kind), each in pairs]
        memory = [each for each in self._text.performed if each.kind in _OF_MEMORY]
        return Row(
            family="ptx",
            opcode=f"call {self.name}",
            ptx=f"call {self.name}",
            operands=(*results, *arguments),
            lowering=Asm(abi.template(function, kinds, self._results)),
            effects=flags,
            semantics=Semantics(
                memory=tuple(_touched(declared, extents)), atomic=bool(memory) and all(each.atomic for each in memory)
            ),
            section="the user's own",
            summary="A call of a function of another compiler.",
        )

    def _core(self, k: Any) -> Core:
        """The core of the builder that calls (function.call)."""
        if not isinstance(k, FunctionBuilder):
            problem = f"its first argument is {printed(k)}, not a builder"
            CALL.fail(call=self.name, problem=problem, advice=f"pass the builder first: {self.name}(k, ...)")
        core = k.core
        if core.attached is not None:
            problem = f"function {core.name} is attached to a compiler of its own, which links its module itself"
            CALL.fail(call=self.name, problem=problem, advice="link the text there, and call it by that compiler")
        return core

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name (function.call)."""
        names = list(self._kinds)
        passed = dict(zip(names, args, strict=False))
        takes = f"{self.name}({', '.join(['k', *names])})"
        twice = [name for name in kwargs if name in passed or name not in names]
        missing = [name for name in names if name not in passed and name not in kwargs]
        if len(args) > len(names) or twice or missing:
            counted = f"it takes {len(names)} argument(s), and the call passes {len(args) + len(kwargs)}"
            named = f"it does not take {twice[0]}, or takes it once" if twice else f"it lacks {', '.join(missing)}"
            problem = counted if len(args) > len(names) else named
            CALL.fail(call=takes, problem=f"{problem}, besides the builder", advice=f"call it as {takes}")
        return {**passed, **kwargs}

    def _bring(self, module: ir.Module) -> None:
        """Put what it needs of its text into the module. Raises function.foreign where a name is taken."""
        brought = [_Brought(name, module_asm(name, text)) for name, text in self._text.pieces()]
        for each in brought:
            known = module.globals.get(each.name)
            if known is not None and known != each:
                whose = "another text has" if isinstance(known, _Brought) else "the kernel's module has"
                self._fail(f"{whose} another {each.name}", "give it another name in its source, or name the kernel so")
        for each in brought:
            if each.name not in module.globals:
                module.add_global(each)
                module.scope.register(each.name)

    def __repr__(self) -> str:
        return f"<foreign function {self.name} of {', '.join(self._text.module.target)}>"


class _Brought:
    """An item of a foreign text as a global of llvmlite's module."""

    def __init__(self, name: str, line: str) -> None:
        self.name = name
        self.line = line

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Brought) and (self.name, self.line) == (other.name, other.line)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.line


def _touched(declared: Mapping[str, set[str]], extents: Mapping[str, int]) -> Iterator[MemoryOperand]:
    for kind, make in ((of_text.READS, reads), (of_text.WRITES, writes)):
        yield from (make(name, extents.get(name)) for name in sorted(declared.get(kind, ())) if name)


def _check_text(text: ForeignText, core: Core) -> None:
    """Raises what ptxas has against it, at the call."""
    try:
        check_assembled(text.printed(core.target), core.target)
    except DiagnosticError as error:
        at = caller_location()
        raise DiagnosticError([replace(each, location=at) for each in error.diagnostics]) from None


def _of_pointers(effect: str, pointers: Mapping[str, Pointer]) -> tuple[str, ...]:
    """An effect as it is declared: of memory with the name of each pointer that may have it."""
    names = [name for name, kind in pointers.items() if not (effect == of_text.WRITES and kind.const)]
    return tuple(f"{effect} {name}" for name in names) if effect in _OF_MEMORY and names else (effect,)
