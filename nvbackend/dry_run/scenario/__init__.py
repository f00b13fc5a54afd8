"""With which numbers a kernel is run: parameters that let each loop make few rounds, and enough of them."""
