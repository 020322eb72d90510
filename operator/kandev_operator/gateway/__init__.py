"""The window: it watches status, relays to agentctl, keeps conversations, and never decides."""
