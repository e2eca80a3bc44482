# syntax=docker/dockerfile:1
# Spark with the data source and the jobs of the pipeline. Built from the top of the repository:
#   docker build -f docker/spark.Dockerfile -t lance-gateway-spark .
#   docker run --rm -it lance-gateway-spark pyspark
#   docker run --rm lance-gateway-spark lance-gateway pipeline merge --root s3://bucket/tables --master 'local[*]'

FROM python:3.12.12-slim-bookworm
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# Spark 4 needs Java 17 or 21; procps has the `ps` that its scripts call. Debian keeps one version of each to install.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s /usr/lib/jvm/java-17-openjdk-* /opt/java \
    && useradd --system --uid 10001 --user-group --create-home spark
WORKDIR /src
COPY . .
# Versions are those of pyproject.toml.
# hadolint ignore=DL3013
RUN pip install --root-user-action=ignore '.[spark]' && rm -rf /src/*
ENV JAVA_HOME=/opt/java \
    PYSPARK_PYTHON=/usr/local/bin/python
USER 10001:10001
WORKDIR /home/spark
CMD ["pyspark"]
