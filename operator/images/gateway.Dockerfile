# The gateway, with its page.
#
#   make web                                                              (the page, from its sources)
#   docker build -f operator/images/gateway.Dockerfile -t gateway .       (from the repository)
#
# BUILDER and BASE have the same Python 3.11; what is put on BASE needs nothing else of it. Without
# a network, name images that lie on this machine: `make images` makes them. The page is copied and
# not built here, so no Node is needed.
ARG BUILDER=docker.io/library/python:3.11.14-slim-bookworm
ARG BASE=docker.io/library/python:3.11.14-slim-bookworm

FROM ${BUILDER} AS build
COPY operator/images/gateway.lock /build/
RUN python3 -m pip install --quiet --no-cache-dir --no-compile --require-hashes \
    --only-binary=:all: --target /build/site --requirement /build/gateway.lock
COPY operator/kandev_operator/__init__.py /build/site/kandev_operator/
COPY operator/kandev_operator/api /build/site/kandev_operator/api
COPY operator/kandev_operator/contract /build/site/kandev_operator/contract
COPY operator/kandev_operator/clients /build/site/kandev_operator/clients
COPY operator/kandev_operator/gateway /build/site/kandev_operator/gateway
COPY operator/images/compile_imported.py /build/
# An image without its page would serve programs alone, and nobody would be told why.
RUN test -f /build/site/kandev_operator/gateway/pages/static/manifest.json || \
    { echo "the page is not built: run make web" >&2; exit 1; }
# The Kubernetes library has its calls twice; the gateway is asynchronous. What it imports is
# compiled, with what it chooses only when it runs: its databases' drivers, and the web server's parts.
RUN rm -rf /build/site/bin /build/site/kubernetes/client/api && \
    PYTHONPATH=/build/site python3 -B /build/compile_imported.py kandev_operator.gateway.__main__ \
    sqlalchemy.dialects.sqlite.aiosqlite sqlalchemy.dialects.postgresql.asyncpg aiosqlite asyncpg \
    alembic.command uvicorn.loops.auto uvicorn.lifespan.off uvicorn.protocols.http.auto \
    uvicorn.protocols.websockets.auto
# greenlet, which the databases' drivers need, is C++; a base with Python alone lacks its library.
RUN mkdir /build/lib && cp -L /usr/lib/*-linux-gnu/libstdc++.so.6 /usr/lib/*-linux-gnu/libgcc_s.so.1 /build/lib/

FROM ${BASE}
COPY --from=build /build/site /opt/kandev
COPY --from=build /build/lib /opt/lib
# Nothing is written below /opt, and the root file system may be read-only; the database's folder is
# a volume. A number in a container has no home, and some libraries ask for one.
ENV PYTHONPATH=/opt/kandev PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp \
    LD_LIBRARY_PATH=/opt/lib
# What this base still lacks shows here, and not in a cluster.
RUN ["python3", "-c", "import kandev_operator.gateway.process, greenlet, asyncpg, aiosqlite"]
USER 65532:65532
ENTRYPOINT ["python3", "-m", "kandev_operator.gateway"]
CMD ["--help"]
