"""The pages that people open: rendered here with their data, then live in the browser."""
