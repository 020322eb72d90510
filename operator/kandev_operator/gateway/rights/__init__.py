"""Who asks, and what they may do: the cluster's answers, kept for some seconds."""
