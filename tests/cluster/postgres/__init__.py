"""A PostgreSQL server of the run's own, from the distribution's package, on a private socket."""

from cluster.postgres.server import PostgresServer

__all__ = ["PostgresServer"]
