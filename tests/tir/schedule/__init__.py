"""Tests of schedules: the whole program after each step, its numbers, and its refusals."""
