"""The kernel builder: all calls in one object, which `finish` turns into a finished kernel."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from nvbackend.builder.core.assumptions import assume_values
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.parameters import (
    TENSOR_MAP_ALIGNMENT,
    TENSOR_MAP_BYTES,
    TensorMapParameter,
    check_parameters,
)
from nvbackend.builder.kernel.ahead import Ahead
from nvbackend.builder.kernel.bounds import checked_bounds, checked_policy
from nvbackend.builder.kernel.check import Check, sizes_of
from nvbackend.builder.kernel.dry_run import dry_run
from nvbackend.builder.kernel.operations import Operations
from nvbackend.builder.kernel.owners import claim, owner_faults
from nvbackend.builder.lower.conversions import llvm_type
from nvbackend.builder.lower.modules import NamingModule
from nvbackend.builder.lower.registers import FunctionNames
from nvbackend.builder.lower.text import text_of_module
from nvbackend.builder.ops.groups import of_whole_calls
from nvbackend.builder.scopes.names import check_kernel_meaning, is_ptx_name, suggested_kernel_name
from nvbackend.builder.scopes.rules import FINISHED, KERNEL_NAME
from nvbackend.builder.scopes.unmentioned import Unmentioned, unmentioned, unused_parameters
from nvbackend.builder.tiles.mma.unread import work_for_nothing
from nvbackend.builder.values.carried import carried_sums
from nvbackend.builder.values.math_policy import MathPolicy
from nvbackend.builder.values.values import GLOBAL_SPACE, Value
from nvbackend.diagnostics import Diagnostic, Location, Rule, Severity, caller_location, raise_all, user_facing
from nvbackend.diagnostics.announce import Suppressed, announce
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.semantics import GridUse
from nvbackend.intrinsics.sync.register_budget import launch_limit
from nvbackend.isel.machine.clusters import needs_cluster
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.machine.register_room import LAUNCH_REGISTERS
from nvbackend.isel.target.target import Target
from nvbackend.launch_calls import NotLoaded
from nvbackend.signature import Extents, LaunchBounds, Parameter, Pointer, Scalar, Shape, Signature, TensorMap

if TYPE_CHECKING:
    from nvbackend.codegen.compiled import CompiledKernel

TRIPLE = "nvptx64-nvidia-cuda"
_ATTRIBUTE = re.compile(r"align \d+|[a-z][\w.]*(?:\([^()]*\))?")
"""An attribute of an argument, as llvmlite writes it."""
_FTZ = '"denormal-fp-math-f32"="preserve-sign,preserve-sign"'


class _Laps:
    """Seconds, by the names of what they were spent on."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begun = time.perf_counter()

    def end(self, name: str) -> None:
        """The time since the last lap was spent on `name`."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._begun
        self._begun = now


@user_facing
class KernelBuilder(Operations):
    """Builds one kernel.

    `target` is a name such as "sm_90a", or a Target. `threads` are the threads of a CTA and `cluster` the CTAs of a
    cluster, each as a number along x or a tuple (x, y, z). `min_ctas` is the number of CTAs that must fit on an SM, and
    `max_registers` the number of registers of a thread; both limit the registers that ptxas may use. `debug=False`
    leaves out prints, assertions, traps and clocks. `allow` are rules of protocols that are not reported, with reasons
    if it is a mapping. `rules` are rules of your own (`nvb.rules`). `math` says what floating-point arithmetic may do.

    Emit instructions with the calls of this object, then call `finish()`, or `compile()`, which also finishes.
    """

    def __init__(
        self,
        name: str,
        target: str | Target,
        *,
        threads: Extents,
        cluster: Extents = 1,
        min_ctas: int | None = None,
        max_registers: int | None = None,
        math: MathPolicy | None = None,
        parameters: Sequence[Parameter] = (),
        debug: bool = True,
        allow: Mapping[str, str] | Sequence[str] = (),
        severity: Mapping[str, str | Severity] | None = None,
        rules: Sequence[Rule] = (),
    ) -> None:
        parsed = Target.parse(target)
        if not isinstance(name, str) or not is_ptx_name(name):
            KERNEL_NAME.fail(given=name, suggested=suggested_kernel_name(name))
        check_kernel_meaning(name)
        self._bounds, self._warnings = checked_bounds(parsed, threads, cluster, min_ctas, max_registers)
        self._unmentioned = Unmentioned()
        self.max_registers = max_registers
        """The most registers a thread may have, None where nothing was asked for."""
        check_parameters(name, parameters)
        self._laps = _Laps()
        self.module = NamingModule(name)
        self.module.triple = TRIPLE
        types = [_parameter_type(parameter) for parameter in parameters]
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), types), name)
        function.calling_convention = "ptx_kernel"
        function.scope = FunctionNames(function.scope)
        policy = checked_policy(math)
        core = Core(name, parsed, function, bounds=self._bounds, cached_storage=True, debug=debug, math=policy)
        super().__init__(core)
        claim(function, self)
        self._rules: tuple[Rule, ...] = ()
        if type(rules) is not tuple or rules:
            from nvbackend.isel.verify.own_rules import checked_rules

            self._rules = checked_rules(rules)
        core.allowances.own = [rule.id for rule in self._rules]
        core.allowances.of_kernel(allow)
        core.allowances.of_severity(severity or {})
        self._parameters = tuple(parameters)
        self.core.execution.start(self._bounds, entered=True, shaped=True)
        if min_ctas is not None or max_registers is not None:
            self.machine.attributes[LAUNCH_REGISTERS] = launch_limit(self.threads, min_ctas, max_registers)
        entry = function.append_basic_block("entry")
        self.core.start(entry)
        self._arguments = [self._argument(*pair) for pair in zip(parameters, function.args, strict=True)]

    def _argument(self, parameter: Parameter, argument: ir.Argument) -> Value | Address | TensorMapParameter:
        argument.name = parameter.name
        if isinstance(parameter.type, Scalar):
            value = self.core.wrap(argument, parameter.type.element)
            assume_values(self.core, value, parameter.type)
            return value
        if isinstance(parameter.type, Pointer):
            kind = parameter.type
            return self.global_address(argument, kind.element, kind.align, const=kind.const)
        return TensorMapParameter(parameter.name, argument, parameter.type)

    @property
    def arguments(self) -> list[Value | Address | TensorMapParameter]:
        """The kernel's parameters in their order, as its code uses them: values, addresses and tensor maps."""
        return self._arguments

    @property
    def signature(self) -> Signature:
        """What the kernel takes and how it must be launched."""
        overlaps = any(each.semantics.grids is GridUse.WAIT for each in self.machine.instructions())
        bounds = dataclasses.replace(self._bounds, dynamic_shared_bytes=self.memory.end, overlaps=overlaps)
        return Signature(self.name, self._parameters, bounds)

    def finish(self, *, check: bool | Sequence[Mapping[str, int]] = True) -> FinishedKernel:
        """Close the kernel, verify its machine form, and try it in a dry run. Raises every error found, together.

        The dry run executes the kernel on its own control values: with sizes of its own choice (`check=True`), or with
        each of those that are given, parameters by their names (`check=[{"n": 256}]`; kernel.check). `check=False`
        leaves it out: for a part of a kernel, which would wait for what the rest does.
        """
        return self._finish(caller_location(), check)

    def _finish(self, end: Location | None, check: Check, ahead: Ahead | None = None) -> FinishedKernel:
        """As `finish`; `end` is the line where the kernel ends for threads that leave nowhere else.

        `ahead` starts on the text before the kernel is verified.
        """
        if self.core.finished:
            FINISHED.fail(name=self.name, advice="keep what the first k.finish() or k.compile() returned, and use that")
        sizes = sizes_of(check, self.name, self._parameters)
        self._close(end)
        text = self._early_text()
        self._laps.end("build")
        if ahead is not None and text is not None:
            ahead.start(text, self.signature, self.machine)
        self._laps.end("ahead")
        from nvbackend.isel.verify.verify import verify  # with the protocols: LLVM is at work meanwhile

        if not self.core.indices:
            self.core.link_threads()
        self._laps.end("build")
        warnings = self._judged(verify(self.machine, rules=self._rules))
        self._laps.end("verify")
        if text is None:
            text = self._whole_text()
        self._laps.end("build")
        if ahead is not None:
            ahead.verified(text, self.signature, self.machine)
        allowed = self.core.allowances
        unknown: tuple[str, ...] = ()
        if sizes is not None:
            seen = dry_run(self.core, self.signature, sizes, None if ahead is None else ahead.give_way)
            warnings += raise_all(allowed.kept(seen.found))
            unknown = seen.unknown
        warnings += tuple(allowed.unused())
        self._laps.end("check")
        suppressed = tuple(allowed.suppressed)
        announce(warnings, suppressed)
        timings = {name: self._laps.seconds[name] for name in ("build", "verify", "check")}
        return FinishedKernel(self.signature, self.target, self.machine, text, warnings, timings, suppressed, unknown)

    def _made_by(self, function: Callable[..., Any]) -> None:
        """`function` is what gives the kernel its instructions."""
        self._unmentioned = unmentioned(function)

    def _close(self, end: Location | None) -> None:
        """Check that every block has ended, end the last one, and copy the control flow to the machine form."""
        self.core.check_blocks()
        if self._dynamic_tiles:
            from nvbackend.builder.tiles.dynamic.dynamic_tiles import unused_tiles

            self._warnings += raise_all(self.core.allowances.kept(unused_tiles(self._dynamic_tiles)))
        if self.core.exit_kind is None:
            self.control.end(end)
        self.core.finished = True
        self.core.link_blocks()
        if self.core.indices:
            self.core.link_threads()

    def _judged(self, verified: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
        """The warnings about the finished function, among them what the verifier says. Raises the errors."""
        of_calls = [*owner_faults(self), *self.core.peers.faults(), *self.groups.faults()]
        faults = [*self._warnings, *of_calls, *verified]
        faults += work_for_nothing(self.core, self._epilogues)
        faults += [*self.cluster._faults(), *carried_sums(self.core)]
        faults += unused_parameters(self._unmentioned, self.function, self.machine, self._parameters)
        return raise_all(of_whole_calls(self.core, self.core.allowances.kept(faults)))

    def _early_text(self) -> str | None:
        """The text of what has not been verified; None where it may be another one then, or cannot be written."""
        if self._rules or self.core.functions.calls:  # the analyses of the author's rules may do anything
            return None
        try:
            return kernel_text(self.module, self)
        except Exception:  # noqa: BLE001 (it comes again, after the verifier's)
            return None

    def _whole_text(self) -> str:
        """The text of the function, with the device functions called that the analyses saw in place."""
        from nvbackend.builder.scopes.calls import spliced

        with spliced(self.core.function, self.core.functions.calls):
            return kernel_text(self.module, self)

    def compile(self, *, check: bool | Sequence[Mapping[str, int]] = True, **options: Any) -> CompiledKernel:
        """Finish, then compile: see `finish` and FinishedKernel.compile."""
        from nvbackend.codegen.stages.options import check_options

        check_options(options)
        with Ahead(options) as ahead:
            return ahead.compiled(self._finish(caller_location(), check, ahead), completed)


@user_facing
@dataclass(frozen=True)
class FinishedKernel(NotLoaded):
    """A verified kernel: `ir` is its LLVM module as text, `machine` its machine form, `diagnostics` the warnings.

    `suppressed` are the diagnostics that the kernel allows, `unknown` what was not judged of it.
    Where its owner's code may be more than LLVM can compile, it is compiled `isolated`, in a process of its own.
    """

    signature: Signature
    target: Target
    machine: MachineFunction = dataclasses.field(hash=False)
    ir: str
    diagnostics: tuple[Diagnostic, ...]
    timings: dict[str, float] = dataclasses.field(compare=False)
    suppressed: tuple[Suppressed, ...] = ()
    unknown: tuple[str, ...] = ()
    isolated: bool = False

    def _stage(self) -> tuple[str, int, bool]:
        return self.signature.name, self.signature.bounds.threads, False

    def __repr__(self) -> str:
        warnings = f", {len(self.diagnostics)} warning(s)" if self.diagnostics else ""
        return f"<finished kernel: {self.machine!r}, {self.signature.bounds.threads} threads{warnings}>"

    def compile(self, **options: Any) -> CompiledKernel:
        """PTX and cubin; options are those of nvb.compile_kernel."""
        from nvbackend.codegen.stages.compiling import compile_kernel
        from nvbackend.codegen.stages.options import check_options

        check_options(options)
        options = {"isolated": self.isolated, **options}
        return completed(self, compile_kernel(self.ir, self.signature, self.machine, self.target, **options))


def completed(finished: FinishedKernel, compiled: CompiledKernel) -> CompiledKernel:
    """`compiled`, made from `finished`, with the warnings and times of both; prints the warnings of `compiled`."""
    announce(compiled.diagnostics)
    return dataclasses.replace(
        compiled,
        suppressed=finished.suppressed,
        unknown=finished.unknown,
        timings={**finished.timings, **compiled.timings},
        diagnostics=(*finished.diagnostics, *compiled.diagnostics),
    )


def kernel_text(module: ir.Module, kernel: KernelBuilder) -> str:
    """The module's text with the attributes of its kernel."""
    notes = [_FTZ] if kernel.core.math.ftz else []
    signature = kernel.signature
    clustered = needs_cluster(kernel.machine)
    text = with_kernel_line(
        text_of_module(module), kernel.function, signature, notes, kernel.max_registers, clustered=clustered
    )
    return with_ftz(text, kernel.core) if kernel.core.math.ftz else text


def with_kernel_line(
    text: str,
    function: ir.Function,
    signature: Signature,
    notes: Sequence[str] = (),
    max_registers: int | None = None,
    *,
    bounded: bool = True,
    clustered: bool = False,
) -> str:
    """The text of a module with the attributes of a kernel that llvmlite's IR layer has no names for.

    llvmlite checks parameter and function attributes against lists that lack NVPTX's; they are added to the text of
    the one `define` line. Those with names of NVPTX's own are left out unless it is `bounded` by them. Where it is
    `clustered`, a launch is of clusters also where these have one CTA.
    """
    start, end = _definition(text, function)
    header, debug, subprogram = text[start:end].rstrip().partition(" !dbg ")
    for parameter, argument in zip(signature.parameters, function.args, strict=True):
        if isinstance(parameter.type, TensorMap):
            attributes = f"byval([{TENSOR_MAP_BYTES} x i8]) align {TENSOR_MAP_ALIGNMENT}"
            attributes += ' "nvvm.grid_constant"' * bounded
            header = _with_attributes(header, argument, attributes)
        elif isinstance(parameter.type, Pointer) and (parameter.type.const or parameter.type.restrict):
            read_only = " readonly" if parameter.type.const else ""
            header = _with_attributes(header, argument, f"noalias{read_only} align {parameter.type.align}")
    every = [*_bounds_of(signature.bounds, max_registers, clustered), *notes] if bounded else [*notes]
    return f"{text[:start]}{' '.join([header, *every])}{debug}{subprogram}\n{text[end:]}"


def _definition(text: str, function: ir.Function) -> tuple[int, int]:
    """Where the `define` line of a function is; calls of it may come before."""
    line = re.search(rf"^define [^\n]*?{re.escape(function.get_reference())}\(", text, re.MULTILINE)
    assert line is not None
    return line.start(), text.index("\n{", line.start())  # a name may have a brace, and has no line break


def _bounds_of(bounds: LaunchBounds, max_registers: int | None, clustered: bool) -> Iterator[str]:
    """The bounds as function attributes of NVPTX's own."""
    # Along x alone the bound is enough, and a launch of fewer threads does no harm to indices.
    is_flat = bounds.shape == (bounds.threads, 1, 1)
    yield f'"nvvm.maxntid"="{bounds.threads}"' if is_flat else f'"nvvm.reqntid"="{_listed(bounds.shape)}"'
    if bounds.min_ctas is not None:
        yield f'"nvvm.minctasm"="{bounds.min_ctas}"'
    if max_registers is not None:
        yield f'"nvvm.maxnreg"="{max_registers}"'
    if bounds.cluster > 1 or clustered:
        yield f'"nvvm.cluster_dim"="{_listed(bounds.cluster_shape)}"'


def with_ftz(text: str, core: Core) -> str:
    """The functions of the module compute by the policy, but for a kernel, whose line has it already."""
    others = [] if core.function.calling_convention == "ptx_kernel" else [core.function]
    for function in [*others, *(called.function for called in core.functions.built)]:
        start, end = _definition(text, function)
        header, debug, subprogram = text[start:end].rstrip().partition(" !dbg ")
        text = f"{text[:start]}{header} {_FTZ}{debug}{subprogram}{text[end:]}"
    return text


def _listed(shape: Shape) -> str:
    return ",".join(map(str, shape))


def _with_attributes(header: str, argument: ir.Argument, attributes: str) -> str:
    """The line with `attributes` for an argument, in place of those of the same names that it has."""
    name = re.escape(argument.get_reference())  # not the parameter's: llvmlite escapes names, and renames a second one
    kind = re.escape(str(argument.type))
    own = {word for word in re.findall(r"[a-z]+", attributes) if word.isalpha()}

    def with_them(line: re.Match[str]) -> str:
        kept = [word for word in _ATTRIBUTE.findall(line[1]) if re.split(r"[^a-z]", word)[0] not in own]
        return " ".join([str(argument.type), *kept, attributes, argument.get_reference()])

    return re.sub(rf"{kind}((?: [^,%]*)?) {name}(?=[,)])", with_them, header)


def _parameter_type(parameter: Parameter) -> ir.Type:
    if isinstance(parameter.type, Scalar):
        return llvm_type(parameter.type.element)
    return ir.PointerType(addrspace=GLOBAL_SPACE if isinstance(parameter.type, Pointer) else 0)
