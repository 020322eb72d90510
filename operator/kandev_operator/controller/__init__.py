"""The operator process: it joins what is seen, what is decided and what is done.

One pass, top-down: `watch` (kopf) and `sweep` (lists) fill `cache`; `routes` say which keys a
change concerns; `queue` hands keys to workers; `reconcile` observes (`observe`, with the answers
that `prober` keeps), asks `core` for a plan, has it done (`act`) and writes status once. `lease`
says whether this process may act at all; `app` owns every task.
"""
