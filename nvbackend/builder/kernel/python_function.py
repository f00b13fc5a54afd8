"""What can be wrong with a Python function that builds code for the device, and with what it does with values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any

from nvbackend.builder.scopes import function_rules, rules
from nvbackend.diagnostics import Diagnostic, Location, functions_in
from nvbackend.diagnostics.classes.late_pattern import late_pattern
from nvbackend.diagnostics.location import error_location, is_plumbing

_OF_THE_KERNEL = late_pattern(
    r"\b(Value|Variable|Address|Accumulator|SharedTile|Tensor|RegisterTensor|TileValues|Axis\w+)\b"
)
"""The names in Python's messages for objects of a kernel that it cannot use."""
_AS_AN_ARRAY = late_pattern(r"'(Value|Variable)' object (is not subscriptable|does not support item)")
_OF_NUMPY = late_pattern(r"ufunc does not support .* no callable (\w+) method")
"""What NumPy says if one of its functions gets an object that it cannot compute with."""
_OF_A_LIST = late_pattern(r"sequence by non-int|concatenate list|operand type.*'list'")
_OF_LOAD = "take its elements, (value,) = address.load() and low, high = address.load(2), or read one: address[index]"
_NO_ARRAY = "a value of one element is indexed like memory"
_DECLARE_MEMORY = (
    "annotate a parameter that is an array with Pointer: x: nvb.Pointer(nvb.f32), not x: nvb.f32; "
    'of a pair take k.packed.unpack("f16x2", x)'
)
_IN_A_TABLE = (
    "make a table of the kernel, table = k.constant.array(numbers, nvb.f32), and read table[index]; keep what the "
    "kernel also writes in k.shared, and choose between two values by k.select; equal tiles are "
    "k.shared_tiles(layout, count).at(index)"
)
_INSTEAD = {
    "'Accumulator' object does not support item": "set all registers: acc.set([...]), or acc.fill(0.0)",
    "'TileValues' object does not support item": "make others by .map or .where, and write them back by acc.set",
    **dict.fromkeys(
        ("'TileValues' object is not callable", "'AxisValues' object is not callable"),
        "leave the parentheses out: these are the values, and no function gives them",
    ),
    **dict.fromkeys(("'TileValues'", "'AxisValues'"), "compute it of each value: .map(lambda value: ...)"),
    "operand type(s) for @": "multiply tiles of matrices by k.tiled_mma, and numbers by *",
    "len()": "give the length as a parameter of its own, or as a constant of the build",
    "supported between instances of 'Address'": "compare the numbers of addresses: a.bytes < b.bytes",
    "not iterable": "use `with k.range(n) as i:` and index memory by i",
    "'Address'": "compute with an element, address[index]; another place is address + index",
    **dict.fromkeys(("'SharedTile'", "'Tensor'"), "compute with an element: tile.at(row, column)[0]"),
    **dict.fromkeys(("'Accumulator'", "'RegisterTensor'"), "compute with its elements: acc.elements() * 2.0"),
    "not callable": "read a value or a variable as it is, and set a variable by v.set(value)",
    "pow()": "multiply, x * x; for other powers of f32 use k.math.pow(x, y)",
    "abs()": "use k.math.abs(x)",
    "__round__": "use k.math.rint(x); .to(type) rounds towards zero",
    "cannot unpack": "name each counter: `with k.range(m) as i, k.range(n) as j:`",
    "int()": "use .to(nvb.i32), which rounds towards zero",
    "float()": "use .to(nvb.f32)",
    "real number": "use k.math: exp, log, sqrt, sin; .to(type) for int(), float() and math.floor",
    "indices must be integers": _IN_A_TABLE,
    "interpreted as an integer": "use `with k.range(n) as i:` for range(n); a size or a Python index must be a number "
    "that is known when the kernel is built",
}
"""What to write instead of what Python cannot do with a value, by a part of its message."""
_DEEP = 50
"""Calls of one function inside one another, of which a RecursionError tells."""
_OF_CONSTANTS = ("threads", "cluster", "min_ctas", "max_registers")
"""Arguments of nvb.kernel that may depend on constants of the build."""
_OF_THE_DECORATOR = (*_OF_CONSTANTS, "math", "examples", "allow", "severity", "rules")
_OTHERWISE = (
    "use `with k.range(n) as i:` for range(n), `.to(type)` for int() and float(), k.math.sqrt and the like "
    "for math and NumPy, an array in memory for a list"
)


def _advice(error: str) -> str:
    from nvbackend.builder.ops.math.functions import Math  # it loads the builder, which an error has loaded

    if (function := _OF_NUMPY.search(error)) is not None and hasattr(Math, function[1]):
        return f"use k.math.{function[1]}: NumPy's functions are for arrays of the host"
    return next((advice for part, advice in _INSTEAD.items() if part in error), _OTHERWISE)


def misused(error: TypeError | AttributeError | LookupError | RecursionError) -> Diagnostic | None:
    """The diagnostic for what Python says of a value that it cannot use; None where the error is another one."""
    from nvbackend.builder.kernel.indexed_by_value import problem_of  # it loads the builder, which an error has loaded

    if isinstance(error, RecursionError):
        return _recursion(error)
    if (place := error_location(error)) is None:
        return None
    if (problem := problem_of(error)) is not None:
        return rules.NO_NUMBER.diagnose(at=place, error=problem, advice=_IN_A_TABLE)
    return _of_type(error, place) if isinstance(error, (TypeError, AttributeError)) else None


