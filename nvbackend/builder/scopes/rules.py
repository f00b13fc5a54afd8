"""Rules on how a kernel is written: types, scopes, control flow. Each is used by the call that it guards."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

TYPE_MISMATCH = Rule(
    id="value.type",
    message="{problem}",
    fix="{advice}",
    why="An implicit conversion would change rounding or sign without a trace.",
    reference="docs/guide.md, Values and variables",
)
UNSUPPORTED_OPERATION = Rule(
    id="value.operation",
    message="{operation} is not defined for {element}",
    fix="{advice}",
    why="LLVM would refuse the module, far from the line that asked for it.",
    reference="docs/guide.md, Values and variables; PTX ISA 9.7 (the types that each instruction has)",
)
NO_EFFECT = Rule(
    id="call.no-effect",
    message="{argument} has no effect on {call}: {reason}",
    fix="{advice}",
    why="The numbers would be the same as without it, and not those that the call asks for.",
    reference="docs/api.md",
)
CONSTANT_RANGE = Rule(
    id="value.constant",
    message="{problem}",
    fix="use {allowed}",
    why="A constant that is cut to the type's width is another constant.",
    reference="PTX ISA 5.2 (types)",
)
NO_TRUTH_VALUE = Rule(
    id="value.truth",
    message="a run-time value has no truth value while the kernel is being built",
    fix="{advice}",
    why="Python's `if` would decide once, at build time, for every thread.",
    reference="docs/guide.md, A first kernel",
)
NO_NUMBER = Rule(
    id="value.number",
    message="a run-time value cannot be used as a Python number or sequence while the kernel is being built: {error}",
    fix="{advice}",
    why="The number is known when the kernel runs, and differs between threads.",
    reference="docs/guide.md, Values and variables",
)
OUT_OF_SCOPE = Rule(
    id="value.scope",
    message="a value made inside {block} is used after that block ended",
    fix="{advice}",
    why="On the paths that skip the block the value does not exist.",
    reference="LLVM Language Reference, well-formedness (dominance)",
)
SET_A_VARIABLE = (
    "make a variable before the block, v = k.var(...), and set it inside with v.set(...) or v += ...: "
    "`v = ...` only rebinds the Python name"
)
REBOUND = Rule(
    id="value.rebound",
    message="{name} is bound to another value in {block}, and read {when}: Python does that once, while the kernel "
    "is built, whichever threads come to the block and how often",
    fix="{advice}",
    why="An assignment of Python is not an instruction: the threads would not run it.",
    reference="docs/guide.md, Values and variables",
)
FOREIGN_VALUE = Rule(
    id="value.kernel",
    message="a value of kernel {owner} is used in kernel {user}",
    fix="pass it to {user} as a parameter",
    why="Each kernel has its own registers.",
    reference="LLVM Language Reference, well-formedness",
)
NOT_CALLED = Rule(
    id="call.not-called",
    message="{call} is named here and not called, which does nothing",
    fix="call it: {call}(...)",
    why="Python evaluates such a statement silently, and the kernel is built without the instruction.",
    reference="Python Language Reference, expression statements",
)
NOT_A_VALUE = Rule(
    id="value.kind",
    message="{given!r} cannot be used as {kind}",
    fix="{advice}",
    why="Only values of the kernel have a register.",
    reference="docs/guide.md, Values and variables",
)
UNREACHABLE = Rule(
    id="control.unreachable",
    message="nothing after an unconditional {exit} in the same block is ever executed",
    fix="delete it, or make the exit conditional with {exit}if(condition)",
    why="The code would be dropped silently.",
    reference="LLVM Language Reference, terminators",
)
ELSE_WITHOUT_IF = Rule(
    id="control.else",
    message="k.else_() (or k.consumers()) does not follow the end of a k.if_() (or k.producer()) block directly",
    fix="open it once, right after the if block and in the same block; move what is between before the if",
    why="It has no condition of its own, and what is between would be lost on this side.",
    reference="docs/guide.md, Values and variables",
)
NO_LOOP = Rule(
    id="control.loop",
    message="{exit} is outside a loop",
    fix="use it inside `with k.range(...)` or `with k.loop()`",
    why="There is no loop to leave.",
    reference="docs/guide.md, Values and variables",
)
ZERO_STEP = Rule(
    id="control.step",
    message="k.range with a step of {step}: the step must be a positive integer",
    fix="count up and compute the index from the counter",
    why="The loop would not end, or not run.",
    reference="docs/guide.md, Values and variables",
)
RANGE_END = Rule(
    id="control.range-end",
    message="k.range up to {stop} by {step} counts to {last}, which is past the largest {element}, {limit}",
    fix="count in a wider type, k.const(0, nvb.i64), or count steps and multiply",
    why="The counter wraps to a negative number and the loop never ends.",
    reference="PTX ISA 9.7.1 (add: no overflow is reported)",
)
ENDLESS = Rule(
    id="control.endless",
    message="nothing leaves this k.loop(): it has no break_, break_if, return_ or return_if",
    fix="leave it with k.break_if(condition)",
    why="The kernel would never end, and LLVM may remove a loop that does nothing visible.",
    reference="LLVM Language Reference (forward progress)",
)
NOT_ENTERED = Rule(
    id="control.not-entered",
    message="{call}(...) was called here and its block never opened: what belongs inside runs unconditionally",
    fix="write `with {call}(...):` and put the code inside",
    why="The call alone emits nothing.",
    reference="docs/guide.md, Values and variables",
)
ENTERED_TWICE = Rule(
    id="control.entered-twice",
    message="the block of one {call}(...) is entered a second time",
    fix="call it again for each block: `with {call}(...):`",
    why="One call is one block of the kernel: it cannot be emitted in two places, nor inside itself.",
    reference="docs/guide.md, Values and variables",
)
OPEN_BLOCK = Rule(
    id="control.open",
    message="the kernel ends while {block} is open",
    fix="finish the kernel after the block",
    why="The rest of the block, and what follows it, would be missing.",
    reference="docs/guide.md, Values and variables",
)
TORN = Rule(
    id="control.torn",
    message="{block} was left by a Python exception ({error}), so the kernel is incomplete",
    fix="let the exception end the build, or catch it inside the block; then build the kernel anew",
    why="What should follow in the block is missing, and its end was never emitted.",
    reference="docs/guide.md, Values and variables",
)
LEFT = Rule(
    id="control.left",
    message="Python's `{statement}` leaves {block} while the kernel is built: what follows is cut off for all threads",
    fix="{advice}",
    why="The function runs once and emits the code of every thread; Python cannot leave it for some of them.",
    reference="docs/guide.md, Values and variables",
)
NO_WITH = Rule(
    id="control.with",
    message="{call}(...) {problem}: it is a block of the kernel",
    fix="{advice}",
    why="Python runs the function once, when the kernel is built; a block is what a `with` statement opens.",
    reference="docs/guide.md, Values and variables",
)
FINISHED = Rule(
    id="kernel.finished",
    message="kernel {name} is finished and cannot be added to",
    fix="{advice}",
    why="Its code is verified already.",
    reference="docs/guide.md, A first kernel",
)
KERNEL_NAME = Rule(
    id="kernel.name",
    message="{given!r} is not a name that PTX takes for a kernel",
    fix="use letters, digits, _ and $, beginning with a letter: {suggested!r}",
    why="ptxas would stop with a syntax error.",
    reference="PTX ISA 4.4 (identifiers)",
)
KERNEL_FUNCTION = Rule(
    id="kernel.function",
    message="{kernel} cannot be built: {problem}",
    fix="{advice}",
    why="The function runs once, with the builder, the kernel's parameters and the constants of the build.",
    reference="docs/guide.md, A first kernel",
)
CHECK = Rule(
    id="kernel.check",
    message="check={given} of {kernel}: {problem}",
    fix="{advice}",
    why="The dry run executes the kernel with sizes of its own choice, or with those of its parameters that are given.",
    reference="docs/checks.md, The dry run",
)
PARAMETER_TYPE = Rule(
    id="kernel.parameter",
    message="parameter {name!r} of kernel {kernel} {problem}",
    fix="{advice}",
    why="The type decides how the argument is passed.",
    reference="PTX ISA 5.1.6.1 (kernel parameters)",
)
PARAMETER_FACT = Rule(
    id="kernel.parameter-fact",
    message="{name} is declared {given}: {needs}",
    fix="{advice}",
    why="LLVM, ptxas or the driver would refuse it, far from the line that declares it.",
    reference="PTX ISA 5.1.6.1 (kernel parameters), 5.5.3 (tensor maps: bounding box)",
)
LAUNCH_FACT = Rule(
    id="kernel.bounds",
    message="{fact} = {given}: {needs}",
    fix="{advice}",
    why="The launch would be refused, or the kernel would wait for threads that do not exist.",
    reference="PTX ISA 11.4 (performance-tuning directives), 11.7 (cluster dimension directives)",
)
OUTSIDE = "put it outside the block; a value that it makes can be made before and used inside"
CHOSEN = "leave k.one_thread() out, or k.elect(): one thread alone runs the block already"
ONE_THREAD = Rule(
    id="control.one-thread",
    message="{instruction} is executed by all threads of a warp together, and {block} is run by one",
    fix="{advice}",
    why="The thread would wait for lanes that never come, or the result would be undefined.",
    reference="PTX ISA 9.7 (.sync, .aligned)",
)
WARP = Rule(
    id="kernel.warp",
    message="the CTA has no warp {given}: its warps are {warps}",
    fix="use {warps}, or give the kernel more threads",
    why="No thread would ever run the block.",
    reference="PTX ISA 10 (special registers: tid)",
)
BARRIER_WAITS = Rule(
    id="barrier.waits",
    message="this barrier waits for {threads} threads; the CTA has {there}",
    fix="count the threads that come here, at most {there}",
    why="The kernel would wait for threads that do not exist.",
    reference="PTX ISA 9.7.13.1 (barrier)",
)
SHARED_STATIC_SIZE = Rule(
    id="shared.static-size",
    message="{name} brings the kernel's static shared memory to {total} bytes; {target} has {limit} for a CTA",
    fix="use k.shared(...), dynamic shared memory, for what is large; {over} bytes must go",
    why="ptxas refuses the kernel, and names no line of the program.",
    reference="CUDA C++ Programming Guide, shared memory: static allocations; ptxas 13.5",
)
SHARED_ALIGNMENT = Rule(
    id="shared.alignment",
    message="{name} asks for a multiple of {align} bytes; dynamic shared memory starts at a multiple of {base}{cause}",
    fix="ask for {base} at most, the longest swizzle period; or for more memory, and round the address up",
    why=("Only the offset in the CTA's memory would be aligned; the address would be aligned only by luck."),
    reference="PTX ISA 5.5.7 (swizzling modes)",
)
SHARED_SIZE = Rule(
    id="shared.size",
    message="with {name} the kernel has {total} bytes of shared memory so far; {target} has {limit} for a CTA",
    fix="use fewer stages or smaller tiles: at least {over} bytes must go, besides all that is laid out after {name}",
    why="The launch would be refused.",
    reference="CUDA C++ Programming Guide, compute capabilities table",
)
VECTOR_WIDTH = Rule(
    id="memory.vector",
    message="a vector access of {count} x {element} is {bytes} bytes; one access moves {legal}",
    fix="split it into accesses of at most {most} bytes",
    why="LLVM would split it into scalar accesses, or ptxas refuse it.",
    reference="PTX ISA 9.7.9 (ld, st: .vec)",
)
SUB_BYTE = Rule(
    id="memory.sub-byte",
    message="a step of {count} {element} elements of {bits} bits is not known to be a whole number of bytes",
    fix="step in bytes: address.byte_offset(...); load and store bytes: address.cast(nvb.u8)[...]; make a tensor of "
    "words, which the tiles of an mma are: k.tensor(address.cast(nvb.u32), layout)",
    why="An address names a byte; the step would be rounded to another element.",
    reference="PTX ISA 6.4.1 (byte addressing)",
)
PART_OF_A_BYTE = Rule(
    id="memory.element",
    message="{element} elements have {bits} bits: no access reads or writes them one by one",
    fix="access whole bytes, address.cast(nvb.u8), and unpack with >> and .to(...), or pack with << and |",
    why="An access moves bytes: elements that share one would be read as if each had its own.",
    reference="PTX ISA 5.2.1 (fundamental types), 6.4.1 (byte addressing)",
)
VECTOR_ALIGNMENT = Rule(
    id="memory.alignment",
    message="an access of {bytes} bytes needs an address that is a multiple of {bytes}; this one is only known to be a "
    "multiple of {align}",
    fix="{advice}",
    why="A misaligned vector access faults at run time, and ends the context.",
    reference="PTX ISA 6.4.1 (alignment of vectors)",
)
MISALIGNED = Rule(
    id="memory.misaligned",
    message="{what}: {problem}",
    fix="{advice}",
    why="The access faults at run time and ends the context, or goes to the address with its low bits cut off.",
    reference="PTX ISA 6.4.1 (alignment of vectors), 9.7.9 (cp.async), 9.7.14.5.15 (ldmatrix)",
)
TMA_BOX = Rule(
    id="tma.box",
    message="tensor map {name!r} copies boxes of {box}; the tile {tile} is not made of whole such boxes",
    fix="declare TensorMap(..., box={wanted})",
    why="TMA would write past the tile, or leave parts of it as they were.",
    reference="PTX ISA 5.5.3 (tensor maps: bounding box)",
)
TMA_RANK = Rule(
    id="tma.tile-rank",
    message="tensor map {name!r} has a box of {box}; {call} copies tiles of a matrix, which a box has in its innermost "
    "and one other dimension",
    fix="copy its boxes one by one with {instead}, where {name} has {rank} coordinate(s), innermost first; or declare "
    "a box of a matrix, as TensorMap({element}, box={wanted}, swizzle={swizzle}), with the extent 1 along all others",
    why="A tile has rows and columns: nothing says which of the other dimensions its rows are along.",
    reference="PTX ISA 5.5.3 (tensor maps: bounding box)",
)
TMA_SWIZZLE = Rule(
    id="tma.swizzle",
    message="tensor map {name!r} swizzles by {given} bytes; the tile is laid out for {wanted}",
    fix="declare TensorMap(..., swizzle={wanted}), or choose the tile's layout with a {given}-byte swizzle",
    why="The tensor core would read other bytes than TMA wrote there: wrong numbers, no fault.",
    reference="PTX ISA 5.5.7 (swizzling modes), 9.7.15.5.1.2 (shared memory layout)",
)
TMA_ELEMENT = Rule(
    id="tma.element",
    message="tensor map {name!r} is of {given} elements; the tile holds {wanted}",
    fix="declare TensorMap({wanted}, ...)",
    why="The box would have another number of bytes than the tile and the expected transaction.",
    reference="PTX ISA 5.5.3 (tensor maps)",
)
TMA_PADDED = Rule(
    id="tma.padded",
    message="tensor map {name!r} has no padding; the tile holds 16 elements of {element} and padding in 16 bytes",
    fix="keep the matrix in memory as the tile has it, tile.layout.arrange(matrix), and copy its bytes by k.bulk.load",
    why="The elements would lie side by side, and the tensor core would read half of them, or none, as padding.",
    reference="PTX ISA 5.5.1 (b4x16_p64, b6x16_p32), 9.7.16.10.4 (packing formats)",
)
TMA_MULTICAST = Rule(
    id="tma.multicast",
    message="a tile of {boxes} box(es) of {box} cannot be shared out over a cluster of {cluster}",
    fix="make the box {cluster} times smaller in its first dimension, or load without multicast",
    why="Each CTA loads its share for all; a share must be whole boxes.",
    reference="PTX ISA 9.7.9.27.1.2 (cp.async.bulk.tensor, .multicast::cluster)",
)
TMA_PLACE = Rule(
    id="tma.place",
    message="the copy gives {given} coordinate(s) for tensor map {name!r}, which has {rank} dimension(s)",
    fix="give {rank}: row and column last, and before them, outermost first, those of the dimensions of extent 1",
    why="The instruction takes one coordinate for each dimension.",
    reference="PTX ISA 9.7.9.27.1.2 (cp.async.bulk.tensor: tensorCoords)",
)
MBARRIER_ADDRESS = Rule(
    id="mbarrier.address",
    message="{given!r} cannot be an mbarrier, which is {bytes} bytes of shared memory at a multiple of {bytes}",
    fix="make it with k.mbarrier.array(count, arrivals)",
    why="The address would be cut to 32 bits, or the access would fault.",
    reference="PTX ISA 9.7.13.15 (mbarrier: size and alignment)",
)
HELD = Rule(
    id="pipeline.left",
    message="{exit} leaves the {call}() block before its end",
    fix="compute the condition inside, keep it in a variable, and leave after the block",
    why=(
        "The end of the block releases the stage, or advances to the next one: without it this thread "
        "lags, waits forever, or works on a tile that is not its own."
    ),
    reference="PTX ISA 9.7.13.15 (mbarrier phases)",
)
TILE_INDEX = Rule(
    id="shared.tile",
    message="there is no tile {given}: the {count} are numbered 0 to {last}",
    fix="use 0 to {last}, or make more of them",
    why="What follows the last tile is another buffer, which would be read or overwritten.",
    reference="docs/guide.md, A ring",
)
ACCUMULATOR_REGISTERS = Rule(
    id="wgmma.registers",
    message="accumulator {accumulator} has {registers} registers a thread, and {given} values were given",
    fix="give {registers} values, or use fill() for one value in all of them",
    why="Some registers would keep what they had.",
    reference="PTX ISA 9.7.15.5.1 (register fragments)",
)
TILE_MISMATCH = Rule(
    id="mma.tile",
    message="an A tile of {a} columns and a B tile of {b} columns cannot be multiplied in steps of K = {k}",
    fix="give both tiles the same K extent, a multiple of {k}",
    why="The instruction would read past one of the tiles.",
    reference="PTX ISA 9.7.15.2 (wgmma shapes)",
)
ATTACH_PLACE = Rule(
    id="attach.place",
    message="{given!r} is not an llvmlite IRBuilder that is positioned in a block of a function",
    fix="position it first: ir.IRBuilder(function.append_basic_block('entry'))",
    why="The calls are emitted at its place.",
    reference="llvmlite IR layer",
)
ATTACH_ORDER = Rule(
    id="attach.order",
    message="the IRBuilder is in block {block}, ahead of instructions that nvbackend has emitted there",
    fix="emit each block in the order of its instructions; make another block for what comes earlier",
    why="The protocols are checked in the order of the calls: what runs earlier would be taken for what runs later.",
    reference="docs/guide.md, In a compiler of your own",
)
ATTACH_BLOCK = Rule(
    id="attach.block",
    message="block {block}: {problem}",
    fix="{advice}",
    why=(
        "What is emitted there is not part of the function, or is checked as the end of a path that in fact continues."
    ),
    reference="LLVM Language Reference, terminators",
)
LLVM_TYPE = Rule(
    id="value.llvm-type",
    message="an LLVM value of type {given} is not of type {element}, which is {wanted} in LLVM",
    fix="name the element type that it has, or convert it with the builder it comes from",
    why="Every instruction that follows would be typed wrongly, and LLVM would refuse the module.",
    reference="LLVM Language Reference, type system",
)
OUTER = Rule(
    id="kernel.outer",
    message="this is the function of kernel {inner}, and the call is on the builder of kernel {outer}, around it",
    fix="use the builder that the function of {inner} gets as its first argument, or build {inner} before or after",
    why="The instruction would become part of {outer}, which other threads run at another time.",
    reference="docs/guide.md, A first kernel",
)
OPERAND = Rule(
    id="machine.operand",
    message="{instruction}, operand {operand}: {problem}; given: {given}",
    fix="pass what the instruction takes; a value is converted with .to() or .bitcast()",
    why="LLVM would refuse the module, or the instruction would read other registers.",
    reference="PTX ISA, the instruction's syntax",
)
