"""For each opcode of the catalogue, the builder call that emits it: the map that the test over all rows goes through.

A call gets a `Bench`, a kernel with a value of every kind, and the row whose axes it is to choose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

import nvbackend as nvb
from nvbackend.intrinsics.row.row import Asm, RegisterClass, Role, Row
from nvbackend.intrinsics.row.types import BY_NAME, bf16, f16, f32, pred, s32, s64, u8, u16, u32, u64
from nvbackend.intrinsics.spellings import SPELLING
from nvbackend.intrinsics.sync import atomics
from tests.support.row_bench import Bench
from tests.support.row_calls_math import ARITHMETIC
from tests.support.row_calls_products import mma, tcgen05, tmem, tmem_fence, wgmma, wmma
from tests.support.row_calls_sync import arrive, bar, bar_reduce, fence, transaction, wait


def _policy(u: Bench, row: Row) -> dict[str, Any]:
    return {"cache_policy": u.wide} if row.axes.get("cache_hint") else {}


# -- matrices and warps ---------------------------------------------------------------------------------------------


def _matrix(u: Bench, row: Row) -> None:
    axes = dict(row.axes)
    count = axes.pop("count")
    if row.opcode == "ldmatrix":
        u.k.mma.ldmatrix(u.shared, count, **axes)
    else:
        u.k.mma.stmatrix(u.shared, u.of(row, "fragment"), **axes)


def _shuffle(u: Bench, row: Row) -> None:
    u.k.warp.shuffle(u.word, row.axes["mode"], 1, in_range=row.axes["in_range"])


def _match(u: Bench, row: Row) -> None:
    value = u.wide if row.axes["bits"] == 64 else u.word
    if row.axes["all_equal"]:
        u.k.warp.match("all", value, equal=True)
    else:
        u.k.warp.match(row.axes["mode"], value)


def _redux(u: Bench, row: Row) -> None:
    axes = dict(row.axes)
    u.k.warp.reduce(axes.pop("operation"), u.element(str(axes.pop("element"))), **axes)


# -- copies ---------------------------------------------------------------------------------------------------------


def _cp_async(u: Bench, row: Row) -> None:
    axes = row.axes
    filling = {"bytes": {"read_bytes": u.word.to(s32)}, "ignore": {"ignore": u.values[pred]}}.get(str(axes["fill"]), {})
    u.k.cp_async.copy(
        *(u.shared, u.memory, axes["size"]),
        **{"cache": axes["cache_operator"], "prefetch": axes["prefetch"], **filling, **_policy(u, row)},
    )


def _box(u: Bench, row: Row) -> None:
    axes: dict[str, Any] = dict(row.axes)
    names = {one.name for one in row.operands}
    counts = {one.name: one.count for one in row.operands}
    at = [u.k.thread_id()] * counts["coordinates"]  # a box for each thread
    tensor = u.map_of(axes["rank"], axes["mode"])
    options: dict[str, Any] = {"mode": axes["mode"], **_policy(u, row)}
    if "offsets" in names:
        options["offsets"] = [0] * counts["offsets"]
    match axes["direction"]:
        case "load":
            mask = {"multicast_mask": 3} if axes["multicast"] else {}
            u.k.tma.load_box(
                *(u.shared, tensor, at, u.barrier),
                **{**options, "space": axes["destination"], "cta_group": axes["cta_group"], **mask},
            )
        case "store":
            u.k.tma.store_box(tensor, at, u.shared, **options)
        case "reduce":
            u.k.tma.reduce_box(tensor, at, u.shared, axes["operation"], **options)
        case "prefetch":
            u.k.tma.prefetch_box(tensor, at, **options)


def _bulk(u: Bench, row: Row) -> None:
    axes: dict[str, Any] = dict(row.axes)
    match axes["direction"]:
        case "load":
            mask = {"multicast_mask": 3} if axes["multicast"] else {}
            options = {"space": axes["destination"], **mask, **_policy(u, row)}
            u.k.bulk.load(u.shared, u.memory, 64, u.barrier, **options)
        case "store":
            mask = {"byte_mask": 255} if axes["byte_mask"] else {}
            u.k.bulk.store(u.memory, u.shared, 64, **mask, **_policy(u, row))
        case "copy":
            u.k.bulk.store(u.shared, u.shared, 64, barrier=u.barrier, rank=1)
        case "prefetch":
            u.k.bulk.prefetch(u.memory, 64, **_policy(u, row))


def _bulk_reduce(u: Bench, row: Row) -> None:
    what = (row.axes["operation"], row.axes["element"])
    if row.axes["space"] == "global":
        u.k.bulk.reduce(u.memory, u.shared, 64, *what, **_policy(u, row))
    else:
        u.k.bulk.reduce(u.shared, u.shared, 64, *what, barrier=u.barrier, rank=1)


def _replace(u: Bench, row: Row) -> None:
    tensor = u.memory if row.axes["space"] == "global" else u.shared
    ordinal = {"dimension": 0} if any(one.name == "ordinal" for one in row.operands) else {}
    constants = [one.values[0] for one in row.immediates if one.name != "ordinal" and one.values]
    u.k.tensormap.replace(tensor, row.axes["field"], *(constants or [1]), **ordinal)


def _tensormap_fence(u: Bench, row: Row) -> None:
    if row.axes["semantics"] == "acquire":
        u.k.tensormap.acquire(u.memory, scope=row.axes["scope"])
    else:
        u.k.tensormap.release(scope=row.axes["scope"])


def _st_async(u: Bench, row: Row) -> None:
    axes: dict[str, Any] = dict(row.axes)
    value = u.element(axes["element"])
    if axes["space"] == "global":
        u.k.async_store.store(u.memory, value, scope=axes["scope"], element=axes["element"], mmio=axes["mmio"])
    else:
        u.k.async_store.store(u.shared, [value] * axes["count"], u.barrier, 1, element=axes["element"])


def _access(u: Bench, row: Row) -> None:
    axes: Any = dict(row.axes)
    own = u.const if axes["constant"] else u.memory
    place = {"global": own, "shared": u.shared}.get(axes["space"]) or u.k.cluster.map_shared_rank(u.shared, 1)
    element = {"b8": u8, "b16": u16, "b32": u32, "b64": u64}[axes["type"]]
    options = {"order": axes["order"], "scope": axes["scope"], "cache": axes["cache_operator"], **_policy(u, row)}
    options["evict"] = tuple(f"{level.upper()}::{axes[level]}" for level in ("l1", "l2") if axes[level])
    if row.opcode == "ld":
        place.cast(element).load(axes["count"], **options, prefetch=axes["prefetch"])
    else:
        place.cast(element).store(*[u.values[element]] * axes["count"], **options)


# -- caches ---------------------------------------------------------------------------------------------------------


def _prefetch(u: Bench, row: Row) -> None:
    local = {"space": "local"} if row.axes["space"] == "local" else {}
    u.k.cache.prefetch(u.place(row.axes["space"]), row.axes["level"], **local)  # type: ignore[arg-type]


def _policies(u: Bench, row: Row) -> None:
    axes: dict[str, Any] = dict(row.axes)
    if ".cvt." in row.ptx:
        u.k.cache.policy_of_property(u.wide)
    elif "space" in axes:
        u.k.cache.policy_of_range(u.place(axes["space"]), 64, 128, axes["primary"], axes["secondary"])
    else:
        fraction = {"fraction": 0.5} if axes["fraction"] else {}
        u.k.cache.policy(axes["primary"], axes["secondary"], **fraction)


def _launch_query(u: Bench, row: Row) -> None:
    query = str(row.axes["query"])
    if "::" in query:
        u.k.launch_control.canceled_coordinate(u.shared, query.partition("::")[2][0])
    else:
        u.k.launch_control.canceled_cluster(u.shared)


def _multimem(u: Bench, row: Row) -> None:
    axes: dict[str, Any] = dict(row.axes)
    place, vector = u.place(axes["space"]), (axes["element"], axes["vector"])
    held = {"s32": s32, "s64": s64}.get(axes["element"])
    values = [u.values[held]] * row.operand("values").count if held else u.of(row, "values")
    match row.opcode.partition(".")[2]:
        case "ld_reduce":
            u.k.multimem.load_reduce(
                place, axes["operation"], *vector, accumulator=axes["accumulator"], order=axes["order"]
            )
        case "st":
            u.k.multimem.store(place, values, *vector, order=axes["order"])
        case "red":
            u.k.multimem.reduce(place, axes["operation"], values, *vector, order=axes["order"])


_HELD = {"b16": u16, "b32": u32, "b64": u64, "b128": u64}


def _atomic(u: Bench, row: Row) -> None:
    axes: dict[str, Any] = dict(row.axes)
    operation, name, vector = axes["operation"], axes["element"], axes["vector"]
    held = _HELD.get(name) or BY_NAME.get(name, u32)
    value = u.values[f32].to(held) if held in (f16, bf16) else u.values[held]
    count = 2 if name == "b128" else vector
    values = [value] * count if count > 1 else value
    place = u.shared_of_peer if axes["space"] == "shared::cluster" else u.place(axes["space"])
    order = {"order": axes["order"], "scope": axes["scope"]}
    packed = {"element": name} if name not in BY_NAME and held is u32 and name not in _HELD else {}
    if not axes["returns"]:
        u.k.atomic.reduce(place.cast(held), operation, values, **order, **packed)
    elif operation == "cas":
        u.k.atomic.cas(place.cast(held), values, values, **order)
    else:
        call = {"and": "and_", "or": "or_", "exch": "exchange"}.get(operation, operation)
        getattr(u.k.atomic, call)(place.cast(held), values, **order, **packed)


def _convert(u: Bench, row: Row) -> None:
    axes: dict[str, Any] = dict(row.axes)
    to, named = axes["to"], {name: axes[name] for name in ("rounding", "saturate", "relu")}
    if row.opcode == "cvt.single":
        u.k.convert.single(u.values[f32], BY_NAME[to], **named)
    elif row.opcode == "cvt.pair":
        held = {"e2m1x2": u8, "f16x2": u32, "bf16x2": u32}.get(axes["source"], u16)
        u.k.convert.pair(u.values[held], axes["source"], to, **named)
    else:
        random = {"random": u.word} if axes["rounding"] == "rs" else {}
        u.k.convert.pack(to, *[u.values[f32]] * int(to[-1]), **named, **random)


def _registers(u: Bench, row: Row) -> None:
    call = u.k.setmaxnreg.inc if row.axes["action"] == "inc" else u.k.setmaxnreg.dec
    call(64)


CALLS: dict[str, Callable[[Bench, Row], object]] = {
    "wgmma.fence": lambda u, _: u.k.wgmma.fence(),
    "wgmma.commit_group": lambda u, _: u.k.wgmma.commit_group(),
    "wgmma.wait_group": lambda u, _: u.k.wgmma.wait_group(0),
    "wgmma.mma_async": wgmma,
    **dict.fromkeys(("wmma.load.a", "wmma.load.b", "wmma.load.c", "wmma.store.d", "wmma.mma"), wmma),
    **dict.fromkeys(("mma", "mma.sp"), mma),
    **dict.fromkeys(("ldmatrix", "stmatrix"), _matrix),
    "movmatrix": lambda u, _: u.k.mma.movmatrix(u.word),
    "cvt": lambda u, row: u.k.math.pack_pair(row.axes["pair"], u.values[f32], u.values[f32], relu=row.axes["relu"]),
    "prmt": lambda u, _: u.k.math.permute_bytes(u.word, u.word, u.word),
    **dict.fromkeys(("tcgen05.mma", "tcgen05.mma.ws"), tcgen05),
    "tcgen05.alloc": tmem("tcgen05_alloc"),
    "tcgen05.dealloc": tmem("tcgen05_dealloc"),
    "tcgen05.relinquish_alloc_permit": lambda u, row: u.k.tcgen05.relinquish_alloc_permit(**row.axes),
    "tcgen05.shift": lambda u, row: u.k.tcgen05.shift(u.word, **row.axes),
    "tcgen05.commit": tmem("tcgen05_commit"),
    "tcgen05.cp": tmem("tcgen05_cp"),
    "tcgen05.ld": tmem("tcgen05_ld"),
    "tcgen05.ld.red": tmem("tcgen05_ld_red"),
    "tcgen05.st": tmem("tcgen05_st"),
    "tcgen05.wait.ld": lambda u, _: u.k.tcgen05.wait_ld(),
    "tcgen05.wait.st": lambda u, _: u.k.tcgen05.wait_st(),
    "tcgen05.fence": tmem_fence,
    **dict.fromkeys(
        ("cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor", "cp.async.bulk.prefetch.tensor"),
        _box,
    ),
    **dict.fromkeys(("cp.async.bulk", "cp.async.bulk.prefetch"), _bulk),
    "cp.reduce.async.bulk": _bulk_reduce,
    "cp.async.bulk.commit_group": lambda u, _: u.k.tma.commit_group(),
    "cp.async.bulk.wait_group": lambda u, row: u.k.tma.wait_group(0, reading=row.ptx.endswith(".read")),
    "tensormap.replace": _replace,
    "tensormap.cp_fenceproxy": lambda u, row: u.k.tensormap.publish(u.memory, u.shared, **row.axes),
    "fence.proxy.tensormap": _tensormap_fence,
    "prefetch.tensormap": lambda u, row: u.k.tensormap.prefetch(u.wide, **row.axes),
    "mbarrier.init": lambda u, _: u.k.mbarrier.init(u.barrier, 1),
    "mbarrier.inval": lambda u, _: u.k.mbarrier.inval(u.barrier),
    **{
        f"mbarrier.{action}{suffix}": arrive
        for action in ("arrive", "arrive_drop")
        for suffix in ("", ".expect_tx", ".noComplete")
    },
    **dict.fromkeys(("mbarrier.expect_tx", "mbarrier.complete_tx"), transaction),
    **{f"mbarrier.{kind}{suffix}": wait for kind in ("test_wait", "try_wait") for suffix in ("", ".parity")},
    "mbarrier.pending_count": lambda u, _: u.k.mbarrier.pending_count(u.wide),
    "cp.async.mbarrier.arrive": lambda u, row: u.k.cp_async.mbarrier_arrive(u.barrier, **row.axes),
    "cp.async": _cp_async,
    "cp.async.commit_group": lambda u, _: u.k.cp_async.commit_group(),
    "cp.async.wait_group": lambda u, _: u.k.cp_async.wait_group(1),
    "cp.async.wait_all": lambda u, _: u.k.cp_async.wait_group(),
    "st.async": _st_async,
    "red.async": lambda u, row: u.k.async_store.reduce(
        u.shared, row.axes["operation"], u.element(str(row.axes["element"])), u.barrier, 1
    ),
    "prefetch": _prefetch,
    "prefetchu": lambda u, _: u.k.cache.prefetch_uniform(u.wide),
    "applypriority": lambda u, row: u.k.cache.apply_priority(u.place(row.axes["space"])),  # type: ignore[arg-type]
    "discard": lambda u, row: u.k.cache.discard(u.place(row.axes["space"])),  # type: ignore[arg-type]
    "createpolicy": _policies,
    **dict.fromkeys(("ld", "st"), _access),
    **{f"multimem.{action}": _multimem for action in ("ld_reduce", "st", "red")},
    **dict.fromkeys(
        [
            *(f"atom.{one}" for one in atomics.OPERATIONS),
            *(f"red.{one}" for one in atomics.OPERATIONS if one not in (atomics.EXCHANGE, atomics.CAS)),
        ],
        _atomic,
    ),
    **dict.fromkeys(("cvt.single", "cvt.pack", "cvt.pair"), _convert),
    "st.bulk": lambda u, row: u.k.bulk.clear_shared(u.shared if row.axes["shared"] else u.wide, 64),
    "clusterlaunchcontrol.try_cancel": lambda u, row: u.k.launch_control.try_cancel(u.shared, u.barrier, **row.axes),
    "clusterlaunchcontrol.query_cancel": _launch_query,
    "barrier.cluster.arrive": lambda u, row: u.k.cluster.arrive(**row.axes),
    "barrier.cluster.wait": lambda u, row: u.k.cluster.wait(**row.axes),
    "mapa": lambda u, _: u.k.cluster.map_to_peer(u.shared.bytes, 1),
    "getctarank": lambda u, _: u.k.cluster.rank_of(u.word),
    **{f"{name}.{action}": bar for name in ("bar", "barrier") for action in ("sync", "arrive")},
    **dict.fromkeys(("bar.red", "barrier.red"), bar_reduce),
    "bar.warp.sync": lambda u, _: u.k.warp.sync(),
    "fence": fence,
    "membar": lambda u, row: u.k.fence.membar(**row.axes),
    "griddepcontrol": lambda u, row: u.k.griddepcontrol(**row.axes),
    "elect.sync": lambda u, _: u.k.elect(),
    "trap": lambda u, _: u.k.trap(),
    "brkpt": lambda u, _: u.k.breakpoint(),
    "nanosleep": lambda u, _: u.k.nanosleep(100),
    **{f"shfl.sync.{mode}": _shuffle for mode in ("idx", "up", "down", "bfly")},
    **{
        f"vote.sync.{mode}": lambda u, row: u.k.warp.vote(row.axes["mode"], 1)
        for mode in ("all", "any", "uni", "ballot")
    },
    **dict.fromkeys(("match.any.sync", "match.all.sync"), _match),
    "activemask": lambda u, _: u.k.warp.active_lanes(),
    "redux.sync": _redux,
    **{f"setmaxnreg.{action}": _registers for action in ("inc", "dec")},
    **ARITHMETIC,
    **dict.fromkeys(("mov.u32", "mov.u64", "mov.pred"), lambda u, row: u.k.special_register(row.axes["register"])),
}
"""By the rows' opcode. A new opcode is a line here; `nvb.KernelBuilder` is what its calls belong to."""


