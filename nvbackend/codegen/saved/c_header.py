"""Compiled kernels as a header of C99: the cubin, and functions that load and launch them by the CUDA driver API.

Source: CUDA driver API, cuModuleLoadData, cuLaunchKernelEx, cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from nvbackend.codegen.saved.c_maps import encoder, struct
from nvbackend.codegen.saved.parts import LaunchedKernel
from nvbackend.diagnostics import printed
from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy.tensormap import TENSOR_MAP_BYTES
from nvbackend.intrinsics.row.types import ElementType
from nvbackend.signature import LaunchBounds, Parameter, Pointer, Scalar, Shape, TensorMap

_WORD_BYTES, _WORDS_A_LINE = 8, 5
_STATIC_LIMIT = 48 << 10
"""Bytes of shared memory that a kernel may have without asking (CUDA C++ Programming Guide, Shared Memory)."""
_PORTABLE_CLUSTER = 8
_MAP_ALIGNMENT = 64
_FLOATS = {"float": "float", "double": "double", "half": "uint16_t", "bfloat": "uint16_t"}
_OWN = frozenset(
    {"kernel", "grid_x", "grid_y", "grid_z", "stream", "result", "arguments", "config", "attributes"}
    | {"image", "load", "launch", "unload"}
)
_MADE = ("", "_bytes", "_map", "_encode")
"""What follows the name of a parameter in names that are made of it."""
KEYWORDS = re.compile(
    "auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|inline|int|long|"
    "register|restrict|return|short|signed|sizeof|static|struct|switch|typedef|union|unsigned|void|volatile|while|"
    "_Bool|_Complex|_Imaginary|"
    "alignas|alignof|and|and_eq|asm|bitand|bitor|bool|catch|char16_t|char32_t|class|compl|const_cast|constexpr|"
    "decltype|delete|dynamic_cast|explicit|export|false|friend|mutable|namespace|new|noexcept|not|not_eq|nullptr|"
    "operator|or|or_eq|private|protected|public|reinterpret_cast|static_assert|static_cast|template|this|"
    "thread_local|throw|true|try|typeid|typename|using|virtual|wchar_t|xor|xor_eq|"
    "char8_t|concept|consteval|constinit|co_await|co_return|co_yield|requires|NULL"
)
"""Of C99 and C++20, which may include the header, and its macro."""


def c_header(kernel: LaunchedKernel) -> str:
    """The text of a kernel's header; it embeds the cubin, or the PTX of a kernel that was not assembled."""
    name = _identifier(kernel.signature.name)
    return _text(_Image(f"{name}_kernel", name, "kernel", ("function",), (kernel,)), (_Launcher(kernel, "kernel"),))


def c_header_of_module(name: str, kernels: Sequence[LaunchedKernel]) -> str:
    """The text of one header for the kernels of a module, which NAME_load loads together. Raises call.argument."""
    if not isinstance(name, str) or _identifier(name) != name or KEYWORDS.fullmatch(name):
        problem = f"takes a name of C for the module, not {printed(name)}"
        ARGUMENT.fail(call="c_header", problem=problem, advice='write module.c_header("kernels")')
    functions = tuple(names_of_c((each.signature.name for each in kernels), ("module",)))
    taken = {f"{name}{after}" for after in ("_module", "_image", "_load", "_unload")}
    prefixes = names_of_c((each.signature.name for each in kernels), taken, ("", "_launch"))
    image = _Image(f"{name}_module", name, "module", functions, tuple(kernels))
    launchers = [
        _Launcher(kernel, "module", prefix, image.struct, function)
        for kernel, prefix, function in zip(kernels, prefixes, functions, strict=True)
    ]
    return _text(image, launchers)


def _text(image: _Image, launchers: Sequence[_Launcher]) -> str:
    lines = [*image.opening()]
    for launcher in launchers:
        lines += launcher.maps()
    lines += image.load()
    for launcher in launchers:
        lines += launcher.launch()
    return "\n".join((*lines, *image.closing())) + "\n"


