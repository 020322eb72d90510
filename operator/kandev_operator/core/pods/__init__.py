"""Executors that are pods: what is asked of the cluster, and what its answers mean.

`layout` says where things lie in a pod, `desired` and `overlay` what the pod is, `claim` what the
workspace is, `diagnosis` what is wrong with a pod, `death` when its agent is surely gone, and
`life` what follows. How a pod is read stands in `podseen`. Like the rest of `core` it is pure;
the hands are in `controller.pods`.
"""
