"""examples/ddp.py with a wait behind each checkpoint, so that nodes can come and go between two of them."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))
import ddp  # noqa: E402

EPOCH_SECONDS = 0.25


def save_and_wait(*args, save=ddp.save):
    save(*args)
    time.sleep(EPOCH_SECONDS)


ddp.save = save_and_wait
sys.exit(ddp.main())
