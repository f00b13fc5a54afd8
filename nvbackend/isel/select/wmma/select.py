"""The selector of wmma: from a request and the exact target to the row, or to every reason against one.

The legal values are in the tables of `intrinsics.mma.wmma`; nothing here repeats one.
"""

from __future__ import annotations

from collections.abc import Iterable

from nvbackend.diagnostics import raise_all, user_facing
from nvbackend.intrinsics.fragments.wmma import FRAGMENTS, Shape, spelled_shape
from nvbackend.intrinsics.mma import wmma
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType, e4m3, e5m2, f32, f64, tf32
from nvbackend.isel.select.wmma import rules
from nvbackend.isel.select.wmma.request import WmmaMoveRequest, WmmaRequest
from nvbackend.isel.target.target import Gate, Target, Values, dotted, targets_with, why_not

AnyRequest = WmmaRequest | WmmaMoveRequest


def _or(values: Iterable[object]) -> str:
    return " or ".join(map(str, values))


def _nearest_first(shape: Shape, legal: Iterable[Shape]) -> str:
    """The legal shapes in words, those first that share most extents with `shape`."""
    by_distance = sorted(legal, key=lambda candidate: sum(x != y for x, y in zip(shape, candidate, strict=True)))
    return _or(map(spelled_shape, by_distance))


def _described(request: AnyRequest) -> str:
    if isinstance(request, WmmaMoveRequest):
        name = f"wmma.{request.operation}.{request.fragment}"
        return f"{name} {spelled_shape(request.shape)} {request.element}"
    popc = f".{request.popc}.popc" if request.popc else ""
    return f"wmma.mma{popc} {spelled_shape(request.shape)} {request.a}"


def _needed(request: AnyRequest) -> wmma.Needs | None:
    """What a target must have, None if the row is missing for another reason."""
    kind = request.kind
    if kind is None:
        return None
    return kind.gate if isinstance(request, WmmaMoveRequest) else wmma.gate_of_mma(kind, request.popc)


def _other_target(request: AnyRequest, target: Target) -> Values | None:
    needed = _needed(request)
    if needed is None or target.has(needed[0]):
        return None
    popc = request.kind.popc if request.kind else {}
    operations = [f".{operation}.popc" for operation, (features, _) in popc.items() if target.has(features)]
    types = [element for kind in wmma.KINDS if target.has(kind.gate[0]) for element in kind.types]
    return {
        "target": target,
        "instruction": _described(request),
        "alternative": _or(operations) if operations else f"multiplicands of {_or(types)}",
        "targets": targets_with(needed[0]),
    }


TARGET = Gate(rules.TARGET, _other_target)


def _old_ptx(request: AnyRequest, target: Target) -> Values | None:
    needed = _needed(request)
    if needed is None or not target.has(needed[0]) or target.ptx_version >= needed[1]:
        return None
    versions = {"needed": dotted(needed[1]), "given": dotted(target.ptx_version)}
    return {"instruction": _described(request), "target": target, **versions}


PTX_VERSION = Gate(rules.PTX_VERSION, _old_ptx)

_STAND_INS: dict[ElementType, str] = {
    f32: f"{tf32} multiplicands (m16n16k8)",
    **dict.fromkeys((e4m3, e5m2), "mma.sync, which has types of 8 bits and less"),
}


def _other_types(request: WmmaRequest, _: Target) -> Values | None:
    kind = request.kind
    known = [element for listed in wmma.KINDS for element in listed.types]
    if kind is not None:
        if request.c in kind.accumulators and request.d in kind.accumulators:
            return None
        instead = f"C and D of {_or(kind.accumulators)}"
    elif request.a in known and request.b in known:
        instead = f"one type for A and B, {request.a} or {request.b}"
    else:
        odd = request.a if request.a not in known else request.b
        instead = _STAND_INS.get(odd, f"A and B of {_or(known)}")
    return {"a": request.a, "b": request.b, "c": request.c, "d": request.d, "instead": instead}


TYPES = Gate(rules.TYPES, _other_types)

_MISCOMPILED = ((16, 16, 16), (16, 16, 8))
"""Shapes of f64 that ptxas takes."""


def _other_shape(request: WmmaRequest, _: Target) -> Values | None:
    kind = request.kind
    if kind is None or request.shape in kind.shapes:
        return None
    wrong_code = request.a is f64 and request.shape in _MISCOMPILED
    return {
        "a": request.a,
        "given": spelled_shape(request.shape),
        "remark": ": ptxas takes it and emits no multiplication" if wrong_code else "",
        "legal": _nearest_first(request.shape, kind.shapes),
    }


SHAPE = Gate(rules.SHAPE, _other_shape)


def _other_layouts(request: WmmaRequest, _: Target) -> Values | None:
    kind = request.kind
    if kind is None or (request.a_layout, request.b_layout) in kind.layouts:
        return None
    legal, layouts = _or(map(".".join, kind.layouts)), f"{request.a_layout}.{request.b_layout}"
    return {"instruction": _described(request), "legal": legal, "given": layouts}


def _other_layout(request: WmmaMoveRequest, _: Target) -> Values | None:
    legal = request.kind.layouts_of(request.fragment) if request.kind else ()
    if request.kind is None or request.layout in legal:
        return None
    return {"instruction": _described(request), "legal": _or(legal), "given": request.layout}


