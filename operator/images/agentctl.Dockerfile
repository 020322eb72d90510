# agentctl as one self-contained folder, and an image of nothing else.
#
#   docker build -f operator/images/agentctl.Dockerfile -t agentctl .     (from the repository)
#
# BUILDER is any Debian or Ubuntu with Python 3.11, pip and, to save a download, objdump. Without a
# network, name one that has the wheels and says so: `make images` makes such a one.
ARG BUILDER=docker.io/library/python:3.11.14-slim-bookworm

FROM ${BUILDER} AS freeze
RUN command -v objdump >/dev/null || \
    { apt-get update && apt-get install --yes --no-install-recommends binutils; }
COPY operator/images/agentctl.lock /build/
# The lock has a hash for each file, so what is fetched is what was looked at.
RUN python3 -m pip install --quiet --no-cache-dir --no-compile --require-hashes \
    --only-binary=:all: --target /build/site --requirement /build/agentctl.lock
COPY operator/images/agentctl.spec operator/images/start_agentctl.py /build/
COPY operator/kandev_operator/__init__.py /build/source/kandev_operator/
COPY operator/kandev_operator/agentctl /build/source/kandev_operator/agentctl
COPY operator/kandev_operator/contract /build/source/kandev_operator/contract
RUN PYTHONPATH=/build/site python3 -m PyInstaller --log-level WARN \
    --distpath /build/dist --workpath /build/work /build/agentctl.spec

# From scratch: the folder has its own C library, so there is no base to keep up to date.
FROM scratch
COPY --from=freeze /build/dist/agentctl /kandev/agentctl
USER 65532:65532
ENTRYPOINT ["/kandev/agentctl/_internal/ld-linux.so.2", "--library-path", "/kandev/agentctl/_internal", "/kandev/agentctl/kandev-agentctl"]
CMD ["--help"]
