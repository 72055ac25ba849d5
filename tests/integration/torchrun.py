#!/usr/bin/python3
"""torchrun that works on Debian 12, for comparisons: torch 1.13 under Python 3.11 cannot parse its own defaults of
--redirects and --tee, because iterating an enum.Flag no longer yields zero and composite members."""

from torch.distributed import run
from torch.distributed.elastic.multiprocessing import Std


def std_from_text(text):
    if text.isdigit():
        return Std(int(text))
    return {int(rank): Std(int(value)) for rank, value in (part.split(":") for part in text.split(","))}


if __name__ == "__main__":
    Std.from_str = staticmethod(std_from_text)
    run.main()
