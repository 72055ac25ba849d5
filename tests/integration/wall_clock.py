"""A wall clock of one's own for the processes of a test, which may be off and may jump."""

import subprocess
from pathlib import Path

DAY, HOUR = 24 * 3600, 3600


class WallClock:
    """`env`: of the processes that go by it."""

    def __init__(self, folder, name="clock", ahead=0):
        self.file, library = folder / f"{name}.ahead", folder / "clock_off.so"
        if not library.exists():
            subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, Path(__file__).parent / "workers/clock_off.c"], check=True)
        self.jump(ahead)
        self.env = {"LD_PRELOAD": str(library), "CLOCK_OFF": str(self.file)}

    def jump(self, ahead):
        """To so many seconds ahead of the machine's."""
        part = self.file.with_suffix(".part")
        part.write_text(str(ahead))
        part.rename(self.file)
