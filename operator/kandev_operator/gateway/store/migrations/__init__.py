"""How the database's schema came to be, step by step; run by `database.migrate`, with Alembic."""
