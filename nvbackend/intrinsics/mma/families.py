"""The families of matrix instructions and the opcodes of their products: what tells them apart without their tables."""

from __future__ import annotations

MMA = "mma"
WMMA = "wmma"
WMMA_MMA = "wmma.mma"
TCGEN05 = "tcgen05"
TCGEN05_MMA = "tcgen05.mma"
TCGEN05_MMA_WS = "tcgen05.mma.ws"
