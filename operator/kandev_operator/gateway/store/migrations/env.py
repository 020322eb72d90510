"""Run by Alembic for each upgrade: on the connection, and in the transaction, that it is given."""

from alembic import context

from kandev_operator.gateway.store.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transactional_ddl=True,
)
context.run_migrations()
