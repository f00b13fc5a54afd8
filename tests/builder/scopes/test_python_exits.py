"""Python's `return`, `break` and `continue` in a with-block, and blocks taken for sequences or conditions."""

from __future__ import annotations

import ast
import contextlib
import linecache
import traceback
from collections.abc import Callable

import pytest

import nvbackend as nvb
from nvbackend import i32
from nvbackend.builder.scopes import python_exits


def bare_return(k, out, n):
    with k.if_(n > 3):
        return  # here
    out[0] = 1


def return_under_a_condition(k, out, n, repeats=2):
    with k.one_thread():
        if repeats == 2:
            return  # here
        out[1] = 2
    out[0] = 1


def return_in_nested_blocks(k, out, n):
    with k.if_(n > 3), k.if_(n > 4):
        out[1] = 2
        with k.if_(n > 5):
            if n is not None:
                return  # here
            out[2] = 2
        out[3] = 2


def return_at_the_end_of_a_round(k, out, n):
    with k.range(n) as i:
        out[i] = 1
        with k.if_(i == 7):
            return  # here


def return_of_a_helper(k, out, n):
    def chosen(value):
        with k.if_(value > 3):
            return 1  # here
        return 2

    out[0] = chosen(n)


def return_in_a_python_loop(k, out, n):
    for i in range(4):
        with k.if_(n > i):
            return  # here


def return_through_a_stack(k, out, n):
    with contextlib.ExitStack() as stack:
        stack.enter_context(k.if_(n > 3))
        return  # here
    out[0] = 1


def break_of_python(k, out, n):
    for i in range(4):
        with k.if_(n > i):
            out[i] = 1
            break  # here


def second_of_two(k, out, n):
    for i in range(4):
        with k.if_(n > i):
            if i == 9:
                break
            if i == 2:
                continue  # here
            out[i] = 1
        out[i] = 2


def continue_in_a_loop(k, out, n):
    for _ in range(4):
        with k.loop():
            k.break_if(n > 3)
            continue  # here


def continue_in_front_of_the_rest_of_a_round(k, out, n, repeats=2):
    for i in range(4):
        if repeats == 2:
            with k.if_(n > i):
                continue  # here
        out[i] = 1


def return_after_a_python_loop(k, out, n):
    for i in range(4):
        out[i] = 1
    else:  # noqa: PLW0120 (it is what is looked at)
        with k.if_(n > 3):
            return  # here
    out[4] = 1


def return_in_else(k, out, n):
    with k.if_(n > 3):
        out[0] = 1
    with k.else_():
        return  # here
    out[1] = 1


def built(function: Callable[..., None]) -> nvb.FinishedKernel:
    @nvb.kernel("sm_90a", threads=128)
    def kernel(k, out: nvb.Pointer[i32], n: i32):
        function(k, out, n)

    return kernel.build()


LEFT = [
    bare_return,
    return_under_a_condition,
    return_in_nested_blocks,
    return_at_the_end_of_a_round,
    return_of_a_helper,
    return_in_a_python_loop,
    return_through_a_stack,
    break_of_python,
    second_of_two,
    continue_in_a_loop,
    continue_in_front_of_the_rest_of_a_round,
    return_after_a_python_loop,
    return_in_else,
]


@pytest.mark.parametrize("function", LEFT, ids=lambda function: function.__name__)
def test_a_block_that_python_leaves_is_refused_at_the_statement(function: Callable[..., None]) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        built(function)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.rule_id == "control.left"
    assert diagnostic.location is not None
    assert diagnostic.location.function in (function.__name__, "chosen")
    assert linecache.getline(__file__, diagnostic.location.line).endswith("# here\n")


def test_who_called_what_python_leaves_is_shown() -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        built(return_of_a_helper)
    place = caught.value.diagnostics[0].location
    assert place is not None
    assert [each.function for each in (place, *place.callers)][:3] == ["chosen", "return_of_a_helper", "kernel"]


