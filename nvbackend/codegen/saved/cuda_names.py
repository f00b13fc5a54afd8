"""Functions that CUDA C++ declares in every file: nvcc calls its own where a program declares one of these names.

CUDA Math API Reference; CUDA C++ Programming Guide, Built-in Types, Atomic, Texture and Surface Functions.
"""

from __future__ import annotations

import re
from typing import Final

_OF_MATH: Final = (
    r"acos|acosh|asin|asinh|atan|atan2|atanh|cbrt|ceil|copysign|cos|cosh|cospi|cyl_bessel_i0|cyl_bessel_i1|erf|erfc|"
    r"erfcinv|erfcx|erfinv|exp|exp10|exp2|expm1|fabs|fdim|fdivide|floor|fma|fmax|fmin|fmod|frexp|hypot|ilogb|j0|j1|jn|"
    r"ldexp|lgamma|llrint|llround|log|log10|log1p|log2|logb|lrint|lround|modf|nan|nearbyint|nextafter|norm|norm3d|"
    r"norm4d|normcdf|normcdfinv|pow|rcbrt|remainder|remquo|rhypot|rint|rnorm|rnorm3d|rnorm4d|round|rsqrt|scalbln|scalbn|"
    r"sin|sincos|sincospi|sinh|sinpi|sqrt|tan|tanh|tgamma|trunc|y0|y1|yn|isnan|isinf"
)
"""Of double, and with an `f` of float."""
_OTHERS: Final = (
    r"abs|labs|llabs|max|min|umax|umin|llmax|llmin|ullmax|ullmin|isfinite|signbit|all|any|ballot|clock|clock64|rand|div|"
    r"ffs|printf|malloc|free|memcpy|memmove|memset|memcmp|strcpy|threadIdx|blockIdx|blockDim|gridDim|warpSize"
)
_FAMILIES: Final = (
    r"atomic(Add|Sub|Exch|Min|Max|Inc|Dec|CAS|And|Or|Xor)(_block|_system)?",
    r"make_[a-z]+[1-4](_16a|_32a)?",
    r"(tex(1D|2D|3D|Cubemap)|surf(1D|2D|3D|Cubemap))\w*",
    r"syncthreads_(and|or|count)",
)
DECLARED: Final = re.compile("|".join([f"({_OF_MATH})f?", _OTHERS, *_FAMILIES]))
RESERVED: Final = re.compile(r"__\w+")
"""C++ keeps these for compilers ([lex.name]); CUDA's intrinsics, such as __expf, are among them."""
