"""From LLVM IR text to PTX (LLVM), to a cubin (ptxas) and to SASS (nvdisasm), each complaint of a tool a Diagnostic.

Importing this package loads neither LLVM nor anything else that is heavy; each module loads what it needs when called.
"""
