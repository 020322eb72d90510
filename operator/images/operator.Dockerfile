# The operator.
#
#   docker build -f operator/images/operator.Dockerfile -t operator .     (from the repository)
#
# BUILDER and BASE have the same Python 3.11; what is put on BASE needs nothing else of it. Without
# a network, name images that lie on this machine: `make images` makes them.
ARG BUILDER=docker.io/library/python:3.11.14-slim-bookworm
ARG BASE=docker.io/library/python:3.11.14-slim-bookworm

FROM ${BUILDER} AS build
COPY operator/images/operator.lock /build/
RUN python3 -m pip install --quiet --no-cache-dir --no-compile --require-hashes \
    --only-binary=:all: --target /build/site --requirement /build/operator.lock
COPY operator/kandev_operator /build/site/kandev_operator
COPY operator/images/compile_imported.py /build/
# agentctl has an image of its own. The Kubernetes library has its calls twice, and loads them when
# they are asked for; the operator is asynchronous, so the others go. What it imports is compiled,
# and nothing else: thousands of that library's modules are never loaded.
RUN rm -rf /build/site/bin /build/site/kandev_operator/agentctl /build/site/kubernetes/client/api && \
    PYTHONPATH=/build/site python3 -B /build/compile_imported.py kandev_operator.controller.app

FROM ${BASE}
COPY --from=build /build/site /opt/kandev
# Nothing is written below /opt, and the root file system may be read-only.
ENV PYTHONPATH=/opt/kandev PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# kopf asks for the name of the user, and a number in a container has none: not ours, nor the one
# that a platform may choose.
ENV USER=kandev-operator
USER 65532:65532
ENTRYPOINT ["python3", "-m", "kandev_operator.controller"]
CMD ["--help"]
