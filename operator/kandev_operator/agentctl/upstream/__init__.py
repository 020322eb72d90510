"""A Kandev agentctl behind this one: the agent's process lives there, everything else here.

`runs.UpstreamRuns` takes the place of the process that is launched otherwise: it makes one `run`
for each execution, which carries out what the machine wants (`Launch`, `Open`, `SendPrompt`, …)
by calls to their API, and tells as events what came of it. Journal, queue, fencing, permissions
and tokens stay the engine's and the machine's. This is the only room of agentctl that opens
connections to others; `wire` translates and is pure. See README.md for what cannot be had.
"""
