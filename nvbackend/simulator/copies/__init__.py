"""Where copies read and write: pure address generators for cp.async, bulk copies and TMA, and the tensor map they read.

Nothing here touches memory. A generator gives `Moves`; the caller moves the bytes. Formulas are transcribed from PTX
ISA 5.5 and 9.7.9.
"""