def _instruction(u: Bench, row: Row) -> None:
    """The call that takes the row itself: for other spellings, and forms whose addresses no other call has."""
    given: dict[str, Any] = {
        one.name: one.values[0] if one.values else held(u, row, one.name)
        for one in row.operands
        if one.role is not Role.OUTPUT
    }
    u.k.instruction(row, **given)


def held(u: Bench, row: Row, name: str) -> Any:
    """What the registers of an operand can be given: memory, or values of the bench."""
    register = row.operand(name).register
    if register in (RegisterClass.SHARED, RegisterClass.GLOBAL):
        return u.shared if register is RegisterClass.SHARED else u.memory
    value = {"i32": u.word, "i64": u.wide}.get(register.llvm)
    return [value] * row.operand(name).count if value is not None else u.of(row, name)


def call_of(row: Row) -> Callable[[Bench, Row], object]:
    """What emits the row: its opcode's call, or the one that takes the row itself."""
    usual = {"mapa": ("shared::cluster", 32), "getctarank": ("shared::cluster", 32)}.get(row.opcode)
    by_row = (row.axes.get("space"), row.axes.get("bits")) != usual if usual else _is_plain_constant(row)
    if SPELLING in row.axes or by_row or (row.opcode, row.axes.get("space")) == ("red.async", "global"):
        return _instruction
    return CALLS[row.opcode]


