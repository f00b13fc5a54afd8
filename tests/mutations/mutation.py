"""What a mutation is: a builder that does one thing otherwise, and what becomes of a kernel that it builds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, ClassVar

from nvbackend import Diagnostic, DiagnosticError, KernelBuilder, Parameter, Target, TensorMap
from nvbackend.builder.core.noun import nouns
from nvbackend.builder.kernel.definition import KernelDefinition


class Mutation(KernelBuilder):
    """A kernel builder with one mistake; a subclass says which in its docstring and overrides a call.

    A call of `k` is overridden by its name, one of a noun by both: `def elect` makes the mistake in `k.elect`,
    `def tma_load` in `k.tma.load`, whoever calls it; `self.right.elect` and `self.right.tma.load` are without it.
    `found_by` are the rules that may find it, one of them in each kernel that has what is changed; `unseen` are the
    kernels where it cannot be seen before the kernel runs, `because` says why; `pending` those where the analysis is
    still to come. A call that is changed says so with `self.change()`.
    """

    found_by: ClassVar[tuple[str, ...]] = ()
    unseen: ClassVar[tuple[str, ...]] = ()
    because: ClassVar[str] = ""
    pending: ClassVar[tuple[str, ...]] = ()
    changed: ClassVar[bool]
    calls: ClassVar[dict[str, int]]
    right: SimpleNamespace

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.right = SimpleNamespace()
        for part in (self.control, self.memory, self._threads):  # they call each other, and nouns call them
            right = self._make_mistakes(part, "")
            vars(self.right).update(right)
        for noun in nouns(self).values():
            right = self._make_mistakes(noun, f"{noun.__noun__}_")
            setattr(self.right, noun.__noun__, SimpleNamespace(**right))

    def _make_mistakes(self, part: object, prefix: str) -> dict[str, Callable[..., Any]]:
        """Replace the calls of `part` that are overridden as `prefix` and their name; all of them as they were."""
        calls = [name for name, _ in inspect.getmembers(type(part), inspect.isfunction) if not name.startswith("__")]
        right = {name: getattr(part, name) for name in calls}
        for name in right:
            mistake = getattr(type(self), f"{prefix}{name}", None)
            if mistake is not getattr(Mutation, f"{prefix}{name}", None):
                vars(part)[name] = mistake.__get__(self)
        return right

    @classmethod
    def change(cls) -> None:
        """Note that the kernel has what the mutation changes."""
        cls.changed = True

    @classmethod
    def is_call(cls, name: str, number: int) -> bool:
        """Whether this is call `number` of what is called `name`, counted from 0; notes the change if so."""
        place = cls.calls.get(name, 0)
        cls.calls[name] = place + 1
        if place == number:
            cls.change()
        return place == number

    @classmethod
    def target_of(cls, target: Target) -> Target:
        """The kernel's target, or the wrong one."""
        return target

    @classmethod
    def parameters_of(cls, parameters: Sequence[Parameter]) -> Sequence[Parameter]:
        """The kernel's parameters, changed where the mistake is in one of them."""
        return parameters

    @classmethod
    def with_maps(cls, parameters: Sequence[Parameter], **facts: Any) -> Sequence[Parameter]:
        """The parameters with every tensor map changed."""
        maps = [one for one in parameters if isinstance(one.type, TensorMap)]
        if maps:
            cls.change()
        return [replace(one, type=replace(one.type, **facts)) if one in maps else one for one in parameters]


class Calls(Mutation):
    """A builder that makes no mistake and notes in `used` what is asked of it, of its parts and of its nouns."""

    used: ClassVar[set[str]]

    def __getattribute__(self, name: str) -> Any:
        type(self).used.add(name)
        return super().__getattribute__(name)

    def _make_mistakes(self, part: object, prefix: str) -> dict[str, Callable[..., Any]]:
        right = super()._make_mistakes(part, prefix)
        for name, call in right.items():
            vars(part)[name] = self._noting(f"{prefix}{name}", call)
        return right

    def _noting(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*args: Any, **options: Any) -> Any:
            type(self).used.add(name)
            return call(*args, **options)

        return noting


@dataclass(frozen=True)
class Verdict:
    """What became of a kernel: whether it has what the mutation changes, and what was said of it."""

    applies: bool
    diagnostics: tuple[Diagnostic, ...]

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that were broken, each once, in the order of the program."""
        return tuple(dict.fromkeys(one.rule_id for one in self.diagnostics))


def verdict(definition: KernelDefinition, mutation: type[Mutation]) -> Verdict:
    """Build `definition` with the mutation, as far as it goes."""
    return _verdict(definition, _made(mutation))


def may_apply(definition: KernelDefinition, mutation: type[Mutation]) -> bool:
    """Whether the kernel asks for anything that the mutation overrides: else it is what it is without the mutation."""
    of_class = mutation.__mro__[: mutation.__mro__.index(Mutation)]
    overridden = {name for each in of_class for name, member in vars(each).items() if _is_code(member)}
    return not overridden.isdisjoint(("__init__", "target_of", "parameters_of", *_used(definition)))


def _is_code(member: object) -> bool:
    return callable(member) or isinstance(member, (staticmethod, classmethod, property))


@functools.cache
def _used(definition: KernelDefinition) -> frozenset[str]:
    calls = _made(Calls)
    calls.used = set()
    _verdict(definition, calls)
    return frozenset(calls.used)


def _made(mutation: type[Mutation]) -> Any:
    return type("Mutated", (mutation,), {"changed": False, "calls": {}, "__module__": mutation.__module__})


def mutated(definition: KernelDefinition, mutation: type[Mutation]) -> Mutation:
    """The builder after the kernel's function, with the mistake in it. Raises what its calls raise."""
    return _built(definition, _made(mutation))


def _built(definition: KernelDefinition, builder: type[Mutation]) -> Mutation:
    k = builder(
        definition.name,
        builder.target_of(definition.target),
        threads=definition.threads,
        cluster=definition.cluster,
        min_ctas=definition.min_ctas,
        max_registers=definition.max_registers,
        parameters=builder.parameters_of(definition.parameters()),
    )
    definition._function(k, *k.arguments)
    return k


def _verdict(definition: KernelDefinition, builder: type[Mutation]) -> Verdict:
    found: Sequence[Diagnostic]
    try:
        found = _built(definition, builder).finish().diagnostics
    except DiagnosticError as error:
        found = error.diagnostics
    return Verdict(builder.changed, tuple(found))
