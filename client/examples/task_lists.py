"""Lists of tasks that workers wait for, as in a workflow engine: each list is owned by one process.

    python -m client.examples.task_lists --name a --port 8001 --folder /var/tmp
    curl -X POST http://127.0.0.1:8001/lists/mail -d 'send this'
    curl http://127.0.0.1:8001/lists/mail

Adding a task to a list and waiting for one meet in the memory of its owner, wherever they are
asked; the store is only read when a list moves. It is shared (here a file of SQLite), and fenced:
a former owner that wakes up late can hand out nothing that its successor may hand out, too.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Final

from aiohttp import web

from client import Executor, FencedOut, Operator, Router, Shard
from client.examples.front import Arguments, Front, main, serving, until_signalled
from client.fencing import SqlFence

NAMESPACE: Final = "lists"
WAIT_S: Final = 20.0
"""A worker that waits is answered with nothing after this, and asks again."""
TASKS_MAX: Final = 10_000
"""In one list; more is a sign that nobody works."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS tasks (number INTEGER PRIMARY KEY, list TEXT, task TEXT);
CREATE INDEX IF NOT EXISTS tasks_of_list ON tasks (list, number);
"""


class Store:
    """Tasks on disk. Each call is one transaction, which no former owner of the list gets through.

    They are as short as a write of SQLite is; a store across a network belongs in a thread.
    """

    def __init__(self, folder: Path) -> None:
        self._fence: Final = SqlFence()
        self._database: Final = sqlite3.connect(folder / "tasks.sqlite", timeout=10.0)
        self._database.executescript(_SCHEMA)
        self._database.execute(self._fence.schema)
        self._database.commit()

    def load(self, shard: Shard) -> list[tuple[int, str]]:
        """The tasks of a list, oldest first; from here on its former owner can change nothing."""
        with self._database as database:
            self._fence.admit(database.cursor(), shard)
            return database.execute(
                "SELECT number, task FROM tasks WHERE list = ? ORDER BY number", (shard.key,)
            ).fetchall()

    def add(self, shard: Shard, task: str) -> int:
        """Keep a task; gives its number."""
        with self._database as database:
            self._fence.admit(database.cursor(), shard)
            done = database.execute(
                "INSERT INTO tasks (list, task) VALUES (?, ?)", (shard.key, task)
            )
            return done.lastrowid or 0

    def remove(self, shard: Shard, number: int) -> None:
        """A task is handed out; it must not be again."""
        with self._database as database:
            self._fence.admit(database.cursor(), shard)
            database.execute("DELETE FROM tasks WHERE number = ?", (number,))


class TaskLists:
    """One process of the service."""

    def __init__(self, name: str, folder: Path) -> None:
        self._front: Final = Front(name)
        self._store: Final = Store(folder)
        self._lists: Final[dict[str, tuple[deque[tuple[int, str]], asyncio.Condition]]] = {}

    async def run_list(self, shard: Shard) -> AsyncGenerator[None, None]:
        """The life of a list here: read it, serve it, and send its waiters to its next owner."""
        tasks, changed = deque(self._store.load(shard)), asyncio.Condition()
        self._lists[shard.key] = (tasks, changed)
        yield
        del self._lists[shard.key]
        async with changed:
            changed.notify_all()

    async def add(self, request: web.Request) -> web.Response:
        """POST /lists/LIST with the task as body."""
        task = await request.text()

        async def here(shard: Shard) -> web.Response:
            tasks, changed = self._lists[shard.key]
            shard.add_load()
            if len(tasks) >= TASKS_MAX:
                return web.Response(status=429, text=f"{len(tasks)} tasks wait in this list")
            tasks.append((self._store.add(shard, task), task))
            async with changed:
                changed.notify()
            return web.Response(status=201, text=f"{tasks[-1][0]}\n")

        return await self._served(request, here)

    async def take(self, request: web.Request) -> web.Response:
        """GET /lists/LIST: the oldest task, waited for; 204 if none came."""

        async def here(shard: Shard) -> web.Response:
            tasks, changed = self._lists[shard.key]
            shard.add_load()
            try:
                async with asyncio.timeout(WAIT_S), changed:
                    await changed.wait_for(lambda: tasks or not shard.may_act())
            except TimeoutError:
                return web.Response(status=204)
            if not shard.may_act():
                return web.Response(status=503, text="the list is moving: ask again")
            number, task = tasks[0]
            self._store.remove(shard, number)
            tasks.popleft()
            return web.Response(text=f"{task}\n")

        return await self._served(request, here)

    async def _served(
        self, request: web.Request, here: Callable[[Shard], Awaitable[web.Response]]
    ) -> web.Response:
        try:
            return await self._front.serve(request, request.match_info["list"], here)
        except FencedOut as error:  # nothing was written: the next owner has the list
            return web.Response(status=503, text=str(error))

    async def run(self, given: Arguments) -> None:
        """Until a signal comes."""
        async with Operator(given.endpoints) as operator:
            await operator.create_namespace(NAMESPACE)
        app = web.Application()
        app.router.add_post("/lists/{list}", self.add)
        app.router.add_get("/lists/{list}", self.take)
        async with serving(app, given.port) as address:
            executor = Executor(
                given.endpoints, namespace=NAMESPACE, name=given.name, address=address
            )
            executor.shard(self.run_list)
            async with self._front.open(executor, Router(given.endpoints, namespace=NAMESPACE)):
                await until_signalled(executor, address)


if __name__ == "__main__":
    main(lambda given: TaskLists(given.name, given.folder).run(given), __doc__)
