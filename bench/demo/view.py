"""Shows a running demo: live in a terminal, else as lines of progress on stderr.

Decides how the scene looks. Must not know where it comes from.
"""

import asyncio
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bench.demo.scene import Scene

FRAMES_PER_S: Final = 5
LINE_EVERY_S: Final = 2.0
BAR_CELLS: Final = 34
SPARKS: Final = "▁▂▃▄▅▆▇█"
COLOURS: Final = {"draining": "yellow", "drained": "grey50", "killed": "red"}


async def show(scene: Scene) -> None:
    """Until cancelled: show the scene as it changes."""
    console = Console(stderr=True)
    if console.is_terminal:
        await _draw(scene, console)
    else:
        await _tell(scene, console)


async def _draw(scene: Scene, console: Console) -> None:
    with Live(
        frame(scene), console=console, auto_refresh=False, transient=False, screen=False
    ) as live:
        while True:
            try:
                await asyncio.sleep(1.0 / FRAMES_PER_S)
            finally:
                live.update(frame(scene), refresh=True)


async def _tell(scene: Scene, console: Console) -> None:
    told = 0.0
    shown: tuple[float, str] | None = None
    while True:
        fresh = list(scene.events)
        if shown in fresh:
            fresh = fresh[fresh.index(shown) + 1 :]
        for at, text in fresh:
            console.print(f"{at:5.1f} s  {text}", highlight=False, markup=False, soft_wrap=True)
            shown = (at, text)
        if scene.passed_s >= told + LINE_EVERY_S:
            told = scene.passed_s
            console.print(_line(scene), highlight=False, markup=False, soft_wrap=True)
        await asyncio.sleep(0.2)


def _line(scene: Scene) -> str:
    figures = "no figures yet"
    if (balance := scene.balance) is not None:
        figures = (
            f"spread {balance.spread:.3f} (best {balance.best_possible:.3f})  load"
            f" {balance.hottest:.2f}/{balance.mean:.2f}/{balance.coldest:.2f}"
        )
    if scene.unmeasured:
        figures += f" (load of {scene.unmeasured} shards not heard yet)"
    drain = f"  {scene.drain}" if scene.drain else ""
    return (
        f"{scene.passed_s:5.1f} s  [{scene.phase}] {figures}  moves {scene.moves}"
        f"  leader {scene.leader or '-'}  look-ups {scene.lookups:,}"
        f" (without owner: {scene.ownerless}){drain}"
    )


def frame(scene: Scene) -> RenderableType:
    """The whole picture."""
    head = Table.grid(expand=True, padding=(0, 1))
    head.add_column(ratio=1)
    head.add_column(width=26)
    head.add_column(justify="right", width=12)
    head.add_row(
        Text(scene.phase, style="bold"),
        ProgressBar(total=scene.seconds, completed=min(scene.passed_s, scene.seconds), width=26),
        f"{scene.passed_s:.0f}/{scene.seconds:.0f} s",
    )
    return Panel(
        Group(head, Text(), _executors(scene), Text(), _figures(scene), Text(), _events(scene)),
        title="Shard Coordinator",
        border_style="blue",
    )


def _executors(scene: Scene) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(width=BAR_CELLS)
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_column()
    shares = {} if scene.balance is None else {one.executor: one for one in scene.balance.executors}
    top = max((share.utilisation for share in shares.values()), default=0.0) or 1.0
    for name, status in sorted(scene.executors.items()):
        colour = COLOURS.get(status, "green")
        share = shares.get(name)
        note = "" if status == "active" else status
        if share is None:
            table.add_row(name, "", "", "", Text(note, style=colour))
            continue
        cells = round(share.utilisation / top * BAR_CELLS)
        table.add_row(
            name,
            Text("█" * cells, style=colour),
            f"{share.utilisation:.0%}",
            f"{share.shards} shards",
            Text(note, style=colour),
        )
    return table


def _figures(scene: Scene) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    balance = scene.balance
    if balance is not None:
        table.add_row(
            "load",
            f"hottest {balance.hottest:.0%}   mean {balance.mean:.0%}"
            f"   coldest {balance.coldest:.0%}   balancer {balance.mode}"
            + (f"   ({scene.unmeasured} shards not heard yet)" if scene.unmeasured else ""),
        )
        table.add_row(
            "spread",
            f"{balance.spread:.3f}   best possible {balance.best_possible:.3f}   {_sparks(scene)}",
        )
    nodes = "   ".join(f"{name} {role}" for name, role in sorted(scene.nodes.items()))
    table.add_row("moves", str(scene.moves))
    table.add_row("nodes", nodes)
    table.add_row("drain", scene.drain or "none")
    table.add_row("look-ups", f"{scene.lookups:,}, without an owner {scene.ownerless}")
    return table


def _sparks(scene: Scene) -> str:
    top = max(scene.spreads, default=0.0) or 1.0
    return "".join(SPARKS[round(value / top * (len(SPARKS) - 1))] for value in scene.spreads)


def _events(scene: Scene) -> RenderableType:
    return Text("\n".join(f"{at:5.1f} s  {text}" for at, text in scene.events), style="dim")
