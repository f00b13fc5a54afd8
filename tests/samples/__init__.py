"""The sample programs."""
