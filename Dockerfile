# The base must be a Python 3.11 or newer on glibc: the locked wheels are built for it.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
RUN python3 -m venv /opt/loader
WORKDIR /build
# Dependencies in a layer of their own: it changes only with the lock.
COPY requirements.txt ./
RUN /opt/loader/bin/pip install --require-hashes --only-binary :all: -r requirements.txt
COPY . .
# setuptools is in the lock, so nothing is fetched to build with.
RUN /opt/loader/bin/pip install --no-deps --no-build-isolation . \
    && /opt/loader/bin/python -m compileall -q /opt/loader/lib \
    && /opt/loader/bin/pip uninstall --yes --quiet pip

FROM ${BASE}
# Everything is compiled already, so the root file system may be read-only with a tmpfs at /tmp.
ENV PATH=/opt/loader/bin:${PATH} \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp
COPY --from=build /opt/loader /opt/loader
WORKDIR /tmp
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
EXPOSE 8080
# Health is the main loop's tick: an outage of Pub/Sub or the database must not restart the container.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-m", "loader.healthcheck"]
ENTRYPOINT ["loader"]
CMD ["run"]
