# syntax=docker/dockerfile:1
# Spark with the data source and the jobs of the pipeline. Built from the top of the repository:
#   docker build -f docker/spark.Dockerfile -t lance-gateway-spark .
#   docker run --rm -it lance-gateway-spark
#   docker run --rm lance-gateway-spark lance-gateway pipeline merge --root s3://bucket/tables --master 'local[*]'
# To pin the base as your registry has it: --build-arg BASE=python:3.12.12-slim-bookworm@sha256:...
ARG BASE=python:3.12.12-slim-bookworm

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/lance-gateway
WORKDIR /src
# As in the gateway's image; Spark itself comes as source, which is Python and jars.
COPY docker/spark-requirements.lock .
RUN /opt/lance-gateway/bin/pip install --require-hashes --only-binary=:all: --no-binary=pybloom-live,pyspark \
    -r spark-requirements.lock
COPY . .
RUN /opt/lance-gateway/bin/pip install --no-deps . \
    && /opt/lance-gateway/bin/pip uninstall --yes pip

FROM ${BASE}
# Spark 4 needs Java 17 or 21; procps has the `ps` that its scripts call. Debian keeps one version of each to install.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s /usr/lib/jvm/java-17-openjdk-* /opt/java \
    && useradd --system --uid 10001 --user-group --create-home spark
COPY --from=build /opt/lance-gateway /opt/lance-gateway
ENV PATH=/opt/lance-gateway/bin:$PATH \
    JAVA_HOME=/opt/java \
    PYSPARK_PYTHON=/opt/lance-gateway/bin/python
USER 10001:10001
WORKDIR /home/spark
CMD ["pyspark"]
