"""Tables of docs/performance.md that are measured on a GPU: a function for each, and a program that prints them."""
