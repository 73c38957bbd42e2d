"""Run a program that ends when standard input does, that is, with the process that started it.

``python die_with_parent.py COMMAND…``; it imports nothing of the package, so it starts at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

_TIMEOUT = 3.0  # seconds to end on SIGTERM before it is killed


def main(command: list[str]) -> int:
    """Run the command; return its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def end() -> None:
        while os.read(0, 1024):
            pass
        process.terminate()
        try:
            process.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()

    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    threading.Thread(target=end, daemon=True).start()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) & 0xFF)
