"""From typed operands to LLVM IR: types, numbers, operators, conversions, rows, and the IRBuilder that takes them."""
