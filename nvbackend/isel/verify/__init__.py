"""The verifier: every check of the machine form against the exact target."""
