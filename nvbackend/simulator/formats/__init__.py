"""Number formats: bits to values and back, with every rounding and saturation of the hardware.

`FORMATS` has a `Format` for each PTX name of one number, f64 to e2m1. Values are float64, which holds each of them.
"""

from nvbackend.simulator.formats.format import FORMATS, Format
from nvbackend.simulator.formats.odd import to_odd

__all__ = ["FORMATS", "Format", "to_odd"]
