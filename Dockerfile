# The images of claimq: `docker build --target operator .`, and the same for `sidecar` and `web`.
# A release gives PYTHON_IMAGE with its digest (--build-arg PYTHON_IMAGE=python:3.13-slim@sha256:...).
ARG PYTHON_IMAGE=python:3.13-slim

# Tools, to build the wheels of this repository's components without anything that is not locked.
FROM ${PYTHON_IMAGE} AS tools
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /build
COPY requirements/build.txt requirements/
RUN python3 -m venv /build/tools \
    && /build/tools/bin/pip install --quiet --require-hashes --only-binary=:all: -r requirements/build.txt

# Dependencies have stages of their own: a change of the code does not install them again.
FROM tools AS sidecar-dependencies
COPY requirements/sidecar.txt requirements/
RUN python3 -m venv --without-pip /opt/claimq \
    && /build/tools/bin/pip --python /opt/claimq/bin/python install --quiet --require-hashes --only-binary=:all: \
       --no-compile -r requirements/sidecar.txt

FROM tools AS operator-dependencies
COPY requirements/operator.txt requirements/
# The Kubernetes client has thousands of models that the operator never loads: compiled they would fill 50 MB.
RUN python3 -m venv --without-pip /opt/claimq \
    && /build/tools/bin/pip --python /opt/claimq/bin/python install --quiet --require-hashes --only-binary=:all: \
       --no-compile -r requirements/operator.txt \
    && /opt/claimq/bin/python -m compileall -q -x 'kubernetes/(aio/)?client/(models|api)/' /opt/claimq/lib

FROM tools AS web-dependencies
COPY requirements/web.txt requirements/
RUN python3 -m venv --without-pip /opt/claimq \
    && /build/tools/bin/pip --python /opt/claimq/bin/python install --quiet --require-hashes --only-binary=:all: \
       --no-compile -r requirements/web.txt \
    && /opt/claimq/bin/python -m compileall -q -x 'kubernetes/(aio/)?client/(models|api)/' /opt/claimq/lib

FROM tools AS shared-wheels
COPY core core
COPY process process
RUN /build/tools/bin/pip wheel --quiet --no-build-isolation --no-deps --no-index --wheel-dir wheels ./core ./process

FROM shared-wheels AS cluster-wheels
COPY control control
COPY kubernetes_client kubernetes_client
RUN /build/tools/bin/pip wheel --quiet --no-build-isolation --no-deps --no-index --wheel-dir wheels ./control \
       ./kubernetes_client

FROM sidecar-dependencies AS build-sidecar
COPY --from=shared-wheels /build/wheels wheels
COPY worker_sidecar worker_sidecar
RUN /build/tools/bin/pip wheel --quiet --no-build-isolation --no-deps --no-index --wheel-dir wheels ./worker_sidecar \
    && /build/tools/bin/pip --python /opt/claimq/bin/python install --quiet --no-deps --no-index --no-compile wheels/*.whl \
    && /opt/claimq/bin/python -OO -m compileall -q /opt/claimq/lib

FROM operator-dependencies AS build-operator
COPY --from=cluster-wheels /build/wheels wheels
COPY operator operator
RUN /build/tools/bin/pip wheel --quiet --no-build-isolation --no-deps --no-index --wheel-dir wheels ./operator \
    && /build/tools/bin/pip --python /opt/claimq/bin/python install --quiet --no-deps --no-index wheels/*.whl

FROM web-dependencies AS build-web
COPY --from=cluster-wheels /build/wheels wheels
COPY admin admin
COPY web web
RUN /build/tools/bin/pip wheel --quiet --no-build-isolation --no-deps --no-index --wheel-dir wheels ./admin ./web \
    && /build/tools/bin/pip --python /opt/claimq/bin/python install --quiet --no-deps --no-index wheels/*.whl

# What all images share: an interpreter that can install nothing, a user without a name or a home.
# It has no byte code of the standard library, so each image compiles what its program imports: otherwise every start would.
FROM ${PYTHON_IMAGE} AS runtime
ARG PYTHON_IMAGE
ARG VERSION=0.1.0
ARG REVISION=unknown
RUN rm -rf /usr/local/bin/pip* /usr/bin/pip* /usr/local/lib/python3*/site-packages/pip* \
       /usr/local/lib/python3*/ensurepip /usr/lib/python3*/ensurepip /usr/lib/python3/dist-packages/pip* \
       /usr/lib/python3/dist-packages/setuptools* /usr/lib/python3/dist-packages/wheel* \
       /usr/share/python-wheels "$HOME/.cache"
# PYTHONSAFEPATH: nothing is imported from the working directory. USER: for programs that look up the user name, since the
# number has no entry in /etc/passwd.
ENV PATH=/opt/claimq/bin:/usr/local/bin:/usr/bin:/bin PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 HOME=/ USER=claimq
LABEL org.opencontainers.image.vendor="The claimq maintainers" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}"
WORKDIR /

FROM runtime AS sidecar
LABEL org.opencontainers.image.title="claimq-sidecar" \
      org.opencontainers.image.description="Hands items of a claimq queue to the app beside it over a Unix socket"
COPY --from=build-sidecar /opt/claimq /opt/claimq
RUN PYTHONDONTWRITEBYTECODE= python -OO -c 'import claimq_sidecar.app'
USER 65532:65532
# Without docstrings it needs 2 MB less.
ENTRYPOINT ["python", "-OO", "-m", "claimq_sidecar"]

FROM runtime AS operator
LABEL org.opencontainers.image.title="claimq-operator" \
      org.opencontainers.image.description="Runs ReliableQueues on Kubernetes, with workers that scale with the queue"
COPY --from=build-operator /opt/claimq /opt/claimq
RUN PYTHONDONTWRITEBYTECODE= python -c 'import claimq_operator.app'
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["python", "-m", "claimq_operator"]

FROM runtime AS web
LABEL org.opencontainers.image.title="claimq-web" \
      org.opencontainers.image.description="Shows the claimq queues of a cluster on a web page, and lets users act on them"
COPY --from=build-web /opt/claimq /opt/claimq
RUN PYTHONDONTWRITEBYTECODE= python -c 'import claimq_web.in_cluster'
USER 65532:65532
EXPOSE 7380
ENTRYPOINT ["python", "-m", "claimq_web"]