@dataclass(frozen=True)
class _Image:
    """The code, the struct of what is loaded of it (`struct`, passed as `variable`), and what loads and unloads it."""

    struct: str
    name: str
    variable: str
    functions: tuple[str, ...]
    kernels: tuple[LaunchedKernel, ...]

    def opening(self) -> Iterator[str]:
        """The file's head, the code, and the struct."""
        first, guard = self.kernels[0], f"NVBACKEND_{self.name.upper()}_H"
        form = "PTX" if first.cubin is None else "cubin"
        names = ", ".join(each.signature.name for each in self.kernels)
        what = f"Kernel{'s' if len(self.kernels) > 1 else ''} {names} for {first.target.name}"
        yield f"/* {what}, written by nvbackend: {form} and launcher."
        yield "   Link with -lcuda. A context must be current; results are those of the driver. Shapes and strides have"
        yield "   the outermost dimension first; a stride is in bytes, and 0 means that rows have no gap. */"
        yield from (
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <cuda.h>",
            "#include <stdint.h>",
            "#include <string.h>",
            "",
        )
        yield from self._words(first)
        functions = (f"    CUfunction {function};" for function in self.functions)
        yield from ("", "typedef struct {", "    CUmodule module;", *functions, f"}} {self.struct};", "")

    def _words(self, kernel: LaunchedKernel) -> Iterator[str]:
        data = kernel.ptx.encode() + b"\0" if kernel.cubin is None else kernel.cubin.data
        data += bytes(-len(data) % _WORD_BYTES)
        words = [
            f"0x{int.from_bytes(data[at : at + _WORD_BYTES], 'little'):x}u" for at in range(0, len(data), _WORD_BYTES)
        ]
        yield f"/* Words of {_WORD_BYTES} bytes, least significant first. */"
        yield f"static const uint64_t {self.name}_image[] = {{"
        for at in range(0, len(words), _WORDS_A_LINE):
            yield f"    {', '.join(words[at : at + _WORDS_A_LINE])},"
        yield "};"

    def load(self) -> Iterator[str]:
        """The function that loads it, and asks for what the launch bounds need."""
        it = self.variable
        yield f"/* Load {'it' if len(self.kernels) == 1 else 'them'} into the current context. */"
        yield f"static inline CUresult {self.name}_load({self.struct} *{it}) {{"
        yield f"    CUresult result = cuModuleLoadData(&{it}->module, {self.name}_image);"
        yield "    if (result != CUDA_SUCCESS) return result;"
        for place, (function, kernel) in enumerate(zip(self.functions, self.kernels, strict=True)):
            if place:
                yield "    if (result == CUDA_SUCCESS)"
            got = f'cuModuleGetFunction(&{it}->{function}, {it}->module, "{kernel.signature.name}");'
            yield f"    {'    ' * bool(place)}result = {got}"
            for attribute, value in _attributes(kernel):
                yield "    if (result == CUDA_SUCCESS)"
                yield f"        result = cuFuncSetAttribute({it}->{function}, CU_FUNC_ATTRIBUTE_{attribute}, {value});"
        yield f"    if (result != CUDA_SUCCESS) cuModuleUnload({it}->module);"
        yield from ("    return result;", "}", "")

    def closing(self) -> Iterator[str]:
        """The function that unloads it, and the file's end."""
        yield f"static inline CUresult {self.name}_unload({self.struct} *{self.variable}) {{"
        yield from (f"    return cuModuleUnload({self.variable}->module);", "}", "")
        yield f"#endif /* NVBACKEND_{self.name.upper()}_H */"


def _attributes(kernel: LaunchedKernel) -> Iterator[tuple[str, int]]:
    """What a function is allowed before its first launch."""
    bounds = kernel.signature.bounds
    if bounds.dynamic_shared_bytes > _STATIC_LIMIT:
        yield "MAX_DYNAMIC_SHARED_SIZE_BYTES", bounds.dynamic_shared_bytes
    if bounds.cluster > _PORTABLE_CLUSTER:
        yield "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1


def _launch_attributes(bounds: LaunchBounds) -> Iterator[tuple[str, dict[str, int]]]:
    """What a launch says besides its extents: a name, and members of the attribute's value."""
    if bounds.cluster > 1:
        extents = zip("xyz", bounds.cluster_shape, strict=True)
        yield "CLUSTER_DIMENSION", {f"clusterDim.{axis}": extent for axis, extent in extents}
    if bounds.overlaps:
        yield "PROGRAMMATIC_STREAM_SERIALIZATION", {"programmaticStreamSerializationAllowed": 1}


