"""Tries any agentctl against contract v1: `python -m kandev_operator.conformance URL`.

It knows the contract and nothing of our own agentctl: every check is a sentence that a caller may
rely on, and says what it saw. It brings its own HTTP client, signs its own tokens, and has its own
small agent run on the target. It uses a session of its own and refuses a target that serves
somebody else's.
"""
