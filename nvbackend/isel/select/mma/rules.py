"""What an mma.sync instruction may be: a rule for each axis of the choice, for selector and verifier alike.

The legal values are in the forms of `intrinsics.mma.mma`; nothing here repeats one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from nvbackend.diagnostics import Diagnostic, Location, Rule
from nvbackend.intrinsics.mma import mma
from nvbackend.intrinsics.mma.form import Form, MmaInstruction, narrow
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Role, Row
from nvbackend.isel.select.mma.request import MmaRequest
from nvbackend.isel.target.gates import Values
from nvbackend.isel.target.target import Target, dotted, target_names

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
    fix="use {legal}",
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


@dataclass(frozen=True, slots=True)
class AxisRule:
    """The rule that an axis of the choice breaks where no form that is left has its value, and the legal values."""

    rule: Rule
    legal: Callable[[MmaInstruction, Sequence[Form]], Iterable[str]]


def _distinct(texts: Iterable[str]) -> str:
    """Choices for people, each once and in order."""
    return " or ".join(dict.fromkeys(texts))


def _types(one: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    """The types in one set with A or B, or else all."""
    near = [form for form in forms if one.a in form.types or one.b in form.types]
    for form in near or forms:
        names = "/".join(str(element) for element in form.types)
        yield f"A and B of {names}"


def _kinds(_: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    return (_kind(form.kind) for form in forms)


def _kind(kind: object) -> str:
    return "no kind" if kind is None else f"kind::{kind}"


def _sparsities(_: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    return (_sparsity(form.sparsity) for form in forms)


def _sparsity(sparsity: object) -> str:
    return "a dense A" if sparsity is None else f"mma.{sparsity}"


def _operations(_: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    return (_operation(form.operation) for form in forms)


def _operation(operation: object) -> str:
    return "no operation" if operation is None else f".{operation}.popc"


def _shapes(one: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    """Nearest first."""
    legal = (shape for form in forms for shape in form.shapes)
    return map(_shape, sorted(legal, key=lambda shape: sum(map(abs, map(_difference, shape, one.shape)))))


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


AXIS_RULES: dict[str, AxisRule] = {
    "types": AxisRule(TYPES, _types),
    "kind": AxisRule(KIND, _kinds),
    "sparsity": AxisRule(SPARSITY, _sparsities),
    "operation": AxisRule(OPERATION, _operations),
    "shape": AxisRule(EXTENT, _shapes),
    "accumulators": AxisRule(ACCUMULATORS, _accumulators),
    "layouts": AxisRule(LAYOUTS, _layouts),
    "scaling": AxisRule(SCALE, _scales),
    "satfinite": AxisRule(SATFINITE, _no_text),
}
"""By the name of the axis in `mma.form.AXES`, in its order."""


def violations(request: MmaRequest, target: Target, at: Location | None = None) -> list[Diagnostic]:
    """Every rule that `request` breaks on `target`, at `at` or else at the caller's line.

    First the axes that fit no form of the instruction, in their order, then the target, then the immediates.
    """
    one = request.instruction
    found = narrow(mma.FORMS, one)
    values = _values(one)
    broken = [
        AXIS_RULES[axis].rule.diagnose(
            at=at, **values, legal=_distinct(AXIS_RULES[axis].legal(one, found.before[axis]))
        )
        for axis in found.misses
    ]
    broken += _target_violations(found.forms, target, values, at)
    if not found.misses:
        broken += _immediate_violations(request, mma.mma(one), values, at)
    return broken


def _values(one: MmaInstruction) -> Values:
    return {
        "product": product(one),
        "a": one.a,
        "b": one.b,
        "c": one.c,
        "d": one.d,
        "a_layout": one.a_layout,
        "b_layout": one.b_layout,
        "kind": _kind(one.kind),
        "sparsity": _sparsity(one.sparsity),
        "operation": _operation(one.operation),
        "shape": _shape(one.shape),
        "given": _scale(one.scale_vec, one.scale),
    }


def product(one: MmaInstruction) -> str:
    """What an mma multiplies, in words for messages."""
    kind = "" if one.kind is None else f"kind::{one.kind} "
    sparse = "" if one.sparsity is None else "sparse "
    return f"{kind}{_shape(one.shape)} {sparse}{one.a} x {one.b} -> {one.d}"


def _target_violations(
    forms: Sequence[Form], target: Target, values: Values, at: Location | None
) -> Iterator[Diagnostic]:
    there = [form for form in forms if target.has(form.requires)]
    if not there:
        targets = _targets(tuple(dict.fromkeys(form.requires for form in forms)))
        yield TARGET.diagnose(at=at, product=values["product"], target=target, targets=targets)
    elif all(target.ptx_version < form.ptx_version for form in there):
        yield PTX_VERSION.diagnose(
            at=at,
            product=values["product"],
            target=target,
            needed=dotted(min(form.ptx_version for form in there)),
            given=dotted(target.ptx_version),
        )


@cache
def _targets(requirements: tuple[Feature, ...]) -> str:
    """The targets that have all of one of `requirements`, in words."""
    every = [Target.parse(name) for name in target_names()]
    having = [target for target in every if any(target.has(features) for features in requirements)]
    if having == every[every.index(having[0]) :]:
        return f"{having[0]} or later"
    return _distinct(target.name for target in having)


def _immediate_violations(request: MmaRequest, row: Row, values: Values, at: Location | None) -> Iterator[Diagnostic]:
    legal = {operand.name: operand.values or () for operand in row.operands if operand.role is Role.IMMEDIATE}
    for name in IMMEDIATES:
        given, allowed = getattr(request, name), legal.get(name, (0,))
        if isinstance(given, bool) or given not in allowed:
            yield IMMEDIATE.diagnose(
                at=at,
                product=values["product"],
                name=name.replace("_", "-"),
                given=given,
                legal=_distinct(map(str, allowed)),
            )


IMMEDIATES = ("selector", "byte_id_a", "thread_id_a", "byte_id_b", "thread_id_b")
"""The immediates of a request; one that the instruction does not have is 0."""
RULES: tuple[Rule, ...] = (*(axis.rule for axis in AXIS_RULES.values()), TARGET, PTX_VERSION, IMMEDIATE)
"""Every rule. A request that breaks none has a row that ptxas takes for the target."""
