"""Random whole kernels, written through the public calls of the builder: `python -m tests.support.random_kernels 17`.

What a seed writes depends on the seed and on what the builder answers, on nothing else.
"""
