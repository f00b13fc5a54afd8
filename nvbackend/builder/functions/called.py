"""A called function: the function itself, and the calls in place of its body.

At each call the body is expanded in blocks of its own, as it is for a function in place: all that is judged of a
kernel is judged of these. The function is built once for a module, from nothing but its parameters, and compared with
what was expanded. When the kernel is printed, `scopes.calls` puts the call where the body was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from llvmlite import ir

from nvbackend.builder.core.assumptions import assume_values
from nvbackend.builder.core.core import Core
from nvbackend.builder.core.memory import Address
from nvbackend.builder.functions.body import code_of, return_results
from nvbackend.builder.functions.expanded import Source, expand
from nvbackend.builder.functions.parameters import Kind
from nvbackend.builder.kernel.operations import Operations
from nvbackend.builder.lower.conversions import llvm_type
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.scopes.calls import splice
from nvbackend.builder.scopes.function_rules import DIFFERS
from nvbackend.builder.scopes.in_functions import Call, CalledFunction, Functions
from nvbackend.builder.scopes.names import has_meaning
from nvbackend.builder.values.values import GLOBAL_SPACE, SHARED_SPACE, Value
from nvbackend.diagnostics import caller_location
from nvbackend.dry_run.successors import successors_of
from nvbackend.isel.machine.pseudo import CALL
from nvbackend.signature import Pointer, Scalar

_I32 = ir.IntType(32)


def call(k: FunctionBuilder, source: Source, arguments: Mapping[str, Any]) -> list[Value]:
    """Call the function: expand its body for the analyses, and note that it is a call."""
    core, place = k.core, caller_location()
    core.pseudo(CALL)
    kinds = source.wanted.parameters
    registers = [_register(core, argument) for argument in arguments.values()]
    before = core.llvm.block
    pairs = zip(kinds.items(), registers, strict=True)
    inside = {name: _parameter(k, kind, register) for (name, kind), register in pairs}
    results = expand(k, source, inside, apart=True)
    after = core.llvm.block
    blocks = core.function.blocks
    start = successors_of(before.terminator)[0]
    body = tuple(blocks[blocks.index(start) : blocks.index(after)])
    called = _built(k, source)
    _check_same(source, called, code_of(body))
    made = tuple(value.ir for value in results)
    core.functions.calls.append(Call(before, after, body, called.function, tuple(registers), made, place))
    return results


def _register(core: Core, argument: Value | Address) -> ir.Value:
    """What is passed; of a constant a copy, so that the body cannot tell it from a parameter."""
    if isinstance(argument, Address):
        return argument.pointer() if argument.space == GLOBAL_SPACE else argument.bytes.ir
    register = argument.ir
    return core.llvm.copied(register) if isinstance(register, ir.Constant) else register


def _parameter(k: FunctionBuilder, kind: Kind, register: ir.Value) -> Value | Address:
    """A parameter of the function that is in `register`."""
    core = k.core
    if isinstance(kind, Scalar):
        return core.wrap(register, kind.element)
    assert isinstance(kind, Pointer)
    if kind.space == "global":
        return k.memory.global_address(register, kind.element, kind.align, const=kind.const)
    place = core.places.of_address(register)
    return Address(core, register, kind.element, SHARED_SPACE, kind.align, place=place)


# -- the function itself ----------------------------------------------------------------------------------------------


def _built(k: FunctionBuilder, source: Source) -> CalledFunction:
    """The function in the module of `k`, built at its first call."""
    core = k.core
    known = core.functions.built
    for called in known:
        if called.definition is source.entered.definition and called.constants == source.constants:
            return called
    inner = _core_of(core, source)
    builder = Operations(inner)
    entry = inner.function.append_basic_block("entry")
    inner.start(entry)
    core.inner = inner.name
    try:
        parameters = {
            name: _argument(builder, name, kind, argument)
            for (name, kind), argument in zip(source.wanted.parameters.items(), inner.function.args, strict=True)
        }
        results = expand(builder, source, parameters, apart=True)
    finally:
        core.inner = None
    code = code_of(inner.function.blocks[1:-1])
    return_results(inner, [value.ir for value in results])
    # Its with-blocks are whole if those of the same body in the caller are, which are checked there.
    inner.finished = True
    inner.link(everywhere=True)
    splice(inner.function, inner.functions.calls)
    called = CalledFunction(source.entered.definition, dict(source.constants), inner.function, code)
    known.append(called)
    return called


def _core_of(core: Core, source: Source) -> Core:
    """The core of the function: which threads come to it is not known."""
    wanted, module = source.wanted, core.llvm.module
    results = [llvm_type(element) for element in wanted.results or ()]
    returned = ir.VoidType() if not results else results[0] if len(results) == 1 else ir.LiteralStructType(results)
    kind = ir.FunctionType(returned, [_llvm_kind(each) for each in wanted.parameters.values()])
    function = ir.Function(module, kind, _free_name(module, wanted.function))
    function.linkage = "internal"
    for attribute in ("noinline", "convergent"):
        function.attributes.add(attribute)
    inner = Core(
        function.name,
        core.target,
        function,
        bounds=core.bounds,
        cached_storage=True,
        debug=core.debug,
        math=core.math,
    )
    inner.is_shaped = core.is_shaped
    inner.execution.start(core.bounds, entered=False, shaped=core.is_shaped)
    inner.functions = Functions(core.functions.open, core.functions.built)
    return inner


def _free_name(module: ir.Module, wanted: str) -> str:
    """`wanted`, with a number after it where the module has a function of that name, or the name has a meaning."""
    name, count = wanted, 1
    while name in module.globals or has_meaning(name):
        name, count = f"{wanted}__{count}", count + 1
    return name


def _llvm_kind(kind: Kind) -> ir.Type:
    if isinstance(kind, Scalar):
        return llvm_type(kind.element)
    assert isinstance(kind, Pointer)
    return ir.PointerType(addrspace=GLOBAL_SPACE) if kind.space == "global" else _I32


def _argument(k: FunctionBuilder, name: str, kind: Kind, argument: ir.Argument) -> Value | Address:
    argument.name = name
    parameter = _parameter(k, kind, argument)
    if isinstance(kind, Scalar):
        assume_values(k.core, cast("Value", parameter), kind)
    return parameter


# -- is it what was judged? -------------------------------------------------------------------------------------------


def _check_same(source: Source, called: CalledFunction, code: tuple[str, ...]) -> None:
    if code == called.code:
        return
    first, second = next(
        (pair for pair in zip(called.code, code, strict=False) if pair[0] != pair[1]),
        (f"{len(called.code)} instructions", f"{len(code)}"),
    )
    DIFFERS.fail(function=source.wanted.function, first=first, second=second)
