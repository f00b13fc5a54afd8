"""Arguments of the wrong kind: a diagnostic that names the argument and shows the call, never a traceback of ours."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import pytest
from llvmlite import ir

import nvbackend as nvb
from nvbackend import DiagnosticError, ElementType, f16, i32
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.diagnostics import record, user_facing
from nvbackend.diagnostics.arguments import Kinds, as_tuples, wrong_arguments, wrong_entries
from nvbackend.intrinsics.mma import wgmma
from nvbackend.signature import Parameter, Pointer, Scalar
from nvbackend.simulator.simulator import SimulatedModule
from tests.api.public import names

Bracketed = str | list[int] | None


def builder() -> tuple:
    parameters = [Parameter("out", Pointer(i32)), Parameter("a", Scalar(i32))]
    k = KernelBuilder("arguments", "sm_90a", threads=128, parameters=parameters)
    return k, *k.arguments


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda k, out, a: k.mbarrier.arrive(a), "k.mbarrier.arrive: barrier must be Address, not <s32"),
        (lambda k, out, a: k.shared("f16", 4), "element must be ElementType, not 'f16' (a str)"),
        (lambda k, out, a: k.wgmma.wait_group(a), "pending must be int, not <s32"),
        (lambda k, out, a: k.wgmma.wait_group(1.0), "pending must be int, not 1.0 (a float)"),
        (lambda k, out, a: k.shared(), "missing a required argument: 'element'"),
        (lambda k, out, a: k.shared(f16, cout=4), "'count'; it takes no 'cout': is 'count' meant?"),
        (lambda k, out, a: k.shared(f16, elements=4), "argument: 'count'; it takes no 'elements'"),
        (lambda k, out, a: k.barrier.sync(id=3), "unexpected keyword argument 'id'"),
        (
            lambda k, out, a: nvb.SmemLayout("K", nvb.SwizzleMode.B128, f16, 64, 64),
            "major must be Major, not 'K' (a str)",
        ),
        (lambda k, out, a: k.compile(cache="here"), "cache must be Cache | None, not 'here' (a str)"),
        (lambda k, out, a: nvb.kernel("sm_90a"), "kernel: missing a required"),  # what follows depends on the Python
        (lambda k, out, a: nvb.kernel("sm_90a"), "argument: 'threads'"),
    ],
)
def test_the_argument_is_named_at_the_users_line(call: Callable[..., object], says: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        call(*builder())
    found = caught.value.diagnostics[0]
    assert found.rule_id == "call.argument"
    assert says in found.message
    assert found.location is not None and found.location.file == __file__
    assert all(frame.filename == __file__ for frame in traceback.extract_tb(caught.value.__traceback__))


def test_a_folder_is_not_a_cache_and_the_fix_makes_one() -> None:
    k, *_ = builder()
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.compile(cache="here")
    assert caught.value.diagnostics[0].fix == "pass nvb.Cache(folder), or nvb.Cache.disabled() to keep nothing"


def test_a_slice_is_not_an_index_of_a_pointer() -> None:
    _, out, _ = builder()
    with pytest.raises(nvb.DiagnosticError, match=r"value\.kind.*slice\(1, 2, None\)"):
        out[1:2]


def typed(one: int, many: tuple[int, ...] = (), *rest: str, maybe: float | None = None, some: Pointer = None) -> None:  # type: ignore[assignment]
    """A function whose annotations are texts."""


@pytest.mark.parametrize(
    ("args", "kwargs", "wrong"),
    [
        ((1,), {}, []),
        ((True, (1, 2), "a", "b"), {"maybe": 3}, []),
        ((1, (1, "2"), "a", 3), {}, ["many[1]", "rest[1]"]),
        (("1",), {}, ["one"]),
        ((1, [2]), {}, ["many"]),
        ((1.0, 2), {"maybe": "x"}, ["one", "many", "maybe"]),
        ((1,), {"maybe": None, "some": Pointer(i32)}, []),
        ((1,), {"some": i32}, ["some"]),
    ],
)
def test_kinds_are_compared_with_annotations(args: tuple, kwargs: dict, wrong: list[str]) -> None:
    found = wrong_arguments(typed, args, kwargs)
    assert [one.message.split(": ", 1)[1].split(" ", 1)[0] for one in found] == wrong


def test_an_exception_of_the_users_own_code_stays() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def broken(k: nvb.KernelBuilder, a: i32) -> None:
        {}[k]

    with pytest.raises(KeyError):
        broken.build()


def anything(one: Any, **rest: Any) -> None:
    """Takes what it is given."""


def test_any_takes_everything() -> None:
    assert wrong_arguments(anything, (None,), {"more": 3}) == []


def test_an_immediate_of_another_kind_is_told_also_where_the_row_itself_is_emitted() -> None:
    k, *_ = builder()
    with pytest.raises(nvb.DiagnosticError) as caught:
        k.emit(wgmma.wait_group(), {"pending": 1.0})
    (found,) = caught.value.diagnostics
    assert found.rule_id == "machine.operand"
    assert "operand pending: it takes an integer, not a float" in found.message
    assert found.location is not None and found.location.file == __file__


def test_a_union_of_kinds_with_brackets_is_understood() -> None:
    def call(one: Bracketed) -> None: ...

    call.__annotations__["one"] = "Bracketed"
    assert wrong_arguments(call, ([1],), {}) == []
    assert [found.values["problem"] for found in wrong_arguments(call, (1,), {})] == [
        "one must be Bracketed, not 1 (an int)"
    ]


def test_integers_that_python_does_not_print_are_told_by_their_size() -> None:
    """Python refuses to write integers of more than 4300 digits; 10**5000 has 16610 bits."""
    k, *_ = builder()
    huge = 10**5000
    for call in (
        lambda: k.wgmma.wait_group(huge),
        lambda: k.shared(i32, huge),
        lambda: k.const(huge, i32),
        lambda: KernelBuilder("k", "sm_90a", threads=huge),
        lambda: KernelBuilder("k", "sm_90a", threads=-huge, cluster=huge, min_ctas=-huge, max_registers=huge),
    ):
        with pytest.raises(nvb.DiagnosticError, match=r"an integer of 166\d\d bits"):
            call()


Alias = "dict[str, int] | None"


def test_an_alias_that_is_a_text_stands_for_what_it_says() -> None:
    def call(one: Alias) -> None: ...

    call.__annotations__["one"] = "Alias"
    assert wrong_arguments(call, ({},), {}) == []
    assert [found.values["problem"] for found in wrong_arguments(call, ([1],), {})] == [
        "one must be Alias, not [1] (a list)"
    ]


Mode: Any = Literal["a", "b"]
Element = TypeVar("Element", bound=int)


@pytest.mark.parametrize(
    ("annotation", "given", "problems"),
    [
        ("Mode", 3, []),
        ("Literal['a', 'b']", 3, []),
        ("Element", "text", []),
        ("no_such_module.Kind", 3, []),
        ("nvb.no_such_kind", 3, []),
        ("NoSuchKind", 3, ["one must be NoSuchKind, not 3 (an int)"]),
        ("Callable[[int], int] | None", len, []),
        ("Callable[[int], int] | None", 3, ["one must be Callable[[int], int] | None, not 3 (an int)"]),
        ("type[int]", int, []),
        ("type[int]", 3, ["one must be type[int], not 3 (an int)"]),
        ("collections.abc.Sequence[str]", b"x", ["one[0] must be str, not 120 (an int)"]),
        ("collections.abc.Sequence[int]", b"x", []),
        ("traceback.FrameSummary", 3, ["one must be traceback.FrameSummary, not 3 (an int)"]),
    ],
)
def test_what_an_annotation_says_of_an_argument(annotation: str, given: object, problems: list[str]) -> None:
    """A form of typing says nothing, nor does a module that is not loaded; a name that no program has fits nothing."""

    def call(one: object) -> None: ...

    call.__annotations__["one"] = annotation
    assert [found.values["problem"] for found in wrong_arguments(call, (given,), {})] == problems


class Methods(Protocol):
    """What has two."""

    def first(self) -> int: ...

    def second(self) -> int: ...


@pytest.mark.parametrize(
    ("members", "fits"),
    [
        (("first", "second"), True),
        (("first", "second", "third"), True),
        (("first",), False),
        (("second",), False),
        ((), False),
    ],
)
def test_a_protocol_is_fitted_by_what_has_all_of_its_members(members: tuple[str, ...], fits: bool) -> None:
    def call(one: object) -> None: ...

    given = SimpleNamespace(**dict.fromkeys(members, 1))
    call.__annotations__["one"] = "Methods"
    assert (wrong_arguments(call, (given,), {}) == []) == fits


def test_a_truth_value_is_blamed_where_a_call_stopped_at_nothing_else() -> None:
    _, out, _ = builder()
    with pytest.raises(nvb.DiagnosticError, match=r"call\.argument.*align must be int \| None, not False \(a bool\)"):
        out.steps(256, 2, align=False)


@dataclasses.dataclass
class Loose:
    """A record that changes."""

    bits: int


@record
@dataclasses.dataclass(frozen=True, slots=True)
class Firm:
    """A record whose fields are compared when it is made."""

    bits: int


def of_records(loose: Loose, firm: Firm) -> None:
    """Takes one of each."""


@pytest.mark.parametrize(("again", "wrong"), [(True, ["loose.bits", "firm.bits"]), (False, ["loose.bits"])])
def test_what_cannot_have_changed_is_compared_when_it_is_made(again: bool, wrong: list[str]) -> None:
    loose, firm = Loose(1), Firm(1)
    assert wrong_arguments(of_records, (loose, firm), {}, again=again) == []
    loose.bits = "1"  # type: ignore[assignment]
    object.__setattr__(firm, "bits", "1")
    found = wrong_arguments(of_records, (loose, firm), {}, again=again)
    assert [one.message.split(": ", 1)[1].split(" ", 1)[0] for one in found] == wrong


def in_dict(of: dict[str, Firm]) -> None:
    """Takes several by name."""


def test_entries_are_looked_into_again() -> None:
    firm = Firm(1)
    object.__setattr__(firm, "bits", "1")
    (found,) = wrong_entries(in_dict, ({"x": firm},), {})
    assert "of['x'].bits must be int" in found.message
    assert wrong_entries(in_dict, ({"x": Firm(1)},), {}) == []
    (found,) = wrong_entries(in_dict, ({1: Firm(1)},), {})
    assert "a key of of must be str" in found.message


def maybe_in_dict(of: Sequence[int] | dict[str, Firm] | tuple[int, ...] | None) -> None:
    """Takes several by name, or other things."""


def test_entries_are_those_of_the_one_form_that_has_them() -> None:
    assert wrong_entries(maybe_in_dict, ({"x": Firm(1)},), {}) == []
    assert wrong_entries(maybe_in_dict, ((1, 2),), {}) == []
    (found,) = wrong_entries(maybe_in_dict, ({"x": 3},), {})
    assert "of['x'] must be Firm" in found.message


def of_an_element(kind: ElementType) -> None:
    """Takes an element type."""


def of_a_name(name: str) -> None:
    """Takes a name."""


def of_a_flag(flag: bool) -> None:
    """Takes a flag."""


def of_a_number(number: int) -> None:
    """Takes a number."""


def test_what_is_looked_at_before_the_call() -> None:
    """A flag of any kind of thing, a run-time value as a name, a name as an element type; numbers once they failed."""
    _, _, value = builder()
    flag = type("boolean", (), {})()
    for function, wrong, right in (
        (of_an_element, "f16", f16),
        (of_a_name, value, "a"),
        (of_a_flag, flag, np.bool_(1)),
        (of_a_flag, np.float32(1), 1),
        (of_a_flag, 2, False),
    ):
        kinds = Kinds(function)
        assert kinds.always
        kinds.check((right,), {})
        for given in (((wrong,), {}), ((), {next(iter(function.__annotations__)): wrong})):
            with pytest.raises(DiagnosticError, match=r"call\.argument"):
                kinds.check(*given)
    assert not Kinds(of_a_number).always


def of_a_number_and_a_flag(number: int, flag: bool) -> None:
    """Takes a number and a flag."""


@pytest.mark.parametrize("names", [(), ("flag",), ("number", "flag")])
def test_a_flag_that_is_a_number_is_looked_at_each_time(names: tuple[str, ...]) -> None:
    """1 is taken for True, and what is right of it is right of no other number."""
    kinds = Kinds(of_a_number_and_a_flag)

    def given(number: object, flag: object) -> tuple[tuple[object, ...], dict[str, object]]:
        values = {"number": number, "flag": flag}
        return tuple(value for name, value in values.items() if name not in names), {
            name: values[name] for name in names
        }

    for number, flag, is_kept in ((3, 1, False), (3, True, True), (3.5, 0, False)):
        before = len(kinds.right)
        kinds.keep((type(number), type(flag)), *given(number, flag))
        assert (len(kinds.right) > before) is is_kept
    with pytest.raises(DiagnosticError, match=r"call\.argument"):
        kinds.check(*given(3, 2))


@pytest.mark.parametrize(("given", "looks"), [((3, True), 1), ((3, 1), 3), ((np.int64(3), True), 3)])
def test_arguments_of_classes_that_are_right_are_not_looked_at_again(
    given: tuple[object, ...], looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = []
    check = Kinds.check
    monkeypatch.setattr(Kinds, "check", lambda self, *call: checked.append(call) or check(self, *call))
    function = user_facing(of_a_number_and_a_flag)
    for _ in range(3):
        function(*given)
    assert len(checked) == looks


def _of_kinds(number: int, name: str, operand: ElementType) -> None:
    """Takes plain things."""


def test_an_argument_that_is_known_at_run_time_only_is_said_to_be() -> None:
    k, _, value = builder()
    hint = ", which is known only when the kernel runs"
    for given, is_late in ((value, True), (k.var(1), True), ("3", False), (3.5, False), (None, False)):
        problems = [one.values["problem"] for one in wrong_arguments(_of_kinds, (given, value, i32), {})]
        assert [problem.endswith(hint) for problem in problems] == [is_late, False]


@pytest.mark.parametrize(
    ("given", "shown"), [("f32", "nvb.f32"), (float, "nvb.f32"), ("float16", "nvb.f16"), (int, "nvb.s32"), (str, "")]
)
def test_an_element_type_that_has_another_name_is_advised(given: object, shown: str) -> None:
    (found,) = wrong_arguments(_of_kinds, (1, "a", given), {})
    assert found.values["problem"].partition(": use ")[2] == shown


def of_both(pair: tuple[int, ...], names: list[str], either: tuple[int, ...] | list[int], some: int = 0) -> None:
    """Takes a tuple, a list, and either."""


def test_a_list_becomes_a_tuple_where_only_tuples_are_taken() -> None:
    args, kwargs = as_tuples(of_both, ([1, 2], ["a"], [3]), {"some": 4})
    assert (args, kwargs) == (((1, 2), ["a"], [3]), {"some": 4})
    args, kwargs = as_tuples(of_both, (), {"pair": [1, 2], "names": ["a"], "either": [3], "some": 4})
    assert (args, kwargs) == ((), {"pair": (1, 2), "names": ["a"], "either": [3], "some": 4})
    args, kwargs = as_tuples(of_both, ((1, 2), ("a",), [3], 4, [5]), {})
    assert (args, kwargs) == (((1, 2), ("a",), [3], 4, [5]), {})
    args, kwargs = as_tuples(of_both, (5, ["a"]), {"either": None})
    assert (args, kwargs) == ((5, ["a"]), {"either": None})
    args, kwargs = as_tuples(of_both, (), {"pair": 5, "names": ["a"]})
    assert (args, kwargs) == ((), {"pair": 5, "names": ["a"]})


def test_two_indices_of_an_address_are_told_how_to_become_one() -> None:
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    array = k.shared(nvb.f32, 32)
    with pytest.raises(DiagnosticError) as caught:
        array[0, 1]  # type: ignore[index]
    (found,) = caught.value.diagnostics
    assert found.rule_id == "call.argument"
    assert (found.fix or "").startswith("compute one index, such as row * pitch + column")


def test_a_call_is_named_as_it_is_written() -> None:
    """An object that is called has no `.__call__` in its name; an argument whose text has lines is named."""
    k = nvb.KernelBuilder("k", "sm_90a", threads=32)
    for call, said in (
        (k.static_assert, "k.static_assert: missing a required argument: 'condition'"),
        (lambda: nvb.attach(ir.Module("m"), "sm_90a", threads=32), "must be ir.IRBuilder, not m (an llvmlite Module)"),
    ):
        with pytest.raises(nvb.DiagnosticError) as caught:
            call()
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.message.endswith(said)


FUNCTIONS = {name: given for name, given in names().items() if isinstance(given, FunctionType)}


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if not name.startswith("nvb.rows.")])
def test_a_function_is_named_as_the_package_offers_it(name: str) -> None:
    """And the fix writes the call so: a name that is only its definition's helps nobody."""
    with pytest.raises(DiagnosticError) as caught:
        FUNCTIONS[name](no_such_argument=1)
    (found,) = caught.value.diagnostics
    assert found.rule_id == "call.argument"
    last = name.rpartition(".")[2]
    for said in (found.message.partition(":")[0], (found.fix or "").removeprefix("call it as ").partition("(")[0]):
        assert said.rpartition(".")[2] == last
        assert name.endswith(said) or said == f"nvb.{last}"


def test_an_argument_whose_own_class_raises_is_of_the_wrong_kind() -> None:
    class Raising:
        @property
        def __class__(self) -> type:
            raise RuntimeError("not now")

    with pytest.raises(DiagnosticError, match="module must be Module") as caught:
        SimulatedModule("a kernel", Raising())  # type: ignore[arg-type]
    assert {one.rule_id for one in caught.value.diagnostics} == {"call.argument"}
