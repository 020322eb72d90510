# The scripted agent for images without Python: frozen, as a coding agent's own binary would be.
ARG BUILDER
ARG BASE
FROM ${BUILDER} AS freeze
COPY operator/images/agentctl.lock /build/
RUN python3 -m pip install --quiet --no-cache-dir --no-compile --require-hashes \
    --only-binary=:all: --target /build/site --requirement /build/agentctl.lock
COPY tests/fakes /build/source/fakes
RUN cd /build && PYTHONPATH=/build/site:/build/source python3 -m PyInstaller --log-level WARN \
    --onedir --name acp-agent --strip --collect-submodules fakes.scripted \
    --distpath /build/dist --workpath /build/work source/fakes/acp_agent.py

FROM ${BASE}
COPY --from=freeze /build/dist/acp-agent /opt/acp-agent
