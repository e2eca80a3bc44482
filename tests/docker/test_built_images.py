"""The images are built and started: a gateway serves from one, and Spark merges and reads in the other."""

import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docker.images import Container, Images, require_buildah, stop
from tests.support.processes.ports import find_free_port
from tests.support.processes.servers import fetch, open_connection

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

USER = 10001
"""Of both images."""
ROWS = [{"id": 1, "note": "a"}, {"id": 2, "note": "b"}, {"id": 3, "note": "c"}]
COUNTING = """
from lance_gateway.pipeline.source import register
register(spark)
rows = spark.read.format("lance_gateway").options(url="{uri}", table="orders").load()
print("Spark", "reads", sorted((row.id, row.note) for row in rows.collect()))
exit()
"""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    require_buildah()
    images = Images(tmp_path_factory.mktemp("images"))
    images.make_base()
    try:
        yield images
    finally:
        images.remove()


@pytest.fixture(scope="module")
def gateway_image(images: Images) -> str:
    return images.build("Dockerfile", "lance-gateway")


@pytest.fixture(scope="module")
def spark_image(images: Images) -> str:
    return images.build("spark.Dockerfile", "lance-gateway-spark")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A root that the user of the images may write."""
    root = tmp_path / "data"
    root.mkdir()
    os.chown(root, USER, USER)
    return root


@contextmanager
def serving(images: Images, image: str, root: Path) -> Iterator[tuple[Container, str]]:
    """A gateway in a container; the container and the gateway's address."""
    port = find_free_port()
    variables = {
        "LANCE_GATEWAY_AUTH__INSECURE": "true",
        "LANCE_GATEWAY_SERVER__PORT": str(port),
        "LANCE_GATEWAY_OBSERVABILITY__HTTP_PORT": str(find_free_port()),
    }
    with (
        images.container(image, root, variables) as container,
        container.started(stdout=subprocess.PIPE) as process,
    ):
        assert process.stdout is not None
        assert f"serves /data at grpc://0.0.0.0:{port}" in process.stdout.readline()
        yield container, f"grpc://127.0.0.1:{port}"
        stop(process)


def write_orders(uri: str) -> None:
    with open_connection(uri) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, note TEXT)")
        cursor.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (3, 'c')")


def read_orders(uri: str) -> list[dict[str, object]]:
    with open_connection(uri) as connection:
        rows: list[dict[str, object]] = fetch(connection, "SELECT * FROM orders ORDER BY id").to_pylist()
    return rows


def type_into(container: Container, text: str) -> str:
    """Type lines into the shell that the container runs by itself, and return all that its terminal shows."""
    ours, theirs = pty.openpty()
    shown, is_typed = b"", False
    try:
        with container.started(stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            while piece := _read_terminal(ours):
                shown += piece
                if not is_typed and b">>> " in shown:
                    os.write(ours, text.encode())
                    is_typed = True
            process.wait()
    finally:
        os.close(ours)
    return shown.decode()


def _read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end is closed
        return b""


def test_the_image_of_the_gateway_serves_what_it_has_written(
    images: Images, gateway_image: str, data: Path
) -> None:
    with serving(images, gateway_image, data) as (container, uri):
        container.run("lance-gateway", "health")
        write_orders(uri)
        assert read_orders(uri) == ROWS
    assert {path.stat().st_uid for path in data.rglob("*")} == {USER}
    with serving(images, gateway_image, data) as (_, uri):
        assert read_orders(uri) == ROWS


def test_the_image_of_spark_merges_and_its_shell_reads_what_a_gateway_serves(
    images: Images, gateway_image: str, spark_image: str, data: Path
) -> None:
    with serving(images, gateway_image, data) as (_, uri):
        write_orders(uri)
    # An engine enters the name of a container in its /etc/hosts, and Spark finds its address by it.
    with images.container(spark_image, data, {"SPARK_LOCAL_IP": "127.0.0.1"}) as spark:
        merging = ("lance-gateway", "pipeline", "merge", "--root", "/data", "--master", "local[2]")
        assert "orders: 3 rows upserted, 0 deleted: 1 generation of 1 region in 1 commit" in spark.run(
            *merging
        )
        with serving(images, gateway_image, data) as (_, uri):
            shown = type_into(spark, COUNTING.format(uri=uri))
        assert "Spark reads [(1, 'a'), (2, 'b'), (3, 'c')]" in shown, shown
