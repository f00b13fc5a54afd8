"""What an mma.sync instruction may be: every rule and its gate, for selector and verifier alike.

The legal values are in the forms of `intrinsics.mma`; nothing here repeats one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.mma.form import Form, MmaInstruction
from nvbackend.intrinsics.mma.mma import mma
from nvbackend.isel.select.mma.request import MmaRequest
from nvbackend.isel.target.target import Gate, Target, Values, dotted, targets_with

TYPES = Rule(
    id="mma.types",
    message="mma does not multiply {a} x {b}",
    fix="use {legal}",
    why="ptxas refuses the types; ones that it took would be read with the wrong width.",
    reference="PTX ISA 9.7.14.2 (matrix data types); ptxas 13.5",
)
KIND = Rule(
    id="mma.kind",
    message="mma {a} x {b} takes {legal}; given: {kind}",
    fix="use {arguments}",
    why="The kind says how wide an element is in its register, so ptxas refuses another one, or does not look at it.",
    reference="PTX ISA 9.7.14.5.14; ptxas 13.5",
)
SPARSITY = Rule(
    id="mma.sparsity",
    message="mma {product} takes {legal}; given: {sparsity}",
    fix="use {legal}",
    why="ptxas knows no such instruction.",
    reference="PTX ISA 9.7.14.6.3; ptxas 13.5",
)
OPERATION = Rule(
    id="mma.operation",
    message="mma {product} needs {legal} as its operation, not {operation}",
    fix="use {legal}",
    why="Single bits are combined by a bit operation and their ones counted; numbers are multiplied.",
    reference="PTX ISA 9.7.14.5.14 (.bitOp.popc)",
)
EXTENT = Rule(
    id="mma.extent",
    message="mma {product} has no shape {shape}",
    fix="use {legal}, and several instructions for a larger tile",
    why="ptxas knows no such shape.",
    reference="PTX ISA 9.7.14.1 (matrix shapes); ptxas 13.5",
)
ACCUMULATORS = Rule(
    id="mma.accumulators",
    message="mma {product} has {legal}, not D of type {d} and C of type {c}",
    fix="use {legal}",
    why="ptxas refuses the types.",
    reference="PTX ISA 9.7.14.2 (matrix data types); ptxas 13.5",
)
LAYOUTS = Rule(
    id="mma.layouts",
    message="mma {product} multiplies A and B as {legal}, not as {a_layout} and {b_layout}",
    fix="use {legal}, and load the operand transposed where it lies the other way (ldmatrix with .trans)",
    why="Only m8n8k4 of f16 has the choice: the fragments of the other shapes are those of one layout.",
    reference="PTX ISA 9.7.14.5.14 (.alayout, .blayout)",
)
SCALE = Rule(
    id="mma.scale",
    message="mma {product} takes {legal}; given: {given}",
    fix="use {legal}",
    why="The kind says how many elements share a scale factor and how it is written; ptxas refuses the rest.",
    reference="PTX ISA 9.7.14.3 (block scaling); ptxas 13.5",
)
SATFINITE = Rule(
    id="mma.satfinite",
    message="mma {product} has no .satfinite",
    fix="leave satfinite out: only integers of 8 and 4 bits have it",
    why="ptxas refuses the modifier.",
    reference="PTX ISA 9.7.14.5.14 (.satfinite)",
)
TARGET = Rule(
    id="mma.target",
    message="{target} has no mma {product}",
    fix="compile for {targets}, or use types that {target} multiplies",
    why="LLVM ends the process on what it cannot select, and ptxas refuses the instruction.",
    reference="PTX ISA 9.7.14.5.14, 9.7.14.6.3 (Target ISA Notes); ptxas 13.5",
)
PTX_VERSION = Rule(
    id="mma.ptx-version",
    message="mma {product} needs PTX {needed} or later; {target} is compiled with PTX {given}",
    fix="leave the PTX version of the target out, or give {needed} or later",
    why="LLVM ends the process on what it cannot select, and ptxas refuses the instruction.",
    reference="PTX ISA 9.7.14.5.14, 9.7.14.6.3 (PTX ISA Notes); ptxas 13.5",
)
IMMEDIATE = Rule(
    id="mma.immediate",
    message="the {name} of mma {product} is {legal}, not {given}",
    fix="use {legal}",
    why="It names the threads or bytes that count: ptxas refuses another one, or the hardware reads what is not meant.",
    reference="PTX ISA 9.7.14.3 (byte-id, thread-id), 9.7.14.6.1 (sparsity selector)",
)


def _distinct(texts: Iterable[str]) -> str:
    """Choices for people, each once and in order."""
    return " or ".join(dict.fromkeys(texts))


def _types(instruction: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    """The types in one set with A or B, or else all."""
    near = [form for form in forms if instruction.a in form.types or instruction.b in form.types]
    for form in near or forms:
        names = "/".join(str(element) for element in form.types)
        yield f"A and B of {names}"


def _kinds(_: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    return (_kind(form.kind) for form in forms)


def _kind(kind: object) -> str:
    return "no kind" if kind is None else f"kind::{kind}"


def _argument(kind: str) -> str:
    """A kind as a call takes it."""
    _, prefix, name = kind.partition("kind::")
    return f'kind="{name}"' if prefix else "kind=None"


def _sparsities(_: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    return (_sparsity(form.sparsity) for form in forms)


def _sparsity(sparsity: object) -> str:
    return "a dense A" if sparsity is None else f"mma.{sparsity}"


def _operations(_: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    return (_operation(form.operation) for form in forms)


def _operation(operation: object) -> str:
    return "no operation" if operation is None else f".{operation}.popc"


def _shapes(instruction: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    """Nearest first."""
    legal = (shape for form in forms for shape in form.shapes)
    return map(_shape, sorted(legal, key=lambda shape: sum(map(abs, map(_difference, shape, instruction.shape)))))


def _difference(left: int, right: object) -> int:
    return left - right if isinstance(right, int) else left


def _shape(shape: Iterable[object]) -> str:
    return "".join(f"{letter}{extent}" for letter, extent in zip("mnk", shape, strict=False))


def _accumulators(_: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    for form in forms:
        for d, c in form.accumulators:
            yield f"D and C of type {d}" if d is c else f"D of type {d} and C of type {c}"


def _layouts(_: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    return (f"{a} and {b}" for form in forms for a, b in form.layouts)


def _scales(_: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    return (_scale(vector, scale) for form in forms for vector, scale in form.scales)


def _scale(vector: object, scale: object) -> str:
    if scale is None:
        return "no scale factors" if vector is None else f"scale_vec::{vector}X without a type of factor"
    return f"{scale} factors" + ("" if vector is None else f" and scale_vec::{vector}X")


def _no_text(_: MmaInstruction, __: Sequence[Form]) -> Iterator[str]:
    return iter(())


Legal = Callable[[MmaInstruction, Sequence[Form]], Iterable[str]]
"""What an axis may be for an instruction, in words: what the forms have that fit its axes before."""
AXIS_RULES: dict[str, tuple[Rule, Legal]] = {
    "types": (TYPES, _types),
    "kind": (KIND, _kinds),
    "sparsity": (SPARSITY, _sparsities),
    "operation": (OPERATION, _operations),
    "shape": (EXTENT, _shapes),
    "accumulators": (ACCUMULATORS, _accumulators),
    "layouts": (LAYOUTS, _layouts),
    "scaling": (SCALE, _scales),
    "satfinite": (SATFINITE, _no_text),
}
"""By the name of the axis in `mma.form.AXES`, in its order: the rule of an axis that no form has, and what is legal."""
IMMEDIATES = ("selector", "byte_id_a", "thread_id_a", "byte_id_b", "thread_id_b")
"""The immediates of a request; one that the instruction does not have is 0."""


def _axis(axis: str, rule: Rule, legal: Legal) -> Gate[MmaRequest]:
    def breach(request: MmaRequest, _: Target) -> Values | None:
        narrowed, instruction = request.narrowed, request.instruction
        if axis not in narrowed.misses:
            return None
        choices = [*legal(instruction, narrowed.before[axis])]
        return {**_values(instruction), "legal": _distinct(choices), "arguments": _distinct(map(_argument, choices))}

    return Gate(rule, breach)


def _immediate(name: str) -> Gate[MmaRequest]:
    def breach(request: MmaRequest, _: Target) -> Values | None:
        if request.narrowed.misses:
            return None
        row, value = mma(request.instruction), getattr(request, name)
        allowed = row.operand(name).values or () if row.has_operand(name) else (0,)
        if value in allowed and not isinstance(value, bool):
            return None
        legal = _distinct(map(str, allowed))
        return {**_values(request.instruction), "name": name.replace("_", "-"), "given": value, "legal": legal}

    return Gate(IMMEDIATE, breach)


def _values(instruction: MmaInstruction) -> Values:
    return {
        "product": product(instruction),
        "a": instruction.a,
        "b": instruction.b,
        "c": instruction.c,
        "d": instruction.d,
        "a_layout": instruction.a_layout,
        "b_layout": instruction.b_layout,
        "kind": _kind(instruction.kind),
        "sparsity": _sparsity(instruction.sparsity),
        "operation": _operation(instruction.operation),
        "shape": _shape(instruction.shape),
        "given": _scale(instruction.scale_vec, instruction.scale),
    }


def product(instruction: MmaInstruction) -> str:
    """What an mma multiplies, in words for messages."""
    kind = "" if instruction.kind is None else f"kind::{instruction.kind} "
    sparse = "" if instruction.sparsity is None else "sparse "
    return f"{kind}{_shape(instruction.shape)} {sparse}{instruction.a} x {instruction.b} -> {instruction.d}"


def _other_target(request: MmaRequest, target: Target) -> Values | None:
    forms = request.narrowed.forms
    if any(target.has(form.requires) for form in forms):
        return None
    targets = targets_with(*dict.fromkeys(form.requires for form in forms))
    return {"product": product(request.instruction), "target": target, "targets": targets}


def _old_ptx(request: MmaRequest, target: Target) -> Values | None:
    versions = [form.ptx_version for form in request.narrowed.forms if target.has(form.requires)]
    if not versions or target.ptx_version >= min(versions):
        return None
    needed, offered = dotted(min(versions)), dotted(target.ptx_version)
    return {"product": product(request.instruction), "target": target, "needed": needed, "given": offered}


GATES = (
    *(_axis(axis, rule, legal) for axis, (rule, legal) in AXIS_RULES.items()),
    *(Gate(TARGET, _other_target), Gate(PTX_VERSION, _old_ptx)),
    *map(_immediate, IMMEDIATES),
)
"""Every gate: the axes that fit no form, in their order, the target, the immediates.

A request that breaks none has a row that ptxas takes for the target.
"""
