"""Launching what cannot be launched: a kernel that is not loaded yet, or a call that other libraries have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from nvbackend.diagnostics import Diagnostic, DiagnosticError, MissingAttribute, Rule, missing_name

LAUNCH_CALL = Rule(
    id="launch.call",
    message="{call} does not launch kernel {kernel}: {problem}",
    fix="{advice}",
    why="Python's own error would not say which call comes first, and other libraries launch kernels by other calls.",
    reference="docs/guide.md, Building and launching",
)
LAUNCHES = frozenset({"configure", "forall", "launch", "prepare", "run", "warmup"})
"""Methods that launch a kernel: ours, and those of numba and Triton."""


class NoLaunches:
    """An object of the launch path that is not launched by the call that a user writes: launch.call says what is."""

    __slots__ = ()
    __iter__ = None
    """Python iterates over whatever has brackets, without an end."""

    def _not_launched(self) -> tuple[str, str, str]:
        """The kernel's name, why such a call does not launch it, and what does."""
        raise NotImplementedError

    def _meant(self, name: str) -> str:  # noqa: ARG002
        """What to write in place of an attribute that it does not have, where that is known."""
        return ""

    def _refused(self, call: str, *more: str) -> Diagnostic:
        kernel, problem, advice = self._not_launched()
        return LAUNCH_CALL.diagnose(call=call, kernel=kernel, problem=problem, advice="; ".join((advice, *more)))

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refused by launch.call."""
        raise DiagnosticError([self._refused("kernel(...)")])

    if not TYPE_CHECKING:  # it would make a type checker accept every name

        def __getattr__(self, name: str) -> Any:
            if name in LAUNCHES:
                raise MissingAttribute([self._refused(f"kernel.{name}(...)")])
            message = f"{type(self).__name__!r} object has no attribute {name!r}{self._meant(name)}"
            raise AttributeError(message, name=name, obj=self)


_COMPILED = ("ptx", "cubin", "sass", "report", "save")
_FIGURES = ("registers", "shared_bytes", "stack_bytes", "spill_stores_bytes", "spill_loads_bytes", "occupancy")
"""What people ask of a kernel itself that is compiled, or of its report."""


class NotLoaded(NoLaunches):
    """A kernel before `nvbackend.runtime.load`."""

    __slots__ = ()

    def _stage(self) -> tuple[str, int, bool]:
        """The kernel's name, the threads of its CTA, and whether it is compiled."""
        raise NotImplementedError

    def _not_launched(self) -> tuple[str, str, str]:
        kernel, _, is_compiled = self._stage()
        problem = "it is not loaded on a device" if is_compiled else "it is neither compiled nor loaded on a device"
        compiled = "kernel" if is_compiled else "kernel.compile()"
        return kernel, problem, f"load it first: nvb.runtime.load({compiled}).launch(grid, ...)"

    def _meant(self, name: str) -> str:
        if name in _COMPILED and not self._stage()[2]:
            called = {"save": "save(path)", "sass": "sass()", "report": "report()"}.get(name, name)
            return f": compile it first, kernel.compile().{called}"
        return ": kernel.figures() has the numbers of its report" if name in _FIGURES and self._stage()[2] else ""

    def __getitem__(self, configuration: object) -> NoReturn:
        """Refused by launch.call: `kernel[grid](...)` launches a loaded kernel."""
        has_block = isinstance(configuration, tuple) and len(configuration) > 1
        threads = [f"a CTA has the {self._stage()[1]} threads that the kernel was defined with"] if has_block else []
        raise DiagnosticError([self._refused("kernel[...](...)", *threads)])


_Kernel = TypeVar("_Kernel")


class KernelsByName(NoLaunches, Mapping[str, _Kernel]):
    """A module: its kernels are launched by their names, once it is loaded."""

    kernels: Mapping[str, _Kernel]

    @property
    def _first(self) -> _Kernel:
        return next(iter(self.kernels.values()))

    def __getitem__(self, name: str) -> _Kernel:
        if name not in self.kernels:
            raise missing_name("the module", "kernel", name, self.kernels)
        return self.kernels[name]

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    def _meant(self, name: str) -> str:
        kernels = vars(self).get("kernels", ())  # a copy that is being made has none yet
        return f': name the kernel, module["{name}"]' if name in kernels else ""

    def _not_launched(self) -> tuple[str, str, str]:
        first = next(iter(self.kernels))
        advice = f'load it, and name a kernel: nvb.runtime.load(module)["{first}"].launch(grid, ...)'
        return " or ".join(self.kernels), "it is a module, which is not loaded on a device", advice
