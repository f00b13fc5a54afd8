"""Every scalar and packed operation of the builder against NumPy: special values and a million random ones each."""
