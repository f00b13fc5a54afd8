"""The selector of mma.sync: from a request and the exact target to the row, or to every reason against one.

The legal values are in the forms of `intrinsics.mma`; nothing here repeats one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from nvbackend.diagnostics import Rule, raise_all, user_facing
from nvbackend.intrinsics.mma import mma
from nvbackend.intrinsics.mma.form import Form, MmaInstruction
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import f32, tf32
from nvbackend.isel.select.mma import rules
from nvbackend.isel.select.mma.request import MmaRequest
from nvbackend.isel.target.target import Gate, Target, Values, dotted, targets_with, why_not


def _distinct(texts: Iterable[str]) -> str:
    """Choices for people, each once and in order."""
    return " or ".join(dict.fromkeys(texts))


def _types(instruction: MmaInstruction, forms: Sequence[Form]) -> Iterator[str]:
    """The types in one set with A or B, where f32 counts as what it can be rounded to, or else all."""
    wanted = {tf32 if element is f32 else element for element in (instruction.a, instruction.b)}
    near = [form for form in forms if not wanted.isdisjoint(form.types)]
    sets = [*dict.fromkeys("/".join(map(str, form.types)) for form in near or forms)]
    yield f"A and B of {sets[0]}" if len(sets) == 1 else f"A and B from one of these: {', '.join(sets)}"


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
    "types": (rules.TYPES, _types),
    "kind": (rules.KIND, _kinds),
    "sparsity": (rules.SPARSITY, _sparsities),
    "operation": (rules.OPERATION, _operations),
    "shape": (rules.EXTENT, _shapes),
    "accumulators": (rules.ACCUMULATORS, _accumulators),
    "layouts": (rules.LAYOUTS, _layouts),
    "scaling": (rules.SCALE, _scales),
    "satfinite": (rules.SATFINITE, _no_text),
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
        row, value = mma.mma(request.instruction), getattr(request, name)
        allowed = row.operand(name).values or () if row.has_operand(name) else (0,)
        if value in allowed and not isinstance(value, bool):
            return None
        legal = _distinct(map(str, allowed))
        return {**_values(request.instruction), "name": name.replace("_", "-"), "given": value, "legal": legal}

    return Gate(rules.IMMEDIATE, breach)


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
    *(Gate(rules.TARGET, _other_target), Gate(rules.PTX_VERSION, _old_ptx)),
    *map(_immediate, IMMEDIATES),
)
"""Every gate: the axes that fit no form, in their order, the target, the immediates.

A request that breaks none has a row that ptxas takes for the target.
"""


def row_of(request: MmaRequest) -> Row:
    """The row of a request that breaks no rule."""
    return mma.mma(request.instruction)


@user_facing
def select_mma(request: MmaRequest, target: Target) -> Row:
    """The row of mma.sync, mma.sp or block-scaled mma that does `request` on `target`.

    Raises every broken rule of the request together (ids `mma.*`), at the caller's line.
    """
    raise_all(why_not(GATES, request, target))
    return row_of(request)
