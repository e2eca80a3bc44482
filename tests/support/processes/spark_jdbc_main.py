"""Reads tables over Spark's JDBC source; a program of its own, since the JVM needs options of its own.

    python -m tests.support.processes.spark_jdbc_main JAR URL

Prints one line of JSON.
"""

import json
import os
import sys

from pyspark.sql import SparkSession

DRIVER = "org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver"


def main(jar: str, url: str) -> None:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.extraClassPath": jar,
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC --add-opens=java.base/java.nio=ALL-UNNAMED",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    reader = spark.read.format("jdbc").option("driver", DRIVER).option("url", url)
    plain = spark.read.format("jdbc").option("driver", DRIVER).option("url", url)
    bounds = {"partitionColumn": "id", "lowerBound": "0", "upperBound": "1000", "numPartitions": "4"}
    # The driver calls all numbers unsigned: without this, Spark takes BIGINT for decimal(20, 0).
    orders = reader.options(**bounds, dbtable="orders", customSchema="id BIGINT").load()
    late = orders.where("id >= 990 AND customer = 'customer 3'")
    told: dict[str, object] = {
        "schema": orders.schema.simpleString(),
        "partitions": orders.rdd.getNumPartitions(),
        "count": orders.count(),
        "late": sorted(row.id for row in late.collect()),
        "typed": [
            {name: str(value) for name, value in row.asDict().items()}
            for row in plain.option("dbtable", "typed").load().orderBy("id").collect()
        ],
    }
    spark.stop()
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
