"""tcgen05: the request, its rules, the selector, and the shapes that its instruction descriptor may name."""
