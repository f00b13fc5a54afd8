"""Named mistakes, made in right kernels one at a time: which rule finds each, and where nothing can be seen."""
