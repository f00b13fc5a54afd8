"""The rows that multiply matrices: mma.sync, wmma, wgmma, tcgen05.mma."""