class _Launcher:
    """What launches one kernel: the member `function` of the struct, which the launcher takes as `variable`."""

    def __init__(
        self,
        kernel: LaunchedKernel,
        variable: str,
        prefix: str | None = None,
        struct: str | None = None,
        function: str = "function",
    ) -> None:
        self._signature = kernel.signature
        self._bounds = kernel.signature.bounds
        self._name = _identifier(kernel.signature.name) if prefix is None else prefix
        self._struct = struct or f"{self._name}_kernel"
        self._variable, self._function = variable, function
        names = names_of_c((each.name for each in kernel.signature.parameters), _OWN | {variable}, _MADE)
        self._parameters = list(zip(names, kernel.signature.parameters, strict=True))

    def maps(self) -> Iterator[str]:
        """The arrays of its tensor maps, and the functions that encode these."""
        for own, parameter in self._parameters:
            if isinstance(parameter.type, TensorMap):
                yield from struct(f"{self._name}_{own}", parameter.name, parameter.type)
                yield from encoder(f"{self._name}_{own}", parameter.type)

    def launch(self) -> Iterator[str]:
        """The function that launches it."""
        name, bounds = self._name, self._bounds
        cluster = bounds.cluster_shape
        yield f"/* Launch it on a grid of so many CTAs{_multiple(cluster)}. Returns before the kernel has run. */"
        yield f"static inline CUresult {name}_launch("
        grid = "unsigned grid_x, unsigned grid_y, unsigned grid_z"
        declared = [_declared(name, own, each) for own, each in self._parameters]
        yield ",\n".join(
            f"    {each}" for each in (f"const {self._struct} *{self._variable}, {grid}, CUstream stream", *declared)
        )
        yield ") {"
        maps = [own for own, parameter in self._parameters if isinstance(parameter.type, TensorMap)]
        for own in maps:
            yield f"    unsigned char {own}_bytes[{TENSOR_MAP_BYTES} + {_MAP_ALIGNMENT}];"
            aligned = f"((uintptr_t){own}_bytes + {_MAP_ALIGNMENT - 1}) / {_MAP_ALIGNMENT} * {_MAP_ALIGNMENT}"
            yield f"    CUtensorMap *{own}_map = (CUtensorMap *)({aligned});"
        places = ", ".join(f"{own}_map" if own in maps else f"&{own}" for own, _ in self._parameters)
        yield f"    void *arguments[] = {{{places or '0'}}};"
        yield "    CUlaunchConfig config;"
        attributes = list(_launch_attributes(bounds))
        if attributes:
            yield f"    CUlaunchAttribute attributes[{len(attributes)}];"
        if maps:
            yield "    CUresult result;"
        for own, parameter in self._parameters:
            yield from _checks(own, parameter)
        for own in maps:
            yield f"    result = {name}_{own}_encode({own}_map, {own});"
            yield "    if (result != CUDA_SUCCESS) return result;"
        yield "    memset(&config, 0, sizeof config);"
        yield from (f"    config.gridDim{axis.upper()} = grid_{axis};" for axis in "xyz")
        yield from (f"    config.blockDim{axis} = {extent};" for axis, extent in zip("XYZ", bounds.shape, strict=True))
        yield f"    config.sharedMemBytes = {bounds.dynamic_shared_bytes};"
        yield "    config.hStream = stream;"
        if attributes:
            yield "    memset(attributes, 0, sizeof attributes);"
            for place, (name_of_it, values) in enumerate(attributes):
                yield f"    attributes[{place}].id = CU_LAUNCH_ATTRIBUTE_{name_of_it};"
                yield from (f"    attributes[{place}].value.{member} = {value};" for member, value in values.items())
            yield from ("    config.attrs = attributes;", f"    config.numAttrs = {len(attributes)};")
        function = f"{self._variable}->{self._function}"
        yield from (f"    return cuLaunchKernelEx(&config, {function}, arguments, 0);", "}", "")


def _declared(kernel: str, own: str, parameter: Parameter) -> str:
    """A parameter of the launcher."""
    if isinstance(parameter.type, TensorMap):
        return f"const {kernel}_{own} *{own}"
    if isinstance(parameter.type, Pointer):
        return f"CUdeviceptr {own} /* {parameter.type.element}, aligned to {parameter.type.align} bytes */"
    more = f" /* {parameter.type.element} */" if _is_raw(parameter.type.element) else ""
    return f"{_c_type(parameter.type.element)} {own}{more}"


def _checks(own: str, parameter: Parameter) -> Iterator[str]:
    """What the kernel was compiled for: alignment, and asserted values."""
    kind = parameter.type
    if isinstance(kind, Pointer) and kind.align > 1:
        yield f"    if ({own} % {kind.align}) return CUDA_ERROR_MISALIGNED_ADDRESS;"
    if isinstance(kind, Scalar) and kind.asserts:
        every, values = kind.element.integers, kind.values
        parts = [f"{own} < {_literal(kind.element, values[0])}"] if values[0] > every[0] else []
        parts += [f"{own} > {_literal(kind.element, values[-1])}"] if values[-1] < every[-1] else []
        parts += [f"{own} % {kind.multiple_of}"] if kind.multiple_of > 1 else []
        if parts:
            yield f"    if ({' || '.join(parts)}) return CUDA_ERROR_INVALID_VALUE;"


def _literal(element: ElementType, value: int) -> str:
    """An integer of C; the least one of 64 bits has no literal of its own."""
    if not element.is_signed:
        return f"{value}u"
    return f"{value}" if value > -(1 << 63) else "INT64_MIN"


def _c_type(element: ElementType) -> str:
    """The type of C that a scalar is passed as: the bits of those that C does not have."""
    if element.llvm in _FLOATS:
        return _FLOATS[element.llvm]
    bits = max(int(element.llvm[1:]), 8)
    return f"{'' if element.is_signed else 'u'}int{bits}_t"


def _is_raw(element: ElementType) -> bool:
    """Whether C has the bits of a scalar alone."""
    return not element.is_integer and element.llvm not in ("float", "double")


def _multiple(cluster: Shape) -> str:
    return f", a multiple of {' x '.join(map(str, cluster))}" if max(cluster) > 1 else ""


def _identifier(name: str) -> str:
    """A name of C."""
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name)
    return f"_{plain}" if plain[:1].isdecimal() or not plain else plain


def names_of_c(names: Iterable[str], taken: Iterable[str] = (), made: Sequence[str] = ("",)) -> list[str]:
    """A name of C for each: `_` is appended to keywords, and to those that are taken with a suffix of `made`."""
    chosen: list[str] = []
    used = set(taken)
    for each in names:
        name = _identifier(each)
        while KEYWORDS.fullmatch(name) or any(name + after in used for after in made):
            name += "_"
        chosen.append(name)
        used |= {name + after for after in made}
    return chosen
