"""The decisions: what was observed, and the time, become a plan.

Every function here is pure. Nothing in this room reads a clock, opens a socket, throws dice or
knows the wire; `controller` observes for it and acts for it. Where to look:

- `session`: the ordered rules for a TaskSession; `ladder`: the questions of resuming, in order
- `executor`: the ordered rules for an Executor; `probes`: what an answer or its absence means
- `task`: a Task's summary; `failures`: what each failure of an agent means for its session
- `status`: how a verdict becomes the whole of a session's status; `backoff`, `lifecycle`: time
"""
