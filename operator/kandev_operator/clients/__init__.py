"""The hands outward: the only room that opens sockets, or starts processes, to others.

    kube            the API server, as plain dictionaries (kube_transport, kube_answers below it)
    credentials     where the API server is and who we are there
    resources       which kinds there are, and their paths
    agentctl        one agentctl, by the contract (agentctl_answers, sse below it)
    tokens          signing keys, the tokens signed with them, and the keys agentctl checks by
    signing         the signing key's Secret and its public half's ConfigMap
    local           agentctl on this machine (processes below it)
    errors          everything that can go wrong out there, as a tree of types

Nothing is decided here. A call is sent once, in bounded time, and its failure says what it means;
whether to ask again is the caller's question.
"""
