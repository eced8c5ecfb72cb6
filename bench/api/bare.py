"""The peer: a bare aiohttp handler that parses the same heartbeats and answers the same records.

`python -m bench.api.bare PORT`. No routing by namespace, no leader, no lease, no replication: what
is left is what aiohttp and the parsing cost. Ends when its stdin does.
"""

import asyncio
import sys

import msgspec
import uvloop
from aiohttp import web

from bench.api.driver import JSON, MSGPACK
from coordinator.api.records import HeartbeatAnswer, HeartbeatRequest, OwnerAnswer

PATH = "/v1/namespaces/{ns}"


def make_app() -> web.Application:
    decode = msgspec.json.Decoder(HeartbeatRequest).decode
    unpack = msgspec.msgpack.Decoder(HeartbeatRequest).decode
    encode = msgspec.json.Encoder().encode
    pack = msgspec.msgpack.Encoder().encode
    headers = {"Content-Type": JSON}
    owners: dict[str, str] = {}

    async def heartbeat(request: web.Request) -> web.Response:
        is_msgpack = request.headers["Content-Type"] == MSGPACK
        report = (unpack if is_msgpack else decode)(await request.read())
        for key in report.shards or ():
            owners[key] = report.incarnation
        answer = HeartbeatAnswer(
            lease_ttl_s=10.0, heartbeat_interval_s=2.0, status="active", cursor="bare:1", term=1
        )
        if is_msgpack:
            return web.Response(body=pack(answer), headers={"Content-Type": MSGPACK})
        return web.Response(body=encode(answer), headers=headers)

    async def owner(request: web.Request) -> web.Response:
        key = request.match_info["key"]
        answer = OwnerAnswer(
            namespace=request.match_info["ns"],
            key=key,
            executor=owners.get(key, "nobody"),
            address="",
            host="",
            epoch=1,
            state="owned",
            next=None,
            cursor="bare:1",
        )
        return web.Response(body=encode(answer), headers=headers)

    app = web.Application(client_max_size=16 << 20)
    app.router.add_post(PATH + "/executors/{executor}/heartbeat", heartbeat)
    app.router.add_get(PATH + "/shards/{key}/owner", owner)
    return app


async def serve(port: int) -> None:
    runner = web.AppRunner(make_app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
