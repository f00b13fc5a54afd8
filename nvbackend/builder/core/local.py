"""Arrays of one thread's own, which are indexed at run time: local memory."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.lower.conversions import llvm_type
from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.names import name_or
from nvbackend.builder.values.values import Operand, Value, as_index, as_value
from nvbackend.diagnostics import Rule, user_facing
from nvbackend.intrinsics.row.types import ElementType, s32
from nvbackend.isel.machine.function import MemoryUse
from nvbackend.isel.machine.pseudo import LOAD_LOCAL, STORE_LOCAL
from nvbackend.isel.protocols.shared.rules import LOCAL_INDEX

LOCAL = "local"
"""The state space."""
MOST_BYTES = 512 * 1024
"""Local memory of a thread (CUDA C++ Programming Guide, compute capabilities)."""
EXTENT = Rule(
    id="local.extent",
    message="{name}: a local array of {count} x {element} is {bytes} bytes; a thread has 1 to {most}",
    fix="ask for at least one element, and keep larger arrays in global memory",
    why="The launch would fail, or the array would have no element.",
    reference="CUDA C++ Programming Guide, compute capabilities: local memory per thread",
)


@user_facing
class LocalArray:
    """An array of a thread's own: `array[index]` reads and sets an element, by run-time indices too.

    Elements hold nothing before they are set: an array that nothing sets is refused (local.unwritten). Where all
    indices are known at build time, LLVM keeps it in registers; otherwise it lies in local memory, which is cached as
    global memory is. An index that is certainly outside is refused (local.index): a constant, one that the build knows
    of each thread, a loop's counter; of others the simulator says it.
    """

    def __init__(self, k: Core, storage: ir.Value, element: ElementType, count: int, name: str) -> None:
        self._k = k
        self._storage = storage
        self._region = k.regions[-1]
        self._name = name
        self._start = k.places.allocate(name, element.bytes_for(count), element.bytes_for(1), space=LOCAL)
        self.element = element
        self.count = count

    def __getitem__(self, index: Operand) -> Value:
        """Raises local.index, value.scope, value.operation."""
        loaded = self._k.llvm.load(self._place(index, LOAD_LOCAL, MemoryUse.READ))
        return self._k.wrap(loaded, self.element)

    def __setitem__(self, index: Operand, value: Operand) -> None:
        """Raises local.index, value.scope, value.operation, value.type."""
        stored = as_value(self._k, value, self.element).ir
        self._k.llvm.store(stored, self._place(index, STORE_LOCAL, MemoryUse.WRITE))

    __iter__ = None
    __contains__ = None

    def _place(self, index: Operand, opcode: str, use: MemoryUse) -> ir.Value:
        self._k.check_live()
        if not self._region.open:
            self._region.fail_scope()
        number = as_index(self._k, index)
        known = number.constant
        if known is not None and not 0 <= known < self.count and not self._k.execution.is_unreached():
            LOCAL_INDEX.fail(index=known, name=self._name, who="", count=self.count, last=self.count - 1)
        wide = number if number.type.bits >= s32.bits else number.to(s32)
        size = self.element.bytes_for(1)
        place = self._start.moved(self._k.places.step(wide.ir), size)
        self._k.pseudo(opcode, memory=(place.touch(use, size=size),))
        zero = ir.Constant(ir.IntType(32), 0)
        return self._k.llvm.gep(self._storage, [zero, wide.ir], inbounds=True)

    def __repr__(self) -> str:
        return f"<local array {self._name}: {self.count} x {self.element}>"


@user_facing
class Local(Noun):
    """Memory of one thread (PTX ISA 5.1.5)."""

    __noun__ = "local"
    __usual__ = "array"

    def array(
        self, element: ElementType, count: int, *, fill: Operand | None = None, name: str | None = None
    ) -> LocalArray:
        """An array of `count` elements in each thread, indexed at run time; `fill` sets all of them.

        It lives in the with-block that makes it. Raises local.extent, value.name, and memory.element for types of less
        than a byte.
        """
        own = name_or(name, "array", "array")
        if not isinstance(count, int):
            raise TypeError("counts are integers")  # the boundary knows which argument of the call it is
        self._k.check_live()
        if element.bits % 8:
            rules.PART_OF_A_BYTE.fail(element=element, bits=element.bits)
        bytes = element.bytes_for(max(count, 0))
        if not 0 < bytes <= MOST_BYTES:
            EXTENT.fail(name=own, count=count, element=element, bytes=bytes, most=MOST_BYTES)
        with self._k.llvm.goto_entry_block():
            storage = self._k.llvm.alloca(ir.ArrayType(llvm_type(element), count), name=own)
        array = LocalArray(self._k, storage, element, count, own)
        if fill is not None:
            for index in range(count):
                array[index] = fill
        return array
