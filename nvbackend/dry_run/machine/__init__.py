"""The machine: warps whose lanes part and meet, what threads know of themselves, and who runs next."""
