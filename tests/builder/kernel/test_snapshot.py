"""What the objects of a look hold is compared by identity before a kernel is given again without another look.

The witness is the build itself: whatever was changed, `compile` gives the IR of a new `build`.
"""

from __future__ import annotations

import enum
import fractions
import itertools
import operator
import pathlib
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend.builder.kernel.again.compiled_again import MOST_KERNELS, CompiledBefore, CompileRequest
from nvbackend.builder.kernel.again.reads import Reads
from nvbackend.builder.kernel.again.snapshot import Snapshot
from nvbackend.builder.kernel.definition import KernelDefinition
from tests.builder.kernel.test_reads import TEXTS
from tests.support.changes import CHANGES, UNFOLLOWED
from tests.support.changes_of_classes import CHANGES_OF_CLASSES, UNFOLLOWED_OF_CLASSES
from tests.support.compiled_again import BODY, HEAD, OUT, Runs, compiled, defined, in_module

ALL = TEXTS | CHANGES | CHANGES_OF_CLASSES
ALL_UNFOLLOWED = UNFOLLOWED | UNFOLLOWED_OF_CLASSES
IN_THE_KEY = {"the threads", "the registers", "the name", "the target", "the CTAs of a multiprocessor"}
"""What belongs to the definition: it is asked for something else."""
NOT_HELD = {"which cell is empty", "a view of a chain of maps"}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    yield Runs(monkeypatch)
    sys.modules.pop("users_c", None)
    for cls in (fractions.Fraction, enum.EnumMeta):
        if "users" in vars(cls):
            delattr(cls, "users")


def held(definition: KernelDefinition) -> list[Snapshot]:
    return [each for _, _, _, each in definition._before._snapshots.values()]


@pytest.mark.parametrize("what", ALL)
def test_what_changes_is_seen_without_a_look(what: str, runs: Runs) -> None:
    text, change = ALL[what]
    module = in_module(text)
    before = compiled(module.kernel)
    holding = held(module.kernel)
    assert len(holding) == (what not in NOT_HELD)
    assert all(each.is_unchanged() for each in holding)
    assert compiled(module.kernel).ir == before.ir
    assert runs.count == 1, "nothing has changed"
    exec(change, vars(module))
    assert what in IN_THE_KEY or not any(each.is_unchanged() for each in holding)
    after = compiled(module.kernel)
    assert after.ir == module.kernel.build().ir
    assert (after.ir, after.signature, after.target) != (before.ir, before.signature, before.target)


@pytest.mark.parametrize("what", ALL_UNFOLLOWED)
def test_what_cannot_be_followed_is_not_held(what: str, runs: Runs) -> None:
    text, change = ALL_UNFOLLOWED[what]
    module = in_module(text)
    before = compiled(module.kernel)
    assert held(module.kernel) == []
    exec(change, vars(module))
    assert compiled(module.kernel).ir == module.kernel.build().ir != before.ir


