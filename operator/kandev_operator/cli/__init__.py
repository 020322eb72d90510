"""`kubectl kandev`: what a person asks of a session, from a terminal.

It reads the cluster's objects, writes the two wishes (annotations), and talks to a session's
agentctl with a short-lived token that it signs itself. It decides nothing: what a session may do
is said by its status, and only put into words here.
"""