def _is_plain_constant(row: Row) -> bool:
    """A load of const memory without a hint: `load` leaves it to LLVM, which spells it like the row."""
    caching = ("cache_operator", "l1", "l2", "prefetch", "cache_hint")
    return bool(row.axes.get("constant")) and not any(row.axes[name] for name in caching)


def emits(u: Bench, row: Row) -> str:
    """What the call of `row` emitted instead; empty where it emitted the row itself."""
    before = sum(len(block.instructions) for block in u.k.machine.blocks.values())
    computed = len(_called(u))
    try:
        call_of(row)(u, row)
    except (nvb.DiagnosticError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    made = [one.row for block in u.k.machine.blocks.values() for one in block.instructions][before:]
    if any(one is not None and one.ptx == row.ptx and _same_axes(one, row) for one in made):
        return ""
    if _callee(row) in _called(u)[computed:]:
        return ""
    return "emitted " + ", ".join(one.ptx for one in made if one is not None)


def _called(u: Bench) -> list[str]:
    """The asm and the intrinsics that the kernel calls: what only computes is not in the machine form."""
    calls = [one for block in u.k.function.blocks for one in block.instructions if isinstance(one, ir.CallInstr)]
    return [str(one.callee.asm if isinstance(one.callee, ir.InlineAsm) else one.callee.name) for one in calls]


def _callee(row: Row) -> str:
    return row.asm if isinstance(row.lowering, Asm) else row.lowering.name


def _same_axes(one: Row, row: Row) -> bool:
    """Registers that a wait passes through are no part of the choice."""
    return all(one.axes.get(name) == value for name, value in row.axes.items() if name != "registers")
