"""The rows that move data: TMA, cp.async, matrix moves, tensor memory, caches, multimem."""
