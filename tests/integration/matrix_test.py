"""Each part of a job is struck by each fault in each phase, and one table says what must come of it.

Whole with deploy/test --long; else a sample. After each cell no host may have anything left of it.
"""

import os
from typing import NamedTuple

import pytest

from matrix import Launched, Served

LONG = os.environ.get("MUSTER_LONG") == "1"
BEFORE, BETWEEN, RUNNING, STOPPING = PHASES = ("before join", "between rounds", "running", "stopping")
FAULTS = ("kill -9", "freeze", "cut drop", "cut in", "cut rst", "disk full")
CUTS = ("cut drop", "cut in", "cut rst")


class Then(NamedTuple):
    """One of these `rounds`, (world, restarts counted), begins and runs to its end; none: no other one begins. launch ends
    with `code`. The fault lasts until then, or until what Scene.endure() knows."""

    rounds: tuple = ()
    until: str | None = None
    code: int = 0


STOPPED = Then(code=143)
GOES_ON = ((2, 0), (3, 0), (2, 1), (3, 1))  # how, a moment decides
# In a round that ends because a worker fails, what else befalls it costs no second restart.
WITHOUT_NODE1 = {BEFORE: Then(((2, 0),)), BETWEEN: Then(((2, 1),)), RUNNING: Then(((2, 0),)), STOPPING: STOPPED}
# One host alone is too few, and that costs a restart; once the others can be reached their agents are started again.
WITHOUT_LAUNCH = {
    BEFORE: Then(((2, 1), (3, 1)), "restart 1 of 1"), BETWEEN: Then(((2, 1), (3, 1)), "gone"),
    RUNNING: Then(((2, 1), (3, 1)), "restart 1 of 1"), STOPPING: STOPPED,
}  # fmt: skip
# Agents wait for it, and workers notice nothing.
WITHOUT_MASTER = {
    BEFORE: Then(((2, 0),), ""), BETWEEN: Then(((2, 1),), "gone"), RUNNING: Then((), "steps"), STOPPING: Then((), "gone", 143),
}  # fmt: skip
TABLE = {
    ("worker", "kill -9"): {BETWEEN: Then(((3, 1),)), RUNNING: Then(((3, 1),)), STOPPING: STOPPED},
    ("worker", "freeze"): {BETWEEN: Then(((3, 1),), ""), RUNNING: Then((), "steps"), STOPPING: Then((), "", 143)},
    ("agent", "kill -9"): {**WITHOUT_NODE1, BEFORE: Then(((3, 0),))},  # started again before the round begins
    ("agent", "freeze"): WITHOUT_NODE1,
    **{("node", fault): WITHOUT_NODE1 for fault in ("kill -9", "freeze", *CUTS)},
    **{("master", fault): WITHOUT_MASTER for fault in ("kill -9", "freeze", *CUTS)},
    ("master", "disk full"): {BEFORE: Then(((2, 0),)), BETWEEN: Then(((2, 1),)), RUNNING: Then((), "steps"), STOPPING: STOPPED},
    ("launch", "kill -9"): {phase: Then(code=137) for phase in PHASES},
    # Agents end their workers with their lease. Thawed in the 2 s that launch waits for longer, it has lost no node.
    ("launch", "freeze"): {
        BEFORE: Then(((2, 0), (3, 0)), ""), BETWEEN: Then(((2, 1), (3, 1)), "gone"),
        RUNNING: Then(GOES_ON, "gone"), STOPPING: Then((), "gone", 143),
    },
    ("launch", "cut drop"): WITHOUT_LAUNCH,
    ("launch", "cut in"): WITHOUT_LAUNCH,
    # node1 is gone before the last call is over, or lost from the round that then begins.
    ("launch", "cut rst"): {**WITHOUT_LAUNCH, BEFORE: Then(GOES_ON, "node1 is gone|restart 1 of 1")},
}  # fmt: skip
NO_SENSE = {
    **{("worker", cut): "its connections are its host's: see node" for cut in CUTS},
    **{("agent", cut): "its connections are its host's: see node" for cut in CUTS},
    **{(part, "disk full"): "only the master has a journal" for part in ("worker", "agent", "node", "launch")},
    ("worker", "kill -9", BEFORE): "there is none yet",
    ("worker", "freeze", BEFORE): "there is none yet",
}
SAMPLE = {
    ("worker", "kill -9", BETWEEN), ("agent", "kill -9", RUNNING), ("agent", "kill -9", STOPPING), ("node", "cut rst", RUNNING),
    ("master", "kill -9", BETWEEN), ("master", "freeze", RUNNING), ("master", "cut in", STOPPING), ("master", "disk full", BEFORE),
    ("launch", "kill -9", BEFORE), ("launch", "cut rst", RUNNING),
}  # fmt: skip
CELLS = [(*pair, phase) for pair, row in TABLE.items() for phase in row]


def test_every_cell_has_its_outcome_or_a_reason():
    cells = {(part, fault, phase) for part in ("worker", "agent", "node", "master", "launch") for fault in FAULTS for phase in PHASES}
    reasons = {cell for cell in cells if cell in NO_SENSE or cell[:2] in NO_SENSE}
    assert set(CELLS) | reasons == cells and not set(CELLS) & reasons
    assert set(CELLS) > SAMPLE


@pytest.fixture(params=[cell for cell in CELLS if LONG or cell in SAMPLE], ids=lambda cell: "-".join(cell).replace(" ", "_"))
def cell(request):
    return request.param


@pytest.fixture
def scene(cell, shells, scratch):
    made = (Served if cell[0] == "master" else Launched)(shells, scratch)
    yield made
    made.close()


def test_cell(scene, cell):
    part, fault, phase = cell
    then = TABLE[part, fault][phase]
    scene.reach(phase)
    before = scene.rounds()
    scene.strike(part, fault)
    scene.go_on(phase)
    if then.until is not None:
        scene.endure(then.until)
        scene.heal(part, fault)
    if then.rounds:
        scene.one_runs(then.rounds)
        if part == "node" and fault in ("cut drop", "cut in"):
            assert not scene.workers(1)  # a rank has one process: theirs ended with the lease, before it passed on
    if then.code == 0:
        scene.let("go")
    ends = scene.finish()
    if then.until is None:
        scene.heal(part, fault)
    assert [end.code for end in ends] == [then.code] * len(ends), ends
    assert then.rounds or scene.rounds() == before, ends
    assert max((restarts for _, restarts in scene.rounds()), default=0) <= max((restarts for _, restarts in then.rounds), default=0), ends
    if fault == "disk full" and then.rounds:  # else nothing has to be written any more
        assert scene.cannot_survive() == 1
