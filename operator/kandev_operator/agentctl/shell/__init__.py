"""Shells in the workspace: real terminals for people, whatever the agent does.

`shells` has them all, by name; a `terminal` is one of them: a process on a pty (`process`), its
scroll-back (`ring`), and who looks at it (`viewers`). `socket` carries one viewer's WebSocket, in
frames that `frames` reads and writes; `routes` is the HTTP face, behind the door that `room` is.
`environment` says what a shell may see. `ring`, `viewers`, `frames` and `environment` decide
without I/O.

What is typed and shown here is nobody's record: it goes into no journal, no event, no log. When a
shell is over, its scroll-back goes with it.
"""
