"""What was said, kept in a database for as long as retention says. See README.md beside this."""
