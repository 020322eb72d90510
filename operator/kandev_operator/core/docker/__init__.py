"""Executors that are containers of a Docker engine: what is to be done about them, and why.

Pure, like all of `core`. A container stands where a pod stands in `core.pods`, with the same paths
inside (`core.pods.layout`), and comes back by the same rules (`core.comeback`). The engine is on
the operator's own machine; that it does not answer says nothing about what runs on it.
"""
