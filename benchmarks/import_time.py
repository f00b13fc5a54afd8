"""How long `import nvbackend` takes: the best of several fresh processes, less an empty one's time."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

TARGET_S = 0.15


def seconds(code: str, repeats: int) -> float:
    """The least wall-clock time of a Python process that runs `code`."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print the import's time, and the times of first uses that load more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    repeats = parser.parse_args().repeats
    empty = seconds("pass", repeats)
    for code in (
        "import nvbackend",
        "import nvbackend; nvbackend.Target.parse('sm_90a')",
        "import nvbackend; nvbackend.KernelBuilder",
    ):
        print(f"{(seconds(code, repeats) - empty) * 1e3:7.1f} ms   {code}")
    print(f"wanted: under {TARGET_S * 1e3:.0f} ms for the first")


if __name__ == "__main__":
    main()
