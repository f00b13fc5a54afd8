"""What tensor cores compute in the simulator, against NumPy, fractions and formulas written a second time."""
