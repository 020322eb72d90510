"""A browser for tests: where it comes from, and what is looked at with it."""
