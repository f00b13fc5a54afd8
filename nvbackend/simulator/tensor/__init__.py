"""What tensor cores compute, as pure functions of arrays: fragments, descriptors and sums, from the PTX ISA's formulas.

No table is shared with the builder: this is a second transcription, so that one tests the other. Matrices are arrays of
codes (the bits of each element), `(batch, rows, columns)`; registers are `(registers, threads)`, threads in ascending
order and of whole warps.
"""
