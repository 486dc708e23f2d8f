"""Space generators: the schedules of a program whose draws are open."""

from __future__ import annotations

from mlcnb.meta_schedule.part import found
from mlcnb.meta_schedule.space_generator.generator import PySpaceGenerator, SpaceGenerator

__all__ = ["PySpaceGenerator", "SpaceGenerator"]
__getattr__ = found(globals())
