"""The parameters with which a kernel is run: small ones that let each loop make enough rounds."""