def not_taken(k, out, n, repeats=2):
    for i in range(4):
        with k.if_(n > i):
            if repeats == 3:
                return
            if repeats == 4:
                break
            for j in range(4):
                if j == 1:
                    continue
                if j == 2:
                    break
                out[j] = i
        out[4] = i


def last_of_all(k, out, n):
    out[0] = 1
    with k.if_(n > 3), k.if_(n > 4):
        out[4] = 2
        return


def last_under_a_condition(k, out, n, repeats=2):
    out[0] = 1
    if repeats == 2:
        with k.if_(n > 3):
            out[4] = 2
            return


def last_after_a_python_loop(k, out, n):
    for i in range(4):
        out[i] = 1
    else:  # noqa: PLW0120 (it is what is looked at)
        with k.if_(n > 3):
            out[4] = 2
            return


def rest_of_the_block(k, out, n, bias=False):
    with k.if_(n > 3):
        out[4] = 2
        if not bias:
            return
        out[5] = 2


def functions_inside(k, out, n):
    with k.if_(n > 3):

        def two():
            return 2

        out[1] = two()
        out[2] = max(1, 2, key=lambda one: -one)
    out[4] = 2


def value_at_the_end(k, out, n):
    def made():
        with k.if_(n > 3):
            return out + 4

    made()
    out[4] = 2


def other_with(k, out, n):
    with k.if_(n > 3):
        with contextlib.nullcontext():
            for _ in range(4):
                break
        try:
            out[2] = {}["a"]
        except KeyError:
            out[2] = 1
    with contextlib.nullcontext():
        out[4] = 1
        return
    out[5] = 1


@pytest.mark.parametrize(
    "function",
    [
        not_taken,
        last_of_all,
        last_under_a_condition,
        last_after_a_python_loop,
        rest_of_the_block,
        functions_inside,
        value_at_the_end,
        other_with,
    ],
)
def test_python_that_skips_nothing_is_left_alone(function: Callable[..., None]) -> None:
    assert built(function).diagnostics == ()


def counted_by_python(k, out, n):
    for i in k.range(n):
        out[i] = 1


def asked_by_python(k, out, n):
    if k.if_(n > 3):
        out[0] = 1


@pytest.mark.parametrize(
    ("function", "fix"),
    [(counted_by_python, "write `with k.range(...) as i:`"), (asked_by_python, "write `with k.if_(...):`")],
)
def test_a_block_is_no_sequence_and_no_condition(function: Callable[..., None], fix: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        built(function)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.rule_id, diagnostic.fix) == ("control.with", fix)
    assert diagnostic.location is not None
    assert diagnostic.location.function == function.__name__


def named_by_python(k, out, n):
    ring = k.pipeline(2, consumers=1, row=(nvb.f32, 32))
    stage = ring.fill()
    stage.row[0] = 1.0


def counter_of_python(k, out, n):
    i = k.range(n)
    out[i] = 1


@pytest.mark.parametrize(
    ("function", "rule", "fix"),
    [
        (named_by_python, "control.with", "write `with ring.fill(...) as opened:`, and use opened.row inside"),
        (counter_of_python, "value.kind", "open it: `with k.range(...) as i:`, and use i inside"),
    ],
)
def test_a_block_is_not_what_it_gives(function: Callable[..., None], rule: str, fix: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        built(function)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.rule_id, diagnostic.fix) == (rule, fix)
    assert diagnostic.location is not None and diagnostic.location.function == function.__name__
    assert not hasattr(nvb.KernelBuilder("k", "sm_90a", threads=32).if_(1), "row")


@pytest.mark.parametrize("ask", [bool, iter, list])
def test_a_question_of_python_is_refused_where_it_is_asked(ask: Callable[..., object]) -> None:
    """A kernel that catches the refusal sees one frame of the package, which raises it."""
    seen = []

    def asking(k, out, n):
        with pytest.raises(nvb.DiagnosticError) as caught:
            ask(k.range(n))
        seen.extend(frame.filename == __file__ for frame in traceback.extract_tb(caught.value.__traceback__))
        assert caught.value.__context__ is None

    with pytest.raises(nvb.DiagnosticError, match="never opened"):
        built(asking)
    assert seen == [True, False]