def _of_type(error: TypeError | AttributeError, place: Location) -> Diagnostic | None:
    from nvbackend.builder.kernel.not_called import block_not_called
    from nvbackend.builder.values.unsupported import unsupported

    said = str(error)
    if isinstance(error, TypeError) and (uncalled := block_not_called(error, place)) is not None:
        return uncalled
    if ".load(" in place.source and _OF_A_LIST.search(said):
        return rules.TYPE_MISMATCH.diagnose(at=place, problem=f"load gives a list of values: {said}", advice=_OF_LOAD)
    if isinstance(error, AttributeError) or not _OF_THE_KERNEL.search(said):
        return unsupported(error, place)
    if _AS_AN_ARRAY.search(said):
        return rules.TYPE_MISMATCH.diagnose(at=place, problem=_NO_ARRAY, advice=_DECLARE_MEMORY)
    return rules.NO_NUMBER.diagnose(at=place, error=error, advice=_advice(said))


def _recursion(error: RecursionError) -> Diagnostic | None:
    """function.recursion for a helper that only Python's limit stops: a block of the kernel does not end its calls."""
    places: dict[CodeType, list[Location]] = {}
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_plumbing(trace.tb_frame):
            places.setdefault(code, []).append(Location(code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    for code, lines in places.items():
        if len(lines) >= _DEEP:
            cycle = f"{code.co_name} -> {code.co_name} -> ..., until Python's limit of recursion"
            return function_rules.RECURSION.diagnose(at=lines[0], function=code.co_name, cycle=cycle)
    return None


def first_line(function: Callable[..., Any]) -> Location:
    """The line of the first decorator, or of the `def` without one, of the function that the user wrote."""
    code = functions_in(function)[-1].__code__
    return Location(code.co_filename, code.co_firstlineno, code.co_name)


def last_line(function: Callable[..., Any]) -> Location:
    """The last line that has code, of the function that the user wrote."""
    code = functions_in(function)[-1].__code__
    last = max((line for _, _, line in code.co_lines() if line is not None), default=code.co_firstlineno)
    return Location(code.co_filename, last, code.co_name)


def check_function(function: Callable[..., Any]) -> None:
    """kernel.function unless the function can be run to build a kernel."""
    name = getattr(function, "__name__", "the function")
    if (fault := function_problem(function)) is not None:
        rules.KERNEL_FUNCTION.fail(kernel=name, problem=fault[0], advice=fault[1])
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.KEYWORD_ONLY and parameter.default is not parameter.empty:
            problem = f"{parameter.name} is a parameter of the kernel, and its default would never be used"
            advice = "give it at each launch; write a constant of the build after a *"
            rules.KERNEL_FUNCTION.fail(kernel=name, problem=problem, advice=advice)


def constants_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The defaults of its constants of the build, which a wrapper leaves to what it wraps."""
    parameters = inspect.signature(function).parameters.values()
    keywords = {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
    return {name: default for name, default in keywords.items() if default is not inspect.Parameter.empty}


def function_problem(function: object) -> tuple[str, str] | None:
    """Why the function cannot be run with a builder, and what to do; None where it can."""
    name = getattr(function, "__name__", "the function")
    if not inspect.isfunction(function):
        return "it is not a Python function", "decorate a `def`"
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        problem = "a generator or coroutine does not run when it is called, so the kernel would be empty"
        return problem, "use a plain `def` without yield and await"
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:  # its __wrapped__ or __signature__, which a decorator has set
        return f"its parameters are not known: {error}", "decorate it with what functools.wraps(function) makes"
    return _parameter_problem(name, parameters)


def _parameter_problem(name: str, parameters: Sequence[inspect.Parameter]) -> tuple[str, str] | None:
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        return "it has no first parameter for the builder", f"write def {name}(k, ...)"
    if parameters[0].name == "self" and [each.annotation for each in parameters[1:2]] == [inspect.Parameter.empty]:
        problem = "it is a method, and a kernel gets the builder in place of self"
        return problem, f"write def {name}(k, ...) outside of the class, or inside of a method, where it sees self"
    for parameter in parameters:
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            return f"{parameter} takes parameters that the kernel does not know", "name and annotate each parameter"
    return None


def for_unknown_constant(
    function: Callable[..., Any], name: str, constants: Iterable[str], options: Sequence[str]
) -> str:
    """What to write for `name`, which is not one of the `constants` of a kernel's function: where it is given, if it is
    an argument of the decorator or of a launch; else the constants, and the `options` that the call takes."""
    if name in _OF_CONSTANTS:
        of_constant = f"as a function of one of the constants where it varies: {name}=lambda size: size"
        return f"write {name}=... in @nvb.kernel, {of_constant}"
    if name in _OF_THE_DECORATOR:
        return f"write it in @nvb.kernel(..., {name}=...)"
    parameters = [*inspect.signature(function).parameters.values()][1:]
    if any(each.name == name and each.kind is not each.KEYWORD_ONLY for each in parameters):
        return f"{name} is a parameter of the kernel, whose argument each launch passes: loaded.launch(grid, ...)"
    known = f"its constants are: {', '.join(constants) or 'none'}"
    return f"{known}; options of compile are: {', '.join(options)}" if options else known
