#!/usr/bin/env python3
"""What leads a rank into the next round."""

import unittest

import numpy
from case import F32, I64, Case

import muster


class RoundsTest(Case):
    def test_a_first_round_has_nothing_behind_it(self):
        self.assertEqual(self.comm.agreed, muster.Agreed(0, 0, None, None, 0))
        self.assertIs(self.comm.is_replacement, False)
        self.assertEqual(self.comm.last_call(), 9)

    def test_reform_gives_the_next_communicator_and_closes_this_one(self):
        next_one = self.comm.reform()
        self.assertEqual(next_one.agreed, muster.Agreed(5, 6, 3, 4, 2))
        self.assertEqual(self.fake.freed, [77])
        self.refused(muster.FailedPrecondition, self.comm.reform, "reform", "closed")
        next_one.barrier()
        self.assertEqual(self.fake.calls, [("reform",), ("barrier",)])

    def test_a_reform_that_failed_may_be_called_again(self):
        self.fake.answer, self.fake.text = 4, b"reform: too late"
        with self.assertRaisesRegex(muster.DeadlineExceeded, "too late"):
            self.comm.reform()
        self.assertEqual(self.fake.freed, [])
        self.fake.answer = 0
        self.assertEqual(self.comm.reform().agreed.holder, 2)

    def test_steps_that_are_committed_count_from_0(self):
        self.comm.commit(numpy.int64(0))
        self.assertEqual(self.fake.calls, [("commit", 0)])
        self.refused(ValueError, lambda: self.comm.commit(-1), "step", "-1")
        self.refused(TypeError, lambda: self.comm.commit(1.5), "float")

    def test_state_is_one_call(self):
        weights, step = numpy.zeros((2, 3), "float32"), numpy.zeros(1, "int64")
        self.comm.broadcast_state(weights, step)
        self.assertEqual(self.fake.calls, [("broadcast_state", [6, 1], [F32, I64], 2)])
        self.assertNotEqual(weights[0, 0], 0)
        self.refused(TypeError, self.comm.broadcast_state, "at least one")
        step.flags.writeable = False
        self.refused(ValueError, lambda: self.comm.broadcast_state(weights, step), "state[1]", "read-only")
        self.refused(TypeError, lambda: self.comm.broadcast_state([1]), "state[0]", "list")


if __name__ == "__main__":
    unittest.main()