def test_a_block_that_python_left_is_closed() -> None:
    depths = []

    def leaving(k, out, n):
        def leave() -> None:
            with k.if_(n > 3):
                return
            out[0] = 1

        depths.append(len(k.core.regions))
        with pytest.raises(nvb.DiagnosticError, match="return"):
            leave()
        depths.append(len(k.core.regions))

    with pytest.raises(nvb.DiagnosticError, match="left by a Python exception"):
        built(leaving)
    assert depths[0] == depths[1]


@pytest.mark.parametrize("text", ["%magic\n{}", "{}\n\0", "", "x = 1\n" * 40])
def test_a_text_that_is_not_the_codes_says_nothing(text: str) -> None:
    """Of a notebook, a file that was changed, or one that is gone: the kernel is built as Python ran it."""
    source = "def body(k, out, n):\n    with k.if_(n > 3):\n        return\n    out[0] = 1\n"
    name = f"<text {len(text)}>"
    scope: dict[str, Callable[..., None]] = {}
    exec(compile(source, name, "exec"), scope)
    shown = text.format(source)
    linecache.cache[name] = (len(shown), None, shown.splitlines(keepends=True), name)
    try:
        assert built(scope["body"]).diagnostics == ()
    finally:
        del linecache.cache[name]


LEFT_BY_EXCEPTION_TOO = """
def function(block, bit):
    with block(), block():
        try:
            bit()
        except ValueError:
            return 1
        if bit():
            return 2
"""


@pytest.mark.parametrize(
    ("moved", "last", "first", "both"),
    [
        (False, [7, 9, None], [7, 9, None], [7, 7, 9, 9, None, None]),
        (True, [9, None, 7], [9, None, 7], [9, 9, None, None, 7, 7]),
    ],
)
def test_what_only_an_exception_leads_to_is_last_from_python_3_12_on(
    monkeypatch: pytest.MonkeyPatch, moved: bool, last: list[int], first: list[int], both: list[int]
) -> None:
    """As CPython compiles it; the random functions show it for the version that runs."""
    monkeypatch.setattr(python_exits, "MOVES_COLD_CODE", moved)
    (ways,) = python_exits.ways_out(ast.parse(LEFT_BY_EXCEPTION_TOO)).values()

    def lines(statements: tuple[python_exits.Exit | None, ...]) -> list[int | None]:
        return [statement and statement.lineno for statement in statements]

    assert lines(ways.of_item(last=True)) == last
    assert lines(ways.of_item(last=False)) == first
    assert lines(ways.of_all(2)) == both


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "try:\n A\n B\nexcept E:\n C\n D\nelse:\n F\n G\nfinally:\n H\n I",
            {"A": "BFG", "B": "FG", "C": "D", "D": "", "F": "G", "H": "I"},
        ),
        ("for i in x:\n A\n B\nelse:\n C\n D", {"A": "B", "B": "", "C": "D", "D": ""}),
        ("while x:\n A\n B\nelse:\n C\n D", {"A": "B", "B": "", "C": "D"}),
        ("if x:\n A\n B\nelse:\n C\n D", {"A": "B", "B": "", "C": "D"}),
        ("with x:\n A\n B\n C", {"A": "BC", "C": ""}),
    ],
)
def test_what_runs_after_a_statement_of_a_block(text: str, expected: dict[str, str]) -> None:
    """Of a try that raises nothing, its `else` runs next; other parts of a statement do not follow one another."""
    tree = ast.parse(text)
    around = {ast.unparse(node): parents for node, parents in python_exits.nodes(tree, ())}
    children = {ast.unparse(node): node for node, _ in python_exits.nodes(tree, ())}
    found = {
        name: "".join(ast.unparse(each) for each in python_exits.following(around[name][-1], children[name]))
        for name in expected
    }
    assert found == expected
