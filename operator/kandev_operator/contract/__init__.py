"""What agentctl promises to its callers: contract v1.

Paths, bodies, events, error codes and the claims of a caller's token, as plain Pydantic models.
Everything here is data: no socket, no clock, no file. Both ends import this room and nobody else
speaks the wire. Field names are snake_case on the wire and in Python, so one grep finds both.

Compatibility within v1: a field may be added (readers ignore what they do not know), never
renamed, retyped or removed; an absent field means "not known", which is neither yes nor no.
"""