LAYOUTS = Gate(rules._LAYOUT, _other_layouts)

MOVED_LAYOUT = Gate(rules._LAYOUT, _other_layout)


def _saturates(request: WmmaRequest, _: Target) -> Values | None:
    if request.kind is None or request.kind.saturates or not request.satfinite:
        return None
    return {"a": request.a, "legal": _or(element for kind in wmma.KINDS if kind.saturates for element in kind.types)}


SATFINITE = Gate(rules.SATFINITE, _saturates)


def _other_rounding(request: WmmaRequest, _: Target) -> Values | None:
    if request.kind is None or request.rounding in request.kind.roundings:
        return None
    legal = [rounding for rounding in request.kind.roundings if rounding]
    instead = f"use {_or(legal)}, or none for rn" if legal else f"leave rounding out; only {f64} has it"
    return {"a": request.a, "given": request.rounding, "instead": instead}


ROUNDING = Gate(rules.ROUNDING, _other_rounding)


def _other_popc(request: WmmaRequest, _: Target) -> Values | None:
    if request.kind is None or request.popc in request.kind.operations:
        return None
    legal = _or(request.kind.popc)
    if not legal:
        problem = f".{request.popc}.popc is legal only on b1 multiplicands, not on {request.a}"
        return {"problem": problem, "instead": "leave popc out"}
    problem = f"wmma.mma {request.a} takes the bit operation {legal}, not {request.popc!r}"
    return {"problem": problem, "instead": f"give popc={legal}"}


POPC = Gate(rules.POPC, _other_popc)


def _other_fragment(request: WmmaMoveRequest, _: Target) -> Values | None:
    movable = [fragment for fragment in FRAGMENTS if (fragment == wmma.STORED) == (request.operation == "store")]
    known = request.operation in ("load", "store")
    if known and request.fragment in movable:
        return None
    legal = _or(map(repr, movable)) if known else "the operations load and store"
    return {"operation": request.operation, "given": request.fragment, "legal": legal}


FRAGMENT = Gate(rules.FRAGMENT, _other_fragment)


def _other_fragment_type(request: WmmaMoveRequest, _: Target) -> Values | None:
    if request.fragment not in FRAGMENTS or request.kind is not None:
        return None
    fragment = request.fragment
    shapes = {shape for kind in wmma.KINDS if request.element in kind.types_of(fragment) for shape in kind.shapes}
    types = dict.fromkeys(
        element for kind in wmma.KINDS if request.shape in kind.shapes for element in kind.types_of(fragment)
    )
    ways = []
    if shapes:
        ways.append(f"{_nearest_first(request.shape, sorted(shapes))} for {request.element}")
    if types:
        ways.append(f"{_or(types)} for {spelled_shape(request.shape)}")
    return {
        "fragment": fragment,
        "shape": spelled_shape(request.shape),
        "element": request.element,
        "legal": ", or ".join(ways) or "m16n16k16 with f16",
    }


FRAGMENT_TYPE = Gate(rules.FRAGMENT_TYPE, _other_fragment_type)


def _other_space(request: WmmaMoveRequest, _: Target) -> Values | None:
    if request.space in wmma.SPACES:
        return None
    legal = _or(repr(space) for space in wmma.SPACES if space is not None)
    return {"operation": request.operation, "given": request.space, "legal": legal}


SPACE = Gate(rules.SPACE, _other_space)

GATES: tuple[Gate[WmmaRequest], ...] = (TARGET, PTX_VERSION, TYPES, SHAPE, LAYOUTS, SATFINITE, ROUNDING, POPC)
"""Every gate of a multiplication. A request that breaks none has a row that ptxas takes for the target."""

MOVE_GATES: tuple[Gate[WmmaMoveRequest], ...] = (TARGET, PTX_VERSION, FRAGMENT, FRAGMENT_TYPE, MOVED_LAYOUT, SPACE)
"""Every gate of a load or store."""


def row_of(request: WmmaRequest | WmmaMoveRequest) -> Row:
    """The row of a request that breaks no rule."""
    return _moving(request) if isinstance(request, WmmaMoveRequest) else _multiplying(request)


def _multiplying(request: WmmaRequest) -> Row:
    return wmma.mma(
        request.shape,
        request.a,
        request.c,
        request.d,
        (request.a_layout, request.b_layout),
        satfinite=request.satfinite,
        rounding=request.rounding,
        popc=request.popc,
    )


def _moving(request: WmmaMoveRequest) -> Row:
    if request.operation == "store":
        return wmma.store(request.shape, request.element, request.layout, request.space, strided=request.strided)
    return wmma.load(
        request.fragment,
        request.shape,
        request.element,
        request.layout,
        request.space,
        strided=request.strided,
    )


@user_facing
def select_wmma(request: WmmaRequest, target: Target) -> Row:
    """The row of `wmma.mma` that does `request` on `target`.

    Raises every broken rule of the request together (ids `wmma.*`), at the caller's line.
    """
    raise_all(why_not(GATES, request, target))
    return row_of(request)


@user_facing
def select_wmma_move(request: WmmaMoveRequest, target: Target) -> Row:
    """The row of `wmma.load` or `wmma.store` that does `request` on `target`.

    Raises every broken rule of the request together (ids `wmma.*`), at the caller's line.
    """
    raise_all(why_not(MOVE_GATES, request, target))
    return row_of(request)
