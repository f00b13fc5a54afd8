"""wgmma: its fences, groups and waits, and the registers and tiles that are in use until then."""
