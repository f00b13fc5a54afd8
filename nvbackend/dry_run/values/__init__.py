"""Values of a warp's registers, known and unknown, and the arithmetic of LLVM's integers on them."""
