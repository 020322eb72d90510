"""The sidecar: one agent's conversation, kept alive and served over contract v1.

`serve` is a process's life, `app` its HTTP face, `engine` its heart: the engine feeds `machine`
(the decisions, without I/O), keeps what it concludes in `journal`, and lets an `execution` carry
out what it wants with one agent process (`process`), through `bridge`, the only file that knows
the ACP library. `shell` has terminals for people, whatever the agent does. `owner` and `orphans`
see to it that there is one writer. It needs no Kubernetes, and no part of this house but the
contract.
"""
