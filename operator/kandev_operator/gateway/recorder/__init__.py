"""Follows every session's agentctl, keeps what is said, and gives it to whoever reads."""
