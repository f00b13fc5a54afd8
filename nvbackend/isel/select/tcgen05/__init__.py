"""tcgen05: the request, its rules, the selector, the rules on its words and on tensor memory."""
