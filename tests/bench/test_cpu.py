"""Processor time is read of the living only, and grows with what is computed."""

import math
import os

from bench.cpu import cpu_s


def test_it_grows_with_what_is_computed():
    before = cpu_s([os.getpid()])
    while cpu_s([os.getpid()]) == before:
        sum(range(10_000))
    assert cpu_s([os.getpid()]) > before > 0.0


def test_of_a_process_that_is_gone_nothing_is_told():
    assert math.isnan(cpu_s([2**22 + 1]))  # above the largest process id there is
