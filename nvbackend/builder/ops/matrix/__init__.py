"""The calls of the matrix instructions: mma.sync, wmma, wgmma, tcgen05."""
