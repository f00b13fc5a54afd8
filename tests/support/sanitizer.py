"""Where compute-sanitizer is."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path


def sanitizer() -> Path | None:
    """The program of the toolkit, or of the wheel nvidia-cuda-sanitizer-api; COMPUTE_SANITIZER names another."""
    wheels = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    there = shutil.which("compute-sanitizer", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
    places = [os.environ.get("COMPUTE_SANITIZER"), there, *wheels.glob("*/compute-sanitizer/compute-sanitizer")]
    return next((Path(place) for place in places if place and Path(place).is_file()), None)
