"""What this target may use: subtargets, the selector, the machine form, the verifier and the protocol analyses."""
