"""Every call on `k`: those of one function, and those on tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from nvbackend.atoms import MmaAtom
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.noun import names_in
from nvbackend.builder.core.parameters import TensorMapParameter
from nvbackend.builder.core.tile import SharedTile
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles.coordinates import Coordinates, Inside, make_identity_tensor
from nvbackend.builder.tiles.mma.epilogue import TmaEpilogue
from nvbackend.builder.tiles.mma.tiled_mma import Instruction, axpby_part, make_tiled, places_of_atom, store_whole
from nvbackend.builder.tiles.mma.wgmma import TiledWgmma
from nvbackend.builder.tiles.ring import Ring
from nvbackend.builder.tiles.roles import Roles
from nvbackend.builder.tiles.split_k.cluster import ClusterOfTiles
from nvbackend.builder.tiles.stages import TileLayout
from nvbackend.builder.tiles.tensor import Part, Tensor, make_tensor
from nvbackend.builder.tiles.tile_order import grouped_tile
from nvbackend.builder.values.accumulator import Accumulator
from nvbackend.builder.values.uncalled import told_apart
from nvbackend.builder.values.values import Operand, Value
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor
from nvbackend.layout import AnyLayout, IntTuple, Layout
from nvbackend.layout.descriptors.smem_layout import SmemLayout
from nvbackend.tiled import CopyAtom, TiledCopy, TiledMMA
from nvbackend.tiled.permutation import Permutation
from nvbackend.tiled.tiled_mma import AtomLayout

if TYPE_CHECKING:
    from nvbackend.builder.tiles.dynamic.dynamic_tiles import DynamicTiles, Place
    from nvbackend.builder.tiles.mma.tcgen05 import TiledTcgen05
    from nvbackend.builder.tiles.mma.warp_mma import TiledWarpMma
    from nvbackend.builder.tiles.register_tensor import RegisterTensor
    from nvbackend.builder.tiles.ring_parts import RingParts
    from nvbackend.builder.tiles.split_k.stream_k import StreamK
    from nvbackend.isel.select.mma.request import MmaRequest
    from nvbackend.isel.select.tcgen05.request import Tcgen05Request
    from nvbackend.isel.select.wgmma.request import WgmmaRequest
    from nvbackend.tiled import TmaCopy

_Parts = TypeVar("_Parts", bound="tuple[Operand, ...]")
_VALUES = ("thread_id", "block_id", "block_count", "lane_id", "warp_id", "warpgroup_id", "elect", "clock")


class Operations(FunctionBuilder):
    """What the kernel builder and attached builders share: the calls of one function, and those on tiles."""

    __written__ = "k"
    """What diagnostics call it before the name of a call."""
    cluster: ClusterOfTiles
    _cluster_type: type[ClusterOfTiles] = ClusterOfTiles
    __dir__ = names_in

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.cluster._belong_to(self)
        self._epilogues: list[TmaEpilogue] = []
        """Those of the kernel, in the order in which they were made."""
        self._dynamic_tiles: list[DynamicTiles[Any]] = []
        """Those of the kernel, in the order in which they were made."""
        told_apart(self, "k", _VALUES)
        told_apart(self.cluster, "k.cluster", ("rank", "id", "count", "peer_rank"))
        self._roles = Roles(self)
        core.places_of_atom = lambda n: places_of_atom(self, n)

    # -- tensors and copies -----------------------------------------------------------------------------------------

    def tensor(self, address: Address, layout: AnyLayout, *, multiple_of: int = 1) -> Tensor:
        """The elements at `address` seen through `layout`: CuTe's make_tensor.

        Strides may be values. They are known to be multiples of `multiple_of` elements, or of what their arithmetic
        shows: `n * 8` is a multiple of 8. A swizzle is relative to `address`; that of a `SmemPtr` applies to addresses.
        Raises tensor.bounds past the end of a shared allocation, tensor.base, tensor.element for a layout of wider or
        narrower elements, tensor.multiple, memory.sub-byte, and layout-algebra.element-width.
        """
        return make_tensor(self, address, layout, multiple_of=multiple_of)

    def identity_tensor(self, shape: IntTuple, at: Sequence[Operand] | None = None) -> Coordinates:
        """The coordinates of a tile of `shape` whose first element has the coordinate `at`, by default 0.

        CuTe's make_identity_tensor. Raises layout-algebra.extent.
        """
        return make_identity_tensor(self, shape, at)

    def register_tensor(self, element: ElementType, layout: Layout | IntTuple, *, name: str = "r") -> RegisterTensor:
        """A tensor in registers, cleared; a shape gets a compact layout. CuTe's make_tensor<T>(layout).

        It lives as long as a `k.var` made here. Raises tensor.register-count if a thread does not have so many
        registers.
        """
        from nvbackend.builder.tiles.register_tensor import make_registers

        return make_registers(self.core, element, layout if isinstance(layout, Layout) else Layout(layout), name)

    def copy(
        self,
        copy: TiledCopy | CopyAtom | TmaCopy,
        source: Part | TensorMapParameter,
        destination: Part | TensorMapParameter,
        *,
        where: Inside | None = None,
        at: Sequence[Operand] | None = None,
        barrier: Address | None = None,
        multicast: bool = False,
    ) -> None:
        """Copy a thread's part, ((CPY, rest), CPY_M, CPY_N, ...), instruction by instruction: CuTe's copy and copy_if.

        `source` and `destination` are what `ThrCopy.partition_S`, `partition_D` and `retile_S`, `retile_D` give of
        tensors in memory and in registers. With `where`, only elements inside its bounds are copied: others become
        zeros in registers and shared memory, and stay as they are in global memory. cp.async is complete after
        `k.cp_async.wait_group`. Raises copy.operands, copy.vector, copy.alignment, copy.where, and what the
        instructions raise.

        A `TmaCopy` copies boxes between a `TensorMap` and a tensor of its layout in shared memory; one thread executes
        it. The tensor's first element is the array's element `at`, in the tile's order of modes. A load completes on
        `barrier` (expect `copy.bytes`); with `multicast`, each CTA of the cluster loads its share for all. A store is
        in the thread's bulk group. Raises copy.boxes, copy.multicast.
        """
        from nvbackend.builder.tiles.tiled_copy import copy_part

        copy_part(self, copy, source, destination, where=where, at=at, barrier=barrier, multicast=multicast)

    def copy_tile(self, copy: TiledCopy, source: Tensor, destination: Tensor, *, where: Inside | None = None) -> None:
        """Copy a whole tile in memory: all threads of `copy` take part, each by `k.copy` of its partitions.

        `where` is made of the tile's coordinates: `k.identity_tensor(shape, at=...).below(m, n)`. Raises what `copy`
        raises, and without `where` copy.operands for tiles of two shapes, or of less than the threads copy.
        """
        from nvbackend.builder.tiles.tiled_copy import check_tiles, copy_part

        if where is None:
            check_tiles(copy, source, destination)
        mine = copy.get_slice(self.thread_id("linear"))
        parts = source.partition(mine.partition_S), destination.partition(mine.partition_D)
        copy_part(self, copy, *parts, where=None if where is None else where.partition(mine.partition_S))

    # -- roles and rings --------------------------------------------------------------------------------------------

    def producer(self, registers: int) -> AbstractContextManager[None]:
        """Run the block in one thread of warpgroup 0, whose threads keep `registers` registers each.

        Raises pipeline.roles unless the kernel has a second whole warpgroup to consume.
        """
        return self._roles.producer(registers)

    def consumers(self, registers: int) -> AbstractContextManager[Value]:
        """Run the block in all other warpgroups, with `registers` registers a thread; yields their number from 0.

        It must follow the producer block directly: the two roles are the sides of one branch. Raises pipeline.registers
        if the roles together want more registers than the CTA has at launch.
        """
        return self._roles.consumers(registers)

    @overload
    def pipeline(
        self,
        stages: int,
        consumers: int | None = None,
        *,
        copies: str = "tma",
        multicast: bool = False,
        pingpong: bool = False,
        released_by: str = "warpgroup",
        apart: Literal[False] = False,
        **tiles: SmemLayout,
    ) -> Ring[SharedTile]: ...

    @overload
    def pipeline(
        self,
        stages: int,
        consumers: int | None = None,
        *,
        copies: str = "tma",
        multicast: bool = False,
        pingpong: bool = False,
        released_by: str = "warpgroup",
        apart: Literal[False] = False,
        **tiles: tuple[ElementType, AnyLayout],
    ) -> Ring[Tensor]: ...

    @overload
    def pipeline(
        self,
        stages: int,
        consumers: int | None = None,
        *,
        copies: str = "tma",
        multicast: bool = False,
        pingpong: bool = False,
        released_by: str = "warpgroup",
        apart: Literal[False] = False,
        **tiles: TileLayout,
    ) -> Ring[Any]: ...

    @overload
    def pipeline(
        self,
        stages: int,
        consumers: int | None = None,
        *,
        copies: str = "tma",
        multicast: bool = False,
        pingpong: bool = False,
        released_by: str = "warpgroup",
        apart: Literal[True] | Sequence[str | Sequence[str]],
        **tiles: TileLayout,
    ) -> RingParts: ...

    def pipeline(
        self,
        stages: int,
        consumers: int | None = None,
        *,
        copies: str = "tma",
        multicast: bool = False,
        pingpong: bool = False,
        released_by: str = "warpgroup",
        apart: bool | Sequence[str | Sequence[str]] = False,
        **tiles: TileLayout,
    ) -> Ring[Any] | RingParts:
        """A ring of `stages` stages, each with a tile of every name: a SharedTile, or of (element, layout) a Tensor.

        A tile may also be (element, count), for consecutive elements at an `Address`, or a number of bytes. A producer
        fills the stages, and `consumers` warpgroups read them; without `consumers`, all threads of the CTA do both,
        with at least two stages (`Ring.steps`). `copies` is "tma" for copies that one thread starts and that complete
        on an mbarrier (`k.tma`, `k.bulk`, `k.copy` of a TmaCopy), or "cp.async" for copies of each thread.

        With `multicast`, some copies go to all CTAs of the cluster. With `pingpong`, each stage is for one consumer,
        and the consumers drain the ring in turns, each for the steps of a different tile: see `Ring.turn`. With
        `released_by="thread"`, each thread of a consumer releases a stage for itself, instead of one for its warpgroup:
        a block that reads the stage by loads then needs no barrier at its end. With `apart`, names of tiles or True for
        all, the ring has parts that are filled and released separately: `ring.key.drain()`, see `RingParts`.

        Call `k.mbarrier.ready` before the first use, unless all threads copy by cp.async. Raises pipeline.stages,
        pipeline.tiles, pipeline.bytes, pipeline.apart, pipeline.consumers, pipeline.turn.
        """

        def ring(part: Mapping[str, TileLayout]) -> Ring[Any]:
            place = self, self._roles, stages, consumers, part
            return Ring(*place, copies=copies, multicast=multicast, pingpong=pingpong, released_by=released_by)

        if isinstance(apart, int) and not apart:
            return ring(tiles)
        from nvbackend.builder.tiles.ring_parts import part_ring

        return part_ring(tiles, list(tiles) if isinstance(apart, int) else apart, ring)

    def grouped(self, tile: Operand, rows: Operand, columns: Operand, group: int) -> tuple[Value, Value]:
        """Row and column of tile number `tile` of a grid of `rows` x `columns`, walked `group` rows at a time.

        Inside a group the order is down the rows, then to the next column, so that tiles of few rows and columns are in
        use at a time and stay in L2. The last group may have fewer rows. The grid has this tile, so neither number is
        0. Raises pipeline.group.
        """
        return grouped_tile(self, tile, rows, columns, group)

    @overload
    def dynamic_tiles(
        self, counter: Address, count: Operand, consumers: int, *, place: None = None, mailboxes: int = 2
    ) -> DynamicTiles[Value]: ...

    @overload
    def dynamic_tiles(
        self, counter: Address, count: Operand, consumers: int, *, place: Place[_Parts], mailboxes: int = 2
    ) -> DynamicTiles[_Parts]: ...

    def dynamic_tiles(
        self,
        counter: Address,
        count: Operand,
        consumers: int,
        *,
        place: Place[Any] | None = None,
        mailboxes: int = 2,
    ) -> DynamicTiles[Any]:
        """Tiles 0 to `count` - 1 (i32, 1 or more, the same in all CTAs), which CTAs take as they become free.

        The producer draws the tiles of its CTA, `with tiles.draw() as tile`, and `consumers` warpgroups take them,
        `with tiles.take() as tile`: see `DynamicTiles`. `counter` is an i32 or u32 in global memory that is 0 at the
        launch, and is 0 again after it; two launches at a time need a counter each. The grid may have any number of
        CTAs, which are not in clusters.

        The blocks have the number of a tile, an i32. With `place`, a function of the number that gives a tuple of i32
        and u32, the producer computes the tuple once, and the blocks have it instead: values, in a NamedTuple if that
        is what the function gives. The producer is ahead of the consumers by up to `mailboxes` tiles.

        Call `k.mbarrier.ready` before the first use. Raises dynamic-tiles.counter, dynamic-tiles.count,
        dynamic-tiles.parted, dynamic-tiles.consumers, dynamic-tiles.mailboxes, dynamic-tiles.cluster;
        dynamic-tiles.unused at the end of a kernel that does not both draw and take them.
        """
        from nvbackend.builder.tiles.dynamic.dynamic_tiles import DynamicTiles

        made = DynamicTiles[Any](self, self._roles, counter, count, consumers, place, mailboxes, self._dynamic_tiles)
        self._dynamic_tiles.append(made)
        return made

    def stream_k(self, tiles: Operand, steps: Operand) -> StreamK:
        """Divide the steps of `tiles` tiles, `steps` each (s32), into equal shares, one for each CTA of the grid.

        It is for few tiles, or for a number of tiles that leaves CTAs idle in the last round. Each CTA, in a cluster
        each cluster, multiplies the pieces of tiles in its share, and adds the sums that others have of its tiles: see
        `StreamK.pieces` and `StreamK.partial_sums`. If each tile is a whole number of shares, this is split-K. The grid
        and the cluster lie along x. All steps together are fewer than 2^31. Raises shares.count, shares.parted,
        shares.cluster.
        """
        from nvbackend.builder.tiles.split_k.stream_k import StreamK

        return StreamK(self, self._roles, tiles, steps)

    # -- tiled MMAs and what they leave in registers ----------------------------------------------------------------

    @overload
    def tiled_mma(
        self,
        instruction: WgmmaRequest,
        warpgroups: tuple[int, int] = (1, 1),
        *,
        atom_layout: AtomLayout | None = None,
        permutation: Sequence[Permutation] | None = None,
        tile: tuple[int, int] | None = None,
    ) -> TiledWgmma: ...

    @overload
    def tiled_mma(
        self,
        instruction: MmaRequest,
        warpgroups: tuple[int, int] = (1, 1),
        *,
        atom_layout: AtomLayout | None = None,
        permutation: Sequence[Permutation] | None = None,
        tile: tuple[int, int] | None = None,
    ) -> TiledWarpMma: ...

    @overload
    def tiled_mma(
        self,
        instruction: Tcgen05Request,
        *,
        descriptor: InstructionDescriptor | None = None,
        atom_layout: AtomLayout | None = None,
        permutation: Sequence[Permutation] | None = None,
        tile: tuple[int, int] | None = None,
    ) -> TiledTcgen05: ...

    @overload
    def tiled_mma(
        self,
        instruction: TiledMMA | MmaAtom | str,
        warpgroups: tuple[int, int] = (1, 1),
        *,
        atom_layout: AtomLayout | None = None,
        permutation: Sequence[Permutation] | None = None,
        tile: tuple[int, int] | None = None,
    ) -> Any: ...

    def tiled_mma(
        self,
        instruction: Instruction,
        warpgroups: tuple[int, int] = (1, 1),
        *,
        atom_layout: AtomLayout | None = None,
        permutation: Sequence[Permutation] | None = None,
        tile: tuple[int, int] | None = None,
        descriptor: InstructionDescriptor | None = None,
    ) -> Any:
        """A tiled MMA: `instruction` laid over the CTA's threads and over tiles, with the layouts of its operands.

        `instruction` is a request (`nvb.wgmma.mma_async(...)`, `nvb.mma.sync(...)`, `nvb.tcgen05.mma(...)`, or a
        Tcgen05Request with an instruction `descriptor`), an atom, CuTe's name of an atom, or a TiledMMA. All but the
        last are laid over `warpgroups` along M and N (for mma.sync, warps), or over `atom_layout` and `permutation`,
        which are those of `nvbackend.tiled.make_tiled_mma`. `tile` is the (M, N) that is multiplied together, by
        default what the threads take at once. It is a TiledWarpMma of mma.sync, a TiledWgmma or a TiledTcgen05,
        whose calls load, multiply and store. Raises every broken rule of the instruction and of the atoms' contract
        (`nvbackend.atoms.check_atom`), mma.warpgroups, mma.tiled, warp-mma.atom, and what `make_tiled_mma` raises.
        """
        return make_tiled(
            self,
            self._roles,
            instruction,
            warpgroups,
            atom_layout=atom_layout,
            permutation=permutation,
            tile=tile,
            descriptor=descriptor,
        )

    def tma_epilogue(
        self,
        target: TensorMapParameter,
        n: int,
        warpgroups: int = 1,
        *,
        rows: int = 64,
        threads: int = 128,
        parts: int = 1,
        transposed: bool = False,
    ) -> TmaEpilogue:
        """An epilogue that stores the 64 x `n` accumulators of `warpgroups` warpgroups to the tensor `target`.

        For the elements of other products, `acc.elements()` of mma.sync or `mma.load(...)` of tcgen05, a tile has
        `rows` x `n` elements, which `threads` threads hold: 128 rows in four warps for tensor memory, or a tile of all
        threads of the CTA. With `parts`, the epilogue stores the columns of an accumulator part by part, and takes that
        many times less shared memory. `transposed`, columns of an accumulator become rows of the tensor, as a kernel
        wants that multiplies B @ A^T because A has few rows; elements of 16 bits are transposed by stmatrix.
        Raises epilogue.threads, epilogue.parts, epilogue.columns, value.operation, and what `k.tma.store` raises.
        """
        made = TmaEpilogue(self, target, n, warpgroups, rows, threads, parts, transposed=transposed)
        self._epilogues.append(made)
        return made

    def store_accumulator(self, accumulator: Accumulator, target: Address, stride: Operand) -> None:
        """Write an accumulator straight to global memory, row-major with `stride` elements a row.

        `target` is the tile's first element, of the accumulator's own type and aligned to two elements; `stride` is
        even. The 128 threads of a warpgroup execute it. It is slower than the TMA epilogue, but takes any accumulator.
        Raises accumulator.store, accumulator.stride, accumulator.overlap and memory.alignment; the accumulator must be
        drained.
        """
        store_whole(self, accumulator, target, stride)

    def axpby(
        self,
        alpha: Operand,
        x: RegisterTensor,
        beta: Operand,
        y: Tensor,
        *,
        c: Tensor | None = None,
        where: Inside | None = None,
    ) -> None:
        """alpha * x + beta * y to `y`, element by element: CuTe's axpby(alpha, tCrC, beta, tCgC).

        `x` is a thread's registers, `y` its part of a tile in memory, of the same shape. C may be another part, `c`;
        `where` is of that shape, too. Types, and what a `beta` of 0 means, are those of `axpby` of a tiled MMA. Raises
        epilogue.axpby-types and what `k.copy` raises.
        """
        axpby_part(self, alpha, x, beta, y, c=c, where=where)
