"""LTO-IR, which nvJitLink optimises together with that of other compilers: made by libNVVM, and read back as PTX."""
