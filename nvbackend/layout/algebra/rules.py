"""The rules of the layout algebra, each used by the operation that it belongs to."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_ALGEBRA = "CUTLASS documentation, CuTe layout algebra"
_LAYOUT = "CUTLASS documentation, CuTe layouts"

KNOWN = "use integers that are known when the kernel is built; run-time values may be coordinates and strides"
READ = "read a text by nvbackend.layout.parse, or give integers: Layout((64, 8), (8, 1))"
EXTENT = Rule(
    id="layout-algebra.extent",
    message="{given!r} in {what}: shapes are nested tuples of positive integers, strides of integers",
    fix="{advice}",
    why="The algebra divides and compares extents; it cannot do that with numbers it does not have.",
    reference=_LAYOUT,
)
LIMIT = Rule(
    id="layout-algebra.limit",
    message="{what} with {problem}: the limit is {limit}",
    fix="keep within the limit: {limit}",
    why="Every operation goes through all of it, and an address has 64 bits: nothing could use the result.",
    reference=_LAYOUT,
)
CONGRUENT = Rule(
    id="layout-algebra.congruent",
    message="shape {shape} and stride {stride} are not nested alike",
    fix="give each mode of the shape one stride, in the same parentheses",
    why="A stride without a mode, or a mode without a stride, has no meaning.",
    reference=_LAYOUT,
)
RUN_TIME = Rule(
    id="layout-algebra.run-time",
    message="{operation} of {layout}: a stride (?) is known at run time only",
    fix="use a layout of integers here; layouts with run-time strides can be called, divided, and composed with others",
    why="The result depends on how the strides compare, and is not a layout without knowing it.",
    reference=_ALGEBRA,
)
COORDINATE = Rule(
    id="layout-algebra.coordinate",
    message="coordinate {coordinate} for the shape {shape}: {problem}",
    fix="give one index, or as many as the mode has modes, nested no deeper than the shape; None takes a whole mode",
    why="The coordinate would be read as one of another mode.",
    reference=_LAYOUT,
)
MODE = Rule(
    id="layout-algebra.mode",
    message="{layout} has no mode {mode}: it has {modes}",
    fix="name modes below {modes}, counted from 0; the end of a range, which is excluded, may be {modes}",
    why="The layout does not have this mode.",
    reference=_LAYOUT,
)
PARSE = Rule(
    id="layout-algebra.parse",
    message="expected {expected} at character {position} of a layout:\n    {text}\n    {mark}",
    fix="write it as CuTe prints it: ((_64,_2),_8):((_1,_512),_64), or Sw<3,4,3> o smem_ptr o (_8,_64):(_64,_1)",
    why="A layout that is read wrongly addresses other memory.",
    reference="CUTLASS include/cute/layout.hpp (print)",
)
DIVISIBILITY = Rule(
    id="layout-algebra.divisibility",
    message="composition of {left} with {right}: its mode {mode} reaches a mode of {extent} elements in steps of "
    "{step} and leaves it {when}",
    fix="let the step divide {extent} or be a multiple of it, and the mode's size be a multiple of what fits inside",
    why="The indices that it picks have no constant strides, so that no layout describes them.",
    reference=_ALGEBRA,
)
CARRY = Rule(
    id="layout-algebra.carry",
    message="composition of {left} with {right}: its modes together reach index {most} of a mode of {extent} elements, "
    "though each stays inside",
    fix="let the modes of the right layout step over whole modes of the left one, or coalesce the right one first",
    why="The sum carries into the next mode; composed one by one, the modes would address other elements.",
    reference=_ALGEBRA,
)
COMPLEMENT = Rule(
    id="layout-algebra.complement",
    message="{layout} has no complement: its mode {shape}:{stride} lies among what smaller strides already cover, "
    "up to {covered}",
    fix="complement a layout whose modes step over each other; filter() drops strides of 0",
    why="What is left between such modes is not a layout.",
    reference=_ALGEBRA,
)
INVERSE = Rule(
    id="layout-algebra.inverse",
    message="{layout} has no left inverse that is a layout: {problem}",
    fix="invert a layout that gives every index once and whose gaps are whole multiples; right_inverse() takes what is "
    "contiguous",
    why="The inverse would map other indices than intended to an element.",
    reference=_ALGEBRA,
)
TILER = Rule(
    id="layout-algebra.tiler",
    message="tiler {tiler} for {layout}: {problem}",
    fix="give a layout, an integer, or a tuple of these with at most one entry a mode",
    why="The entries would meet other modes than meant.",
    reference=_ALGEBRA,
)
TILE = Rule(
    id="layout-algebra.tile",
    message="tile_to_shape of {block}, {extents} elements, to {target}: {problem}",
    fix="let every extent be a multiple of the block's: {nearest}",
    why="A part of a block would be left out, and with it a part of its swizzle pattern.",
    reference=_ALGEBRA,
)
RECAST = Rule(
    id="layout-algebra.recast",
    message="{what} cannot be read as elements {factor} times as {scale}: {problem}",
    fix="recast to a width whose elements are whole runs of neighbours",
    why="A new element would be put together from parts that are not neighbours.",
    reference="CUTLASS include/cute/layout.hpp (upcast, downcast)",
)
SWIZZLE = Rule(
    id="layout-algebra.swizzle",
    message="Swizzle<{bits},{base},{shift}>: {problem}",
    fix="take B and M of 0 or more and |S| >= B, such as Swizzle(3, 4, 3)",
    why=("The bits that change would be among those that decide the change: the result would not be a permutation."),
    reference="CUTLASS include/cute/swizzle.hpp",
)
SWIZZLE_THROUGH = Rule(
    id="layout-algebra.swizzle-through",
    message="{layout} composed with {swizzle} is not a swizzled layout: {problem}",
    fix="compose with a layout that maps the swizzle's two groups of bits to two groups of bits",
    why="The result is not an exclusive-or of two groups of address bits, which is all that a swizzle can express.",
    reference="CUTLASS include/cute/swizzle_layout.hpp (composition)",
)
ELEMENT_WIDTH = Rule(
    id="layout-algebra.element-width",
    message="{layout} swizzles bytes of shared memory, and its strides count elements of {known}",
    fix="say how wide they are, a power of two of bits: SmemPtr(16) instead of SmemPtr(), or smem_ptr[16b](unset)",
    why="Which element bits the swizzle exchanges depends on the element's width.",
    reference="CUTLASS include/cute/pointer_flagged.hpp",
)
