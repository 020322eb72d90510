"""The nouns: what the cluster stores of us, and what every word of it means.

One module for each kind (`profile`, `task`, `session`, `executor`) holds its spec and status as
frozen models; `conditions` and `reasons` say how a status speaks; `group` has every name that is
stored outside. `crd` turns the models into the definitions in `crds/`.

This room reads no clock, opens no socket and decides nothing. What agentctl says on the wire is
the business of `contract`, and the two do not know each other.
"""
