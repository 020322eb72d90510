"""Git in the workspace, by the git executable, served whatever the agent does.

Every call finds its repository beneath the workspace (`repository`), with an environment made from
nothing (`environment`) and the repository's own programs switched off (`guard`). What git prints is
parsed as it comes (`statuses`, `diffs`, `history`), bounded; what it refuses is told in its own
words (`words`). Files are not known here, only their names.
"""
