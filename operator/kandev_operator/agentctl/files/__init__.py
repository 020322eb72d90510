"""Files of the workspace, served whatever the agent does: tree, content, search, watch.

Every path is resolved beneath the workspace (`agentctl.beneath`), name by name, so nothing that
happens meanwhile leads out of it. Blocking calls run in a small pool of threads (`agentctl.pool`).
What git ignores is asked of whoever is given (`ignoring`): this room does not know git.
"""
