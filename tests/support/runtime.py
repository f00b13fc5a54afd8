"""Stand-ins for a compiled kernel, a device and its arrays, for launch checks on machines without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from nvbackend.diagnostics import Diagnostic, DiagnosticError
from nvbackend.isel.target.target import Target
from nvbackend.runtime.device import Configuration, DeviceLimits, KernelLimits
from nvbackend.runtime.driver import DriverError
from nvbackend.signature import LaunchBounds, Parameter, ParameterType, Signature


class FakeArray:
    """An array with nothing but `__cuda_array_interface__` (and the dtype that some libraries add)."""

    def __init__(
        self,
        shape: tuple[int, ...],
        typestr: str = "<f2",
        *,
        pointer: int = 0x7F0000000000,
        strides: tuple[int, ...] | None = None,
        stream: int | None = None,
        dtype: object = None,
    ) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (pointer, False),
            "strides": strides,
            "stream": stream,
            "version": 3,
        }
        if dtype is not None:
            self.dtype = dtype


@dataclass
class Cubin:
    data: bytes | None


@dataclass
class FakeCompiled:
    """What `load` reads of a compiled kernel."""

    signature: Signature
    target: Target = field(default_factory=lambda: Target.parse("sm_90a"))
    ptx: str = "// text"
    cubin: Cubin | None = field(default_factory=lambda: Cubin(b"binary"))


@dataclass
class FakeDevice:
    """A device that records what it is told. `failure` is raised by the next call that `failing` names."""

    limits: DeviceLimits = field(default_factory=lambda: DeviceLimits(0, "fake H200", (9, 0), 1024, 232448, 132))
    kernel: KernelLimits = field(default_factory=lambda: KernelLimits(1024, 0))
    notes: dict[str, Any] = field(default_factory=dict)
    owners: dict[int, int | None] = field(default_factory=dict)
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    failing: str = ""

    def _call(self, name: str, *values: Any) -> None:
        self.calls.append((name, *values))
        if self.failing == name:
            self.failing = ""
            raise DriverError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered")

    def load(self, name: str, image: bytes | str) -> Any:
        self._call("load", name, image)
        return f"kernel {name}"

    def kernel_limits(self, kernel: Any) -> KernelLimits:
        self._call("kernel_limits", kernel)
        return self.kernel

    def allow(self, kernel: Any, shared_bytes: int, cluster: int) -> None:
        self._call("allow", kernel, shared_bytes, cluster)

    def record(self, kernel: Any, name: str, words: int) -> memoryview:
        self._call("record", kernel, name)
        return memoryview(bytearray(8 * words)).cast("Q")

    def configuration(self, configuration: Configuration) -> Any:
        return configuration

    def stream(self, handle: int) -> Any:
        return ("stream", handle)

    def launch(self, stream: Any, configuration: Any, kernel: Any, *arguments: Any) -> None:
        self._call("launch", stream, configuration, kernel, arguments)

    def synchronize(self, handle: int) -> None:
        self._call("synchronize", handle)

    def order(self, earlier: int, later: int) -> None:
        self._call("order", earlier, later)

    def ordinal_of(self, pointer: int) -> int | None:
        return self.owners.get(pointer, 0)

    def named(self, name: str) -> list[list[Any]]:
        """The values of every recorded call of `name`."""
        return [values for called, *values in self.calls if called == name]


def signature(*types: ParameterType, threads: int = 128, cluster: int = 1, shared: int = 0) -> Signature:
    """A kernel `k` with parameters p0, p1, ..."""
    parameters = tuple(Parameter(f"p{index}", kind) for index, kind in enumerate(types))
    return Signature("k", parameters, LaunchBounds(threads, cluster, shared))


def broken(action: Callable[[], object]) -> tuple[Diagnostic, ...]:
    """The diagnostics that `action` raises; none where it succeeds."""
    try:
        action()
    except DiagnosticError as error:
        return error.diagnostics
    return ()


def rules(action: Callable[[], object]) -> list[str]:
    """The ids of the rules that `action` breaks, in the order found."""
    return [diagnostic.rule_id for diagnostic in broken(action)]


def assert_refused(action: Callable[[], object], rule: str, text: str) -> None:
    """`action` breaks this rule alone, and the message or the fix has this text."""
    with pytest.raises(DiagnosticError) as caught:
        action()
    (only,) = caught.value.diagnostics
    assert only.rule_id == rule
    assert text in f"{only.message} {only.fix}"
