"""What must hold before a kernel is launched, and the report of a failed launch."""

from __future__ import annotations

import os

from nvbackend.diagnostics import Rule

_EXECUTION_CONFIGURATION = "CUDA C++ Programming Guide, Execution Configuration"
_LAUNCH = "CUDA driver API, cuLaunchKernelEx"

NO_GPU = Rule(
    id="launch.no-gpu",
    message="no kernel can be loaded or launched here: {reason}",
    fix="run on a machine with an NVIDIA GPU and its driver, with `pip install nvbackend[gpu]`; or pass "
    'device="simulator"',
    why="Loading and launching go through numba-cuda's context and cuda.core, which need the driver.",
    reference="CUDA driver API, cuInit",
)
DEVICE_NAME = Rule(
    id="launch.device-name",
    message="there is no device {given!r} to load a kernel on",
    fix='pass device="simulator", device="gpu", or nothing',
    why="A kernel would run elsewhere than where it was meant to.",
    reference="docs/guide.md, Building and launching",
)
SIMULATOR_OPTION = Rule(
    id="launch.simulator-option",
    message="{options} for {kernel}, which does not run in the simulator",
    fix='pass device="simulator" too, or leave it out',
    why="A GPU has neither the order of threads that is asked for, nor the checks, nor the report.",
    reference="docs/guide.md, Building and launching",
)
ARCHITECTURE = Rule(
    id="launch.architecture",
    message="kernel {kernel} is compiled for {target}, which the current device ({device}, compute capability "
    "{capability}) cannot run",
    fix='compile it for the device: kernel.compile(target="{nearest}")',
    why="The driver refuses a binary of another architecture, with an error that names neither.",
    reference="PTX ISA 11.1.2 (.target); CUDA C++ Programming Guide, Binary Compatibility",
)
LOAD_FAILED = Rule(
    id="launch.load-failed",
    message="the driver does not load kernel {kernel} from its {form}: {error}",
    fix="give the kernel a cubin from a ptxas that the driver takes, or a PTX version that it knows",
    why="A driver takes PTX up to its own ISA version only, and binaries of its own chips.",
    reference="CUDA driver API, cuLibraryLoadData",
)
NOT_COMPILED = Rule(
    id="launch.not-compiled",
    message="{given} is not a compiled kernel",
    fix="{fix}",
    why="compile() makes the code to load: PTX and cubin.",
    reference="docs/guide.md, Building and launching",
)
TIMING = Rule(
    id="launch.timing",
    message="launches cannot be timed with {problem}",
    fix="give a dictionary of at least one name and function, one round, one repeat a round, and nothing below 0; "
    "a clock gives finite times of 0 or more",
    why="There is nothing to take the mean of, or nothing that can be compared.",
    reference="CUDA driver API, cuEventElapsedTime",
)
ARGUMENT_COUNT = Rule(
    id="launch.argument-count",
    message="kernel {kernel} takes {expected} argument(s) ({names}), not {given}",
    fix="pass one argument per parameter, in the order of the signature",
    why="The driver reads as many addresses as the kernel has parameters: a missing one is a read out of bounds.",
    reference=_LAUNCH,
)
ARGUMENT_KIND = Rule(
    id="launch.argument-kind",
    message="argument {name} is {given}; the parameter is {expected}",
    fix="pass {expected}{of}",
    why="An argument is copied byte by byte: an address taken for a number, or the reverse, is not noticed.",
    reference=_LAUNCH,
)
DTYPE = Rule(
    id="launch.dtype",
    message="argument {name} has elements of {given}; the parameter is {element}",
    fix="pass an array of {accepted}",
    why="A kernel reads the bytes as its own type: wrong numbers, or a read past the end where the sizes differ.",
    reference="CUDA Array Interface 3 (typestr); DLPack (DLDataType)",
)
SHAPE = Rule(
    id="launch.shape",
    message="argument {name} has no elements (shape {shape})",
    fix="leave the launch out where there is nothing to do",
    why="An empty array has a null address.",
    reference="CUDA Array Interface 3 (shape)",
)
STRIDE = Rule(
    id="launch.stride",
    message="argument {name} of shape {shape} has strides of {strides} bytes; row-major without gaps has {expected}",
    fix="pass a contiguous copy of it",
    why="A pointer parameter carries no strides, so a kernel would read other elements.",
    reference="CUDA Array Interface 3 (strides)",
)
ALIGNMENT = Rule(
    id="launch.alignment",
    message="argument {name} is at address {address:#x}, which is not a multiple of {align} bytes",
    fix="pass an array that starts at a multiple of {align} bytes, not a slice that begins in between; or declare the "
    "parameter nvb.Pointer({element}, align={known}): then wide accesses through it are refused where they are made",
    why="A vector load from such an address ends in CUDA_ERROR_MISALIGNED_ADDRESS and takes the context with it.",
    reference="PTX ISA 6.4.1 (addresses as operands)",
)
DEVICE = Rule(
    id="launch.device",
    message="argument {name} is in {place}; the kernel runs on device {current}",
    fix="copy it to device {current} first",
    why="The kernel would read an address of another memory: an illegal access at best.",
    reference="CUDA driver API, cuPointerGetAttribute",
)
SCALAR_RANGE = Rule(
    id="launch.scalar-range",
    message="argument {name} is {value!r}, which does not fit {element} ({range})",
    fix="pass a value in {range}, or give the parameter a wider type",
    why="The value would silently be cut to the parameter's width.",
    reference="PTX ISA 5.2.1 (fundamental types)",
)
ASSERTED = Rule(
    id="launch.asserted",
    message="argument {name} is {value!r}, and the kernel asserts that it is {asserted}",
    fix="pass a value that is {asserted}, or assert less where the parameter is annotated",
    why="The kernel was compiled and checked for such values alone.",
    reference="docs/guide.md, Sizes",
)
ASSUMED = Rule(
    id="launch.assumed",
    message="the kernel promises by k.assume what does not hold with {arguments}",
    fix="pass arguments that keep the promise, or take k.assume out; what is promised of a single parameter is better "
    "asserted where it is annotated: nvb.i32(minimum=1), which launches on a GPU compare, too",
    why="LLVM compiles for the promise: with other arguments the kernel may compute anything.",
    reference="LLVM Language Reference (llvm.assume); docs/guide.md, Sizes",
)
NOT_ZERO = Rule(
    id="launch.not-zero",
    message="argument {name} has {value} at its byte {byte}; the {what} there must be 0 at a launch of {kernel}",
    fix="pass zeros at the first launch, which each launch leaves as they were; clear them after a launch that has "
    "failed, and give launches that run at once an array each",
    why="A counter that begins elsewhere skips tiles; a flag that is up lets a CTA add sums before they are there.",
    reference="docs/guide.md, Dynamic tiles; docs/guide.md, Equal shares of all steps",
)
ONE_COUNTER = Rule(
    id="launch.one-counter",
    message="arguments {first} and {second} of kernel {kernel} are one place in memory, a counter of two dynamic tiles",
    fix="pass a counter for each",
    why="A CTA that has drawn its last tile would draw of the others while the rest still draws of the first ones.",
    reference="docs/guide.md, Dynamic tiles",
)
LEFT_OVER = Rule(
    id="launch.left-over",
    message="kernel {kernel} leaves {value} at byte {byte} of argument {name}, where the {what} should be 0 again",
    fix="{advice}",
    why="Tiles, or sums of other CTAs, are missing in what the kernel has stored, and the next launch begins wrong.",
    reference="docs/guide.md, Dynamic tiles; docs/guide.md, Equal shares of all steps",
)
OVERLAP = Rule(
    id="launch.overlap",
    message="{first} from its byte {of_first} on and {second} from its byte {of_second} on share {count} bytes, which "
    "the kernel writes; restrict: {promised}",
    fix="pass arrays that do not overlap, or leave restrict=True out where the parameter is annotated",
    why="LLVM has moved loads of one across stores to the other: the numbers read may be older or newer ones.",
    reference="LLVM Language Reference (noalias); docs/guide.md, Memory",
)
GRID = Rule(
    id="launch.grid",
    message="grid {grid} of kernel {kernel}: {problem}",
    fix="{advice}",
    why="The driver refuses it with CUDA_ERROR_INVALID_VALUE, which does not say what was wrong.",
    reference=_EXECUTION_CONFIGURATION,
)
THREADS = Rule(
    id="launch.threads",
    message="kernel {kernel} wants {threads} threads a CTA; it can have 1 to {most} here ({because})",
    fix="build it for at most {most} threads, or with fewer registers a thread",
    why="The driver refuses the launch with CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES.",
    reference=_EXECUTION_CONFIGURATION,
)
SHARED_MEMORY = Rule(
    id="launch.shared-memory",
    message="kernel {kernel} wants {dynamic} bytes of dynamic and {static} of static shared memory a CTA, "
    "{total} together; {device} has {most}",
    fix="take {excess} bytes less: fewer pipeline stages or a smaller tile",
    why="The driver refuses the launch with CUDA_ERROR_INVALID_VALUE.",
    reference="CUDA driver API, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
)
WRAPPED_INDEX = Rule(
    id="launch.wrapped-index",
    message="thread {thread} of CTA {cta} is to access element {meant} of {name}, and computes element {accessed}: its "
    "index wraps",
    fix="compute the index in 64 bits: convert a factor before the product, row.to(nvb.i64) * stride",
    why="A product of 32-bit numbers keeps its low 32 bits. The thread accesses other memory, or ends the context.",
    reference="PTX ISA 9.7.1 (mul, mad: .lo)",
)
STREAM = Rule(
    id="launch.stream",
    message="{given} is not a stream",
    fix="pass a numba, cuda.core, CuPy or PyTorch stream, an object with __cuda_stream__, or an integer handle",
    why="The launch would go to a stream at an arbitrary address.",
    reference="CUDA driver API, CUstream; cuda.core (__cuda_stream__)",
)
LAUNCH_FAILED = Rule(
    id="launch.failed",
    message="the driver does not launch kernel {kernel} (grid {grid}): {error}",
    fix="{advice}",
    why="A launch reports what earlier kernels of the context did as well: the kernel named may be innocent.",
    reference=_LAUNCH,
)
ASYNCHRONOUS_ERROR = Rule(
    id="launch.asynchronous-error",
    message="{error} in one of the kernels launched on the stream since it was last synchronised: {kernels}",
    fix="run under compute-sanitizer to find the access; this process's CUDA context is lost, start a new one",
    why="A kernel runs after its launch has returned, so its errors come up in whichever call is next.",
    reference="CUDA driver API, cuStreamSynchronize",
)
ASSERTION = Rule(
    id="launch.assertion",
    message="kernel {kernel}: {what} in thread {thread} of CTA {cta}",
    fix="find out why the kernel gets there; {after}",
    why="The kernel says itself that it cannot go on; the hardware ends the launch with an error that names no line.",
    reference="docs/guide.md, Debugging; CUDA C++ Programming Guide, Assertion",
)


def how_to_load(kernel: object) -> str:
    """What to write for an object that is not a compiled kernel."""
    if isinstance(kernel, str) and ".version" in kernel:
        return "run a text of PTX in the simulator: nvb.simulator.Simulator().load(text)"
    if isinstance(kernel, str | os.PathLike):
        return (
            f"read the file that compiled.save(path) wrote: nvb.runtime.load(nvb.load_compiled({os.fspath(kernel)!r}))"
        )
    return "compile it first: nvb.runtime.load(kernel.compile())"
