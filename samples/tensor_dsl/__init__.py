"""A tensor language of its own on nvbackend: a product, an epilogue and sums, for three generations of tensor cores.

For authors of compilers, in the order of reading: `language` has the expressions, each with the line that it was
written in; `epilogue` emits what is computed of a product, for any target; `products` has a way to multiply for each
target; `kernel` puts them together, builds, and runs. `python -m samples.tensor_dsl` is a program in the language.
"""

# Lines of this package are passed when a diagnostic looks for the line of the user's program.
__nvbackend_plumbing__ = True
