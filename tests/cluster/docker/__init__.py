"""A Docker engine of a test run's own: private, and gone with it."""

from cluster.docker.engine import Engine

__all__ = ["Engine"]
