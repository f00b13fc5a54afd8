"""Convergence: which instructions all threads of a warp, a warpgroup or a CTA must reach together."""
