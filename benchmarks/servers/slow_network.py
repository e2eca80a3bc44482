"""A network with latency in front of a server on this machine.

`python -m benchmarks.servers.slow_network PORT MILLISECONDS` prints its URL and serves until terminated. Each
byte arrives half of that time after it was sent, in both directions; bandwidth is not limited.
"""

import asyncio
import sys


async def _delay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Forward bytes after a delay."""
    loop, sent = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes]]()

    async def deliver() -> None:
        while True:
            due, data = await sent.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()

    delivering = asyncio.create_task(deliver())
    data = b"."
    while data:
        try:
            data = await reader.read(1 << 18)
        except ConnectionError:
            data = b""
        sent.put_nowait((loop.time() + seconds, data))
    await asyncio.gather(delivering, return_exceptions=True)


async def serve(target: int, milliseconds: float) -> None:
    """Print the URL, and serve until cancelled.

    Args:
        target: Port of the server behind.
        milliseconds: Of a round trip.
    """
    seconds = milliseconds / 2e3

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, ahead = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(_delay(reader, ahead, seconds), _delay(behind, writer, seconds))

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
