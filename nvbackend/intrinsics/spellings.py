"""Rows in their other spellings: instructions on generic addresses, and the longer and shorter names PTX has for one.

A row of another module has the spelling that the builder's calls emit. PTX's other spellings are derived from it
here: `.shared::cta` for `.shared`, no state space for a generic address, `bar.cta` and `barrier` for `bar`, a qualifier
that is the default left out or spelled. Each has the operands of its row, the axis `spelling`, and lowers by asm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

from nvbackend.intrinsics.copy import async_store, cache_control, cp_async, matrix_move, tensormap, tma_tensor
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Asm, PtxVersion, RegisterClass, Row, RowOperand
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import launch_control, mbarrier, mbarrier_phases

SPELLING = "spelling"
"""The axis that rows of this module have and no other: "generic", or what is spelled otherwise."""
GENERIC = "generic"

_QUALIFIED_PTX: PtxVersion = (7, 8)
"""The first PTX version that knows `.cta` after a barrier and `::cta` after `.shared`; cp.async always did."""
_SINK_PTX: dict[str, PtxVersion] = {"mbarrier.arrive": (7, 1), "mbarrier.arrive_drop": (7, 0)}
"""The first that takes a plain arrival without a result, where the barrier's address is generic (ptxas 13.5)."""


def _otherwise(
    row: Row,
    spelling: str,
    ptx: str,
    statement: str,
    *,
    ptx_version: PtxVersion | None = None,
    generic: tuple[str, ...] = (),
) -> Row:
    """`row` spelled `ptx`, by a statement over its operands; those named in `generic` are generic addresses."""
    operands = tuple(
        replace(operand, register=RegisterClass.GENERIC, meaning=f"{operand.meaning}; a generic address".lstrip("; "))
        if operand.name in generic
        else operand
        for operand in row.operands
    )
    return replace(
        row,
        ptx=ptx,
        operands=operands,
        lowering=Asm(f"{{ptx}} {statement};" if statement else "{ptx};"),
        ptx_version=ptx_version or row.ptx_version,
        axes={**row.axes, SPELLING: spelling},
    )


