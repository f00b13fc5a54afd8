"""The machine: warps whose lanes diverge and reconverge, what threads know of themselves, and which warp runs next."""
