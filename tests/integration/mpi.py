"""What workers/mpi.c prints."""

import re


def told(result):
    """{rank: (size, ranks on its node, app)}; what all of them computed is right."""
    rows = re.findall(r"rank (\d+) of (\d+) here (\d+) ring (\d+) sum (\d+) app (-?\d+)", result.text)
    for row in rows:
        size = int(row[1])
        assert int(row[3]) == int(row[4]) == size * (size - 1) // 2, result
    out = {int(row[0]): (int(row[1]), int(row[2]), int(row[5])) for row in rows}
    assert len(out) == len(rows), result
    return out
