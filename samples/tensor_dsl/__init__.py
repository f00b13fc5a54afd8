"""A small tensor language on nvbackend: a product, an epilogue and sums, for three generations of tensor cores.

It is for authors of compilers. Read it in this order: `language` has the expressions, each with the line where it was
written; `epilogue` emits the functions of a product's elements, for any target; `products` has a way to multiply for
each target; `kernel` puts them together, builds, and runs. `python -m samples.tensor_dsl` is a program in the language.
"""

# Lines of this package are passed when a diagnostic looks for the line of the user's program.
__nvbackend_plumbing__ = True