def test_no_look_is_taken_while_nothing_changes(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are the bounds worked out, nor the types of parameters."""
    module = in_module(CHANGES["a helper of an annotation's function"][0])
    first = compiled(module.kernel)
    for name in ("_bounds", "_types"):
        monkeypatch.setattr(KernelDefinition, name, None)
    monkeypatch.setattr(Reads, "of", None)
    assert compiled(module.kernel) == first
    assert compiled(module.kernel.with_()) == first
    assert runs.count == 1


NAMED = {
    "a module": ("import types\nM = types.ModuleType('M'); M.x = 1.0\n" + BODY + "M.x", "M.__name__ = 'math'"),
    "globals": ("G = {}\nexec('def h(): return 1.0', G)\nh = G['h']\n" + BODY + "h()", "G['__name__'] = 'math'"),
}


@pytest.mark.parametrize("what", NAMED)
def test_another_name_may_let_a_look_go_another_way(what: str) -> None:
    text, change = NAMED[what]
    module = in_module(text)
    compiled(module.kernel)
    (before,) = held(module.kernel)
    assert before.is_unchanged()
    exec(change, vars(module))
    assert not before.is_unchanged()


def test_a_set_that_grows_meanwhile_is_a_change(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """As another thread may let it."""
    module = in_module("S = {1}\n" + BODY + "float(len(S))")
    compiled(module.kernel)
    (before,) = held(module.kernel)
    same, left = operator.is_, iter(range(1, 2**20))

    def growing(a: object, b: object) -> bool:
        module.S.add(next(left) + 1)
        return same(a, b)

    with monkeypatch.context() as patched:
        patched.setattr(operator, "is_", growing)
        assert not before.is_unchanged()
    assert compiled(module.kernel).ir == module.kernel.build().ir


def test_a_first_call_of_what_checks_arguments_changes_nothing(runs: Runs) -> None:
    """The wrapper keeps what it learns in cells."""
    text = "from nvbackend.diagnostics import user_facing\n@user_facing\ndef h(*x): return 1.0\n"
    module = in_module(text + BODY + "1.0 if h else 2.0")
    compiled(module.kernel)
    (before,) = held(module.kernel)
    module.h()
    assert before.is_unchanged()


def test_a_change_that_is_taken_back_is_looked_at_once(runs: Runs) -> None:
    module = in_module("D = {'a': [1.0]}\n" + BODY + "D['a'][0]")
    compiled(module.kernel)
    (before,) = held(module.kernel)
    module.D["b"] = module.D.pop("a")
    module.D["a"] = module.D.pop("b")
    assert before.is_unchanged(), "the same objects in the same places"
    module.D["a"] = [1.0]
    assert not before.is_unchanged(), "an equal one"
    compiled(module.kernel)
    assert runs.count == 1
    (after,) = held(module.kernel)
    assert after is not before
    assert after.is_unchanged()


CONSTANT = HEAD + "def kernel(k, out: nvb.Pointer[f32], *, n=[1.0]): out[0] = float(n[0] if isinstance(n, list) else n)"


def test_constants_are_told_by_kind_and_by_what_they_hold(runs: Runs) -> None:
    module = in_module(CONSTANT)
    value = [1.0]
    asked: list[object] = [1, True, 1.0, "1", value, [2.0], 2**70]
    irs = [compiled(module.kernel, n=each).ir for each in asked]
    assert runs.count == len(asked)
    assert [compiled(module.kernel, n=each).ir for each in asked] == irs
    assert [compiled(module.kernel, constants={"n": each}).ir for each in asked] == irs
    assert runs.count == len(asked)
    value[0] = 3.0
    assert compiled(module.kernel, n=value).ir == module.kernel.build(n=[3.0]).ir != irs[4]


def test_options_of_the_same_values_and_other_names_are_other_requests() -> None:
    keys = [
        CompileRequest((), (), {"a": 1}, {}).key,
        CompileRequest((), (), {"b": 1}, {}).key,
        CompileRequest((), (), {}, {"a": 1}).key,
        CompileRequest((), (1,), {}, {}).key,
        CompileRequest((), (), {"a": True}, {}).key,
        CompileRequest((), (), {"a": id(int)}, {}).key,
        CompileRequest((), (), {"a": int}, {}).key,
    ]
    assert len(set(keys)) == len(keys)
    assert CompileRequest((), (), {"a": 2**70}, {}).key == CompileRequest((), (), {"a": 2**70}, {}).key


def test_no_more_kernels_are_held_than_are_kept(runs: Runs) -> None:
    kernel = in_module(CONSTANT).kernel
    for number in range(MOST_KERNELS + 2):  # one kernel, each time for another list
        compiled(kernel, n=[1.0, number][:1])
    assert runs.count == 1
    assert 1 <= len(held(kernel)) <= MOST_KERNELS


def test_beside_another_thread_everything_is_looked_at_twice(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may change something between the look and the note of what is held."""
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        module = in_module("N = 1.0\n" + BODY + "N")
        compiled(module.kernel)
        assert len(held(module.kernel)) == 1
        module = in_module("N = 1.0\n" + BODY + "N")
        note = Reads.snapshot

        def late(reads: Reads, *given: Any) -> Snapshot | None:
            module.N = 2.0
            return note(reads, *given)

        with monkeypatch.context() as patched:
            patched.setattr(Reads, "snapshot", late)
            compiled(module.kernel)
        assert held(module.kernel) == []
        assert compiled(module.kernel).ir == module.kernel.build().ir
        module = in_module("N = 1.0\n" + BODY + "N")
        values = module.N, 2.0

        def meanwhile(reads: Reads, *given: Any) -> Snapshot | None:
            module.N = values[1]
            try:
                return note(reads, *given)
            finally:
                module.N = values[0]

        with monkeypatch.context() as patched:
            patched.setattr(Reads, "snapshot", meanwhile)
            compiled(module.kernel)
        assert held(module.kernel) == []
        module.N = values[1]
        assert compiled(module.kernel).ir == module.kernel.build().ir
    finally:
        done.set()
        other.join()


class Place(pathlib.PurePosixPath):
    """A path of the user's, which may be somewhere else each time."""


class Named:
    """What the user opens as a path."""

    def __fspath__(self) -> str:
        return "a"


SETTINGS: dict[str, tuple[object, bool]] = {
    "a path": (pathlib.Path("a"), True),
    "a path of the user's": (Place("a"), False),
    "what has a path": (Named(), False),
}


@pytest.mark.parametrize("what", SETTINGS)
def test_a_path_among_the_settings_is_told_by_its_name(what: str) -> None:
    path, is_held = SETTINGS[what]

    def reading() -> None: ...

    reads = Reads()
    content = reads.of(reading, (), path)
    assert isinstance(reads.snapshot(content, ()), Snapshot) is is_held


def test_what_more_leads_to_must_be_known() -> None:
    def reading() -> None: ...

    reads = Reads()
    for more, is_held in ((len, True), (itertools.count(), False), (types.MappingProxyType({}), True)):
        assert isinstance(reads.snapshot(reads.of(reading, (), ()), more), Snapshot) is is_held


def test_another_ptxas_is_another_kernel(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    @defined
    def kernel(k: Any, out: OUT) -> None:
        out[0] = 1.0

    for found in (("a", 1), ("a", 1), ("a", 2), ("b", 2), ("b", 2)):
        monkeypatch.setattr(CompiledBefore, "_program", lambda *_, found=found: found)
        compiled(kernel)
    assert runs.count == 3


def test_a_class_of_ours_that_is_set_on_is_seen(runs: Runs) -> None:
    module = in_module(BODY + "1.0")
    compiled(module.kernel)
    nvb.KernelBuilder.users = 1  # type: ignore[attr-defined]
    try:
        compiled(module.kernel)
    finally:
        del nvb.KernelBuilder.users  # type: ignore[attr-defined]
    assert runs.count == 2