def _listed(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _named(operands: tuple[RowOperand, ...], *left_out: str) -> tuple[str, ...]:
    return tuple(f"{{{operand.name}}}" for operand in operands if operand.name not in left_out)


def _in_spaces(row: Row, statement: str, address: str, generic_ptx: PtxVersion | None = None) -> Iterator[Row]:
    """A row on a `.shared` address: with `.shared::cta`, and without a state space."""
    if ".shared." in row.ptx:
        longer = row.ptx.replace(".shared.", ".shared::cta.")
        yield _otherwise(row, "shared::cta", longer, statement, ptx_version=max(row.ptx_version, _QUALIFIED_PTX))
    plain = row.ptx.replace(".shared::cta.", ".").replace(".shared.", ".")
    yield _otherwise(row, GENERIC, plain, statement, ptx_version=generic_ptx, generic=(address,))


def _of_mbarrier(row: Row) -> Iterator[Row]:
    """PTX ISA 9.7.13.15: any operation on an mbarrier of this CTA, which a generic address can name as well."""
    operands = {operand.name: operand for operand in row.operands}
    if "barrier" not in operands or operands["barrier"].register is not RegisterClass.SHARED:
        return
    if row.axes.get("blocking"):
        return
    results = _named(row.outputs) or (("_",) if row.opcode.startswith("mbarrier.arrive") else ())
    plain_sink = not row.outputs and row.requires is Feature.SM_80
    earlier = _SINK_PTX.get(row.opcode) if plain_sink and not row.axes.get("semantics") else None
    yield from _in_spaces(row, _listed(*results, "[{barrier}]", *_named(row.inputs, "barrier")), "barrier", earlier)


def _of_matrix(row: Row) -> Iterator[Row]:
    """PTX ISA 9.7.14: ldmatrix and stmatrix."""
    if row.opcode in ("ldmatrix", "stmatrix"):
        parts = ("{{{fragment}}}", "[{address}]")
        yield from _in_spaces(row, _listed(*(parts if row.opcode == "ldmatrix" else reversed(parts))), "address")


def _of_copy(row: Row) -> Iterator[Row]:
    """PTX ISA 9.7.9: cp.async, whose destination is never a generic address."""
    if row.opcode == "cp.async":
        extra = _named(row.operands, "destination", "source")
        statement = _listed("[{destination}]", "[{source}]", str(row.axes["size"]), *extra)
        longer = row.ptx.replace(".shared.", ".shared::cta.")
        yield _otherwise(row, "shared::cta", longer, statement)


def _of_barrier(row: Row) -> Iterator[Row]:
    """PTX ISA 9.7.13.1: `bar` is `barrier` with `.aligned`, and `.cta` may follow either."""
    if row.opcode.partition(".")[0] not in ("bar", "barrier") or not row.ptx.startswith(row.opcode):
        return
    if "aligned" not in row.axes:
        return
    statement = _listed(*_named(row.outputs), *_named(row.inputs))
    name, _, rest = row.ptx.partition(".")
    yield _otherwise(row, "cta", f"{name}.cta.{rest}", statement, ptx_version=_QUALIFIED_PTX)
    if row.axes["aligned"]:
        operation, dot, kind = rest.rpartition(".") if row.outputs else (rest, "", "")
        aligned = f"{operation}.aligned{dot}{kind}"
        yield _otherwise(row, "aligned", f"barrier.{aligned}", statement)
        yield _otherwise(row, "cta.aligned", f"barrier.cta.{aligned}", statement, ptx_version=_QUALIFIED_PTX)


_OLDER_FENCES = {"fence.proxy.alias": "membar.proxy.alias"}


def _of_fence(row: Row) -> Iterator[Row]:
    """PTX ISA 9.7.13 (membar, fence): acq_rel is the default; the proxy fence of aliases has an older name."""
    if row.opcode == "fence" and row.axes.get("semantics") == "acq_rel":
        yield _otherwise(row, "default", row.ptx.replace(".acq_rel", ""), "")
    if row.ptx in _OLDER_FENCES:
        yield _otherwise(row, "membar", _OLDER_FENCES[row.ptx], "")


def _of_store(row: Row) -> Iterator[Row]:
    """PTX ISA 9.7.9 (st.async), 9.7.13 (red.async): a generic address, and `.weak`, which the plain store is."""
    values = "{{{values}}}" if row.axes.get("count", 1) != 1 else _named(row.operands, "destination", "barrier")[0]
    if row.axes.get("space") == "global":
        generic = _otherwise(row, GENERIC, row.ptx.replace(".global", ""), "", generic=_TO)
        yield replace(generic, lowering=row.lowering)
        return
    statement = f"[{{destination}}], {values}, [{{barrier}}]"
    plain = row.ptx.replace(".shared::cluster", "")
    yield _otherwise(row, GENERIC, plain, statement, generic=(*_TO, "barrier"))
    if row.opcode == "st.async":
        yield _otherwise(row, "weak", row.ptx.replace("st.async", "st.async.weak"), statement)
        weak = plain.replace("st.async", "st.async.weak")
        yield _otherwise(row, f"weak {GENERIC}", weak, statement, generic=(*_TO, "barrier"))


_TO = ("destination",)


def _of_bulk_store(row: Row) -> Iterator[Row]:
    """PTX ISA 9.7.9 (st.bulk): `.weak` is what it is."""
    if row.opcode == "st.bulk":
        yield _otherwise(row, "weak", row.ptx.replace("st.bulk", "st.bulk.weak"), "[{address}], {bytes}, 0")


def _of_tensor_map(row: Row) -> Iterator[Row]:
    """PTX ISA 9.7.9 (tensormap.replace): on a generic address."""
    if row.opcode == "tensormap.replace" and row.axes["space"] == "global":
        statement = _listed("[{tensor_map}]", *_named(row.operands, "tensor_map"))
        yield _otherwise(row, GENERIC, row.ptx.replace(".global.", "."), statement, generic=("tensor_map",))


def _of_launch_control(row: Row) -> Iterator[Row]:
    """PTX ISA 9.7.13 (clusterlaunchcontrol.try_cancel): generic addresses."""
    if row.opcode == "clusterlaunchcontrol.try_cancel":
        plain = row.ptx.replace(".shared::cta", "")
        yield _otherwise(row, GENERIC, plain, "[{destination}], [{barrier}]", generic=(*_TO, "barrier"))


def _of_box(row: Row) -> Iterator[Row]:
    """PTX ISA 9.7.9 (cp.async.bulk.tensor and its kin): a copy that names no mode is in tile mode."""
    if row.axes["mode"] != "tile":
        return
    box = "[{tensor_map}, {{{coordinates}}}]"
    options = _named(row.operands, "destination", "source", "tensor_map", "coordinates", "barrier")
    match row.axes["direction"]:
        case "load":
            parts: tuple[str, ...] = ("[{destination}]", box, "[{barrier}]")
        case "prefetch":
            parts = (box,)
        case _:
            parts = (box, "[{source}]")
    plain = row.ptx.replace(".tile", "", 1)
    yield _otherwise(row, "default", plain, _listed(*parts, *options))


_FAMILIES: tuple[tuple[Callable[[], Iterator[Row]], Callable[[Row], Iterator[Row]]], ...] = (
    (mbarrier.rows, _of_mbarrier),
    (mbarrier_phases.rows, _of_mbarrier),
    (matrix_move.rows, _of_matrix),
    (cp_async.rows, _of_copy),
    (sync.rows, _of_barrier),
    (sync.rows, _of_fence),
    (async_store.rows, _of_store),
    (cache_control.rows, _of_bulk_store),
    (tensormap.rows, _of_tensor_map),
    (launch_control.rows, _of_launch_control),
    (tma_tensor.rows, _of_box),
)
"""Whose rows have other spellings, and which they are."""


@cache
def other_spellings(row: Row) -> tuple[Row, ...]:
    """The rows that are `row` spelled otherwise; none for a row that is spelled in one way only."""
    return tuple(
        spelling for rows_of, otherwise in _FAMILIES if row in _rows_of(rows_of) for spelling in otherwise(row)
    )


@cache
def _rows_of(rows_of: Callable[[], Iterator[Row]]) -> frozenset[Row]:
    return frozenset(rows_of())


def rows() -> Iterator[Row]:
    """Every row of this module."""
    for rows_of, otherwise in _FAMILIES:
        for row in rows_of():
            yield from otherwise(row)
