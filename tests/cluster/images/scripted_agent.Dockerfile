# The scripted agent, for whoever has a Docker engine; its context is tests/fakes.
ARG BASE=docker.io/library/python:3.11.14-slim-bookworm
FROM ${BASE}
COPY acp_agent.py /opt/fakes/
COPY scripted /opt/fakes/scripted
