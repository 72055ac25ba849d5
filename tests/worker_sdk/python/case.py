"""What tests of the package have in common: a communicator of rank 1 of 4, over a library that only notes."""

import unittest

from fake_library import FakeLibrary

import muster

F32, F64, U8, I64 = 10, 11, 4, 3


class Case(unittest.TestCase):
    def setUp(self):
        self.fake = FakeLibrary()
        self.comm = muster.Communicator(self.fake)

    def refused(self, kind, call, *words):
        """`call` raises `kind` with all the words, and nothing is sent."""
        before = list(self.fake.calls)
        with self.assertRaises(kind) as caught:
            call()
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertEqual(self.fake.calls, before)
