"""What a kernel asks of the selector: a module per family, each with its instructions by name, and `select`.

They are `nvb.mma`, `nvb.wgmma`, `nvb.wmma`, `nvb.tcgen05` and `nvb.tma`, whose calls are named as those of `k`:
`k.wgmma.mma_async` takes what `nvb.wgmma.mma_async` returns. What multiplies is described by its shape's name and the
types of A, B and D, what copies by the tensor's rank; the same argument has the same name in all of them. A request
says nothing about a target: `select(request, target)` returns the row, or raises every rule that is broken.
"""
