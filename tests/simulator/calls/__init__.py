"""Instructions that touch the machine, in small PTX programs."""
