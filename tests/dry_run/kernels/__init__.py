"""Right kernels with their mistakes, a file for each style."""

from tests.dry_run.kernels import cutlass_sm80, cutlass_sm90

STYLES = (cutlass_sm90, cutlass_sm80)
