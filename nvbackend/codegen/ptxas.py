"""PTX to a cubin by ptxas: resources per kernel, and ptxas's remarks as Diagnostics."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from pathlib import Path

from nvbackend.codegen.cubin import Cubin, Resources, is_cubin
from nvbackend.codegen.old_ptxas import check_code
from nvbackend.codegen.ptxas_messages import SPILLS, diagnose
from nvbackend.codegen.stages.steps import last
from nvbackend.codegen.toolchain import Tool, find_ptxas
from nvbackend.diagnostics import (
    DiagnosticError,
    Rule,
    Severity,
    raise_all,
    user_facing,
)
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.diagnostics.classes.late_pattern import late_pattern
from nvbackend.intrinsics.row.features import PtxVersion
from nvbackend.intrinsics.sync.register_budget import THREAD_REGISTERS
from nvbackend.isel.target.target import LAST_IN_PTXAS_12, Target, dotted, lowest_ptx_version

TARGET = Rule(
    id="ptxas.target",
    message="ptxas {release} does not know {target}",
    fix="assemble with {needed}, compile(tool=nvb.codegen.find_ptxas(path)); or stop at PTX, which is what the "
    "simulator takes: compile(assemble=False)",
    why="Each ptxas knows a range of chips: release 13 dropped those before sm_75, and none knows chips of the future.",
    reference="ptxas --list-arch of 12.9 and 13.5",
)
PTX_TOO_NEW = Rule(
    id="ptxas.ptx-version",
    message="ptxas {release} reads PTX up to {newest}, and this is PTX {version}",
    fix="take a newer ptxas (pip install --upgrade nvbackend[ptxas]), or compile for Target.parse({target!r}, {tuple})",
    why="A ptxas refuses PTX of a version after its own.",
    reference="PTX ISA 13 (release notes)",
)
CRASHED = Rule(
    id="ptxas.crash",
    message="ptxas {release} ended without an answer ({status}){said}",
    fix="assemble with another ptxas_level, which is opt_level of nvb.codegen.assemble (1 avoids a known crash of 13.5 "
    "on mbarrier.test_wait), or with another ptxas",
    why="An optimiser's bug ends ptxas on some valid PTX.",
    reference="ptxas 13.5 -O3, mbarrier.test_wait for sm_80, sm_86 and sm_89",
)
NO_CUBIN = Rule(
    id="ptxas.no-cubin",
    message="{path} ended without an error and left no cubin: {reason}",
    fix="install ptxas again, or pass a Tool of another place",
    why="A script of that name, or a disk that is full, can end well and leave nothing to launch.",
    reference="CUDA Binary Utilities (cubin: an ELF image)",
)
LIMIT_IGNORED = Rule(
    id="ptxas.register-limit",
    message="{kernel} uses {registers} registers a thread although the limit given is {limit}",
    fix="leave the limit out: the kernel's own threads and minimum CTAs win over it, so state those",
    why="ptxas ignores --maxrregcount for an entry with .maxnreg or .maxntid, and does not always say so.",
    reference="ptxas 13.5",
    severity=Severity.WARNING,
)
OPT_LEVEL_RANGE = Rule(
    id="ptxas.opt-level",
    message="{argument}={given!r} is not one of ptxas's levels",
    fix="use 0, 1, 2 or 3",
    why="ptxas takes -O0 to -O3.",
    reference="ptxas --help (--opt-level)",
)

REGISTER_LIMIT_RANGE = Rule(
    id="ptxas.register-limit-range",
    message="register_limit={given!r}: a thread has {lowest} to {highest} registers",
    fix="use {lowest} to {highest}, or leave the limit out",
    why="ptxas cuts the number to 32 bits, ignores what is too high, and raises what is too low.",
    reference="ptxas --help (--maxrregcount); ptxas 13.5",
)

_LAST_12 = "the ptxas of CUDA 12.9 (pip install 'nvidia-cuda-nvcc-cu12==12.9.*')"
_RELEASE_OF_PTX = {
    # PTX version: first CUDA release that reads it, for the versions in which a target appeared
    (7, 8): "11.8",
    (8, 0): "12.0",
    (8, 6): "12.7",
    (8, 7): "12.8",
    (8, 8): "12.9",
    (9, 0): "13.0",
}

_UNKNOWN_GPU = late_pattern(r"Value '\w+' is not defined for option 'gpu-name'")
_UNSUPPORTED_VERSION = late_pattern(r"Unsupported \.version (\S+); current version is '([\d.]+)'")
_ENTRY = late_pattern(r"^ptxas info\s*: Compiling entry function '([^']+)' for ")
_PROPERTIES = late_pattern(r"^ptxas info\s*: Function properties for (\S+)")
_FRAME = late_pattern(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = late_pattern(r"^ptxas info\s*: Used (\d+) registers")
_BARRIERS = late_pattern(r"used (\d+) barriers")
_SHARED = late_pattern(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class Assembly:
    """The output of a run of ptxas: the cubin and its log."""

    data: bytes
    log: str


@user_facing
def assemble(
    ptx: str, target: Target, *, tool: Tool | None = None, opt_level: int = 3, register_limit: int | None = None
) -> Cubin:
    """Assemble `ptx` for `target`; `register_limit` is in registers a thread.

    Raises every error of ptxas as ptxas.error, ptxas.unresolved, ptxas.registers-insufficient,
    ptxas.register-allocation, ptxas.target, ptxas.ptx-version or ptxas.crash; ptxas.old-rs-wgmma or
    ptxas.old-hinted-cp-async for PTX that this ptxas compiles to wrong code; ptxas.missing without one. Its remarks
    come back as warnings.
    """
    tool = tool or find_ptxas()
    check_request(opt_level, register_limit, argument="opt_level")
    assembly = run_ptxas(ptx, target, tool, opt_level=opt_level, register_limit=register_limit)
    return interpret(assembly, ptx, tool, register_limit=register_limit)


def check_request(level: int, register_limit: int | None, *, argument: str) -> None:
    """What must hold before ptxas runs; `argument` is the level's name.

    Raises ptxas.opt-level, ptxas.register-limit-range.
    """
    if type(level) is not int or level not in range(4):
        OPT_LEVEL_RANGE.fail(argument=argument, given=level)
    if register_limit is not None and (type(register_limit) is not int or register_limit not in THREAD_REGISTERS):
        REGISTER_LIMIT_RANGE.fail(given=register_limit, lowest=THREAD_REGISTERS[0], highest=THREAD_REGISTERS[-1])


def run_ptxas(ptx: str, target: Target, tool: Tool, *, opt_level: int, register_limit: int | None) -> Assembly:
    """Run ptxas in a directory of its own. Raises its errors, all of them together, and those of `check_code`."""
    return last(running_ptxas(ptx, target, tool, opt_level=opt_level, register_limit=register_limit))


def running_ptxas(
    ptx: str,
    target: Target,
    tool: Tool,
    *,
    opt_level: int,
    register_limit: int | None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Generator[None, None, Assembly]:
    """`run_ptxas` in two steps, between which the program runs; closed between them, it is ended.

    `meanwhile` is called in the second step, unless ptxas has ended by then.
    """
    arguments = ["-v", f"-O{opt_level}", "--gpu-name", target.name, "kernel.ptx", "-o", "kernel.cubin"]
    if register_limit is not None:
        arguments[:0] = ["--maxrregcount", str(register_limit)]
    with tool.directory("kernel.ptx", ptx.encode()) as directory:
        with tool.started(arguments, directory) as process:
            yield
            if process.poll() is None:
                meanwhile()
            log = "".join(process.communicate())
        status = process.returncode
        if status == 0:
            cubin = _cubin_of(directory / "kernel.cubin", tool)
            check_code(ptx, cubin, target, tool)
            return Assembly(cubin, log)
    _refuse_target(log, target, tool)
    raise_all(diagnose(log, ptx))
    ended = f"signal {-status}" if status < 0 else f"exit status {status}"
    said = f": {log.strip()}" if log.strip() else ""
    raise DiagnosticError([CRASHED.diagnose(release=tool.release, status=ended, said=said)])


def _cubin_of(path: Path, tool: Tool) -> bytes:
    """What ptxas wrote. Raises ptxas.no-cubin for anything but a cubin."""
    try:
        data = path.read_bytes()
    except OSError as error:
        NO_CUBIN.fail(path=tool.path, reason=error.strerror)
    if not is_cubin(data):
        NO_CUBIN.fail(path=tool.path, reason=f"{len(data)} bytes that are not an ELF image for CUDA")
    return data


def interpret(assembly: Assembly, ptx: str, tool: Tool, *, register_limit: int | None = None) -> Cubin:
    """The cubin with the resources and remarks of its log."""
    resources = parse_resources(assembly.log)
    faults = diagnose(assembly.log, ptx)
    for kernel in resources:
        if kernel.spill_stores_bytes or kernel.spill_loads_bytes:
            faults.append(
                SPILLS.diagnose(
                    kernel=kernel.kernel,
                    stores=kernel.spill_stores_bytes,
                    loads=kernel.spill_loads_bytes,
                    registers=kernel.registers,
                    how=_what_allows_more(kernel, ptx),
                )
            )
        if register_limit is not None and kernel.registers > register_limit:
            faults.append(
                LIMIT_IGNORED.diagnose(kernel=kernel.kernel, registers=kernel.registers, limit=register_limit)
            )
    return Cubin(assembly.data, resources, raise_all(faults), tool.version)


def declared(ptx: str, kernel: str, directive: str) -> int | None:
    """The number of a directive of an entry, such as `maxnreg`; None where the entry does not have it."""
    head = re.search(rf"\.entry\s+{re.escape(kernel)}\b[^{{]*", ptx)
    number = re.search(rf"\.{directive}\s+(\d+)", head[0]) if head is not None else None
    return int(number[1]) if number is not None else None


def _what_allows_more(kernel: Resources, ptx: str) -> str:
    """What bounds the registers of a kernel that uses all that it may."""
    most, ctas = (declared(ptx, kernel.kernel, name) or 0 for name in ("maxnreg", "minnctapersm"))
    if 0 < most <= kernel.registers:
        return f"a higher max_registers than {most}"
    return f"a lower min_ctas than {ctas}" if ctas > 1 else "fewer threads per CTA, setmaxnreg"


def parse_resources(log: str) -> tuple[Resources, ...]:
    """The resources of every kernel that `ptxas -v` reports in `log`, in name order."""
    entries: dict[str, dict[str, int]] = {}
    entry = described = ""
    for line in log.splitlines():
        if match := _ENTRY.match(line):
            entry = described = match[1]
            entries[entry] = {}
        elif match := _PROPERTIES.match(line):
            # Functions that the kernel calls are described after it, without registers of their own.
            described = match[1]
        elif (match := _FRAME.search(line)) and described in entries:
            stack, stores, loads = (int(number) for number in match.groups())
            entries[described] |= {"stack_bytes": stack, "spill_stores_bytes": stores, "spill_loads_bytes": loads}
        elif (match := _USED.match(line)) and entry:
            entries[entry] |= {
                "registers": int(match[1]),
                "barriers": _number(_BARRIERS, line),
                "shared_bytes": _number(_SHARED, line),
            }
    return tuple(Resources(name, **values) for name, values in sorted(entries.items()))


def _number(pattern: re.Pattern[str], line: str) -> int:
    match = pattern.search(line)
    return int(match[1]) if match else 0


def _refuse_target(log: str, target: Target, tool: Tool) -> None:
    """Raise if `log` says that this ptxas does not support the target or its PTX version."""
    if _UNKNOWN_GPU.search(log):
        TARGET.fail(release=tool.release, target=target.name, needed=_needed(target))
    version = _UNSUPPORTED_VERSION.search(log)
    if version is not None:
        PTX_TOO_NEW.fail(
            release=tool.release, version=version[1], newest=version[2], target=target.name, tuple=_tuple(version[2])
        )


def _tuple(version: str) -> PtxVersion:
    major, minor = version.split(".")
    return int(major), int(minor)


def _needed(target: Target) -> str:
    """Which ptxas knows `target`, in words."""
    if target.number in LAST_IN_PTXAS_12:
        return _LAST_12
    lowest = lowest_ptx_version(target.number, target.suffix)
    release = _RELEASE_OF_PTX.get(lowest)
    return f"the ptxas of CUDA {release} or later" if release else f"a ptxas that reads PTX {dotted(lowest)}"
