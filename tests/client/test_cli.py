"""`shardctl` against a real node: what it prints where, and how it exits."""

import asyncio
import io
import json
import signal
import sys

import pytest

from client import errors
from client.cli import faults
from tests.client.cli_run import run
from tests.client.conftest import free_port
from tests.client.scripted import ok, problem, serving
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


# ------------------------------------------------------------------------------- namespaces


async def test_a_namespace_is_created_listed_updated_shown_and_deleted(shardctl):
    made = await shardctl("namespace", "create", "grid", "--shard-count", "8", "-o", "json")
    assert made.status == 0
    assert (made.json["kind"], made.json["shard_count"]) == ("fixed", 8)
    assert "grid is there" in made.err
    listed = await shardctl("namespace", "list")
    assert listed.lines[0].split() == ["NAMESPACE", "KIND", "SHARDS", "EXECUTORS", "BALANCER"]
    assert ["grid", "fixed", "8", "0", "on"] in [line.split() for line in listed.lines]
    assert "grid" in (await shardctl("namespace", "list", "-o", "name")).lines
    changed = await shardctl(
        *("namespace", "update", "grid", "--set", "balancer.mode=off", "--set", "lease_ttl_s=5"),
        *("--reason", "a quiet night"),
    )
    assert (changed.status, changed.out) == (0, "")
    told = await shardctl("-n", "grid", "events", "list", "-n", "grid", "--orders", "-o", "jsonl")
    assert json.loads(told.lines[-1])["reason"] == "a quiet night"
    shown = await shardctl("namespace", "show", "grid")
    assert ["policy.balancer.mode", "off"] in [line.split() for line in shown.lines]
    assert ["policy.lease_ttl_s", "5"] in [line.split() for line in shown.lines]
    assert (await shardctl("namespace", "delete", "grid", "--yes")).status == 0
    assert (await shardctl("namespace", "show", "grid")).status == faults.NOT_FOUND


async def test_nothing_is_deleted_when_nobody_can_be_asked(shardctl, namespace, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    refused = await shardctl("namespace", "delete", namespace)
    assert refused.status == faults.USAGE
    assert "--yes" in refused.err
    assert (await shardctl("namespace", "show", namespace)).status == 0


class Terminal(io.StringIO):
    def isatty(self):
        return True


async def test_a_deletion_is_confirmed_by_typing_the_name(shardctl, monkeypatch):
    await shardctl("namespace", "create", "grid", "--shard-count", "8")
    monkeypatch.setattr("sys.stdin", Terminal("gird\n"))
    assert (await shardctl("namespace", "delete", "grid")).status == faults.USAGE
    assert (await shardctl("namespace", "show", "grid")).status == 0
    monkeypatch.setattr("sys.stdin", Terminal("grid\n"))
    assert (await shardctl("namespace", "delete", "grid")).status == 0


async def test_a_dry_run_changes_nothing(shardctl):
    would = await shardctl("namespace", "create", "grid", "--shard-count", "8", "--dry-run")
    assert (would.status, would.out) == (0, "")
    assert "would create" in would.err
    as_json = await shardctl("namespace", "create", "grid", "--dry-run", "-o", "json")
    assert as_json.json["dry_run"] is True
    assert (await shardctl("namespace", "show", "grid")).status == faults.NOT_FOUND


async def test_a_policy_that_has_changed_meanwhile_is_a_conflict(shardctl, namespace):
    change = ("namespace", "update", namespace, "--set", "lease_ttl_s=5", "--if-version", "99")
    assert (await shardctl(*change)).status == faults.CONFLICT


# ------------------------------------------------------------------------ executors, drains


async def test_executors_are_listed_and_shown(shardctl, diary, cluster, namespace):
    async with diary.executor(cluster.endpoints, namespace, "e1", version="7") as executor:
        rows = [line.split() for line in (await shardctl("executor", "list")).lines]
        assert rows[0][:5] == ["EXECUTOR", "STATUS", "HOST", "ADDRESS", "SHARDS"]
        assert rows[1][:5] == ["e1", "active", "host-e1", "e1:80", "0"]
        assert (await shardctl("executor", "list", "--no-header")).lines[0].startswith("e1")
        wide = await shardctl("executor", "list", "-o", "wide")
        assert executor.incarnation in wide.out
        as_lines = await shardctl("executor", "list", "-o", "jsonl")
        assert [json.loads(line)["version"] for line in as_lines.lines] == ["7"]
        assert (await shardctl("executor", "list", "--host", "other")).out == ""
        for words in (("e1",), ("--executor", "e1")):
            shown = await shardctl("executor", "show", *words, "-o", "json")
            assert shown.json["executor"] == "e1"


async def test_a_host_is_drained_and_followed_to_the_end(
    shardctl, diary, cluster, namespace, operator
):
    await operator.declare_shards(namespace, ["a", "b"])
    first = diary.executor(cluster.endpoints, namespace, "e1")
    async with first, diary.executor(cluster.endpoints, namespace, "e2") as second:
        await until(lambda: len(first.running()) + len(second.running()) == 2)
        drained = await shardctl(
            "executor",
            "drain",
            "--hostname",
            "host-e1",
            "--reason",
            "kernel",
            "--wait",
            "-o",
            "name",
        )
        assert drained.status == 0
        assert "drained" in drained.err
        (drain_id,) = drained.lines
        assert not first.running()
        listed = await shardctl("drain", "list")
        assert listed.lines[1].split()[:3] == [drain_id, "host/host-e1", "drained"]
        assert "kernel" in (await shardctl("drain", "show", drain_id)).out
        assert (await shardctl("drain", "wait", drain_id)).status == 0
        assert (await shardctl("executor", "undrain", "--hostname", "host-e1")).status == 0
        assert (await shardctl("drain", "show", drain_id)).status == faults.NOT_FOUND


async def test_waiting_for_a_drain_that_cannot_end_times_out(
    shardctl, diary, cluster, namespace, operator
):
    await operator.declare_shards(namespace, ["a"])
    async with diary.executor(cluster.endpoints, namespace, "e1") as executor:
        await until(executor.running)
        late = await shardctl(
            *("executor", "drain", "e1", "--reason", "x", "--force", "--yes"),
            *("--wait", "--timeout", "0.6"),
        )
    assert late.status == faults.WAIT_TIMED_OUT
    assert "blocked (no_target)" in late.err
    assert "goes on" in late.err


async def test_an_interrupted_wait_leaves_the_drain_going_and_says_so(
    diary, cluster, namespace, operator
):
    await operator.declare_shards(namespace, ["a"])
    async with diary.executor(cluster.endpoints, namespace, "e1") as executor:
        await until(executor.running)
        words = ("executor", "drain", "e1", "--reason", "x", "--wait", "--force", "--yes")
        waiting = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "client.cli.main", "--endpoints", cluster.endpoints[0]),
            *("-n", namespace, *words),
            stderr=asyncio.subprocess.PIPE,
        )
        told = await waiting.stderr.readuntil(b"blocked")
        waiting.send_signal(signal.SIGINT)
        told += await waiting.stderr.read()
        assert await waiting.wait() == faults.INTERRUPTED
        assert b"goes on" in told
        assert b"Traceback" not in told
        assert [drain.state for drain in await operator.drains(namespace)] == ["blocked"]


async def test_on_a_terminal_a_bar_shows_how_far_a_drain_is(
    shardctl, diary, cluster, namespace, monkeypatch
):
    monkeypatch.setattr("tests.client.cli_run.Stream", Terminal)
    await shardctl("shard", "declare", "a")
    first = diary.executor(cluster.endpoints, namespace, "e1")
    async with first, diary.executor(cluster.endpoints, namespace, "e2"):
        await until(first.running)
        drained = await shardctl("executor", "drain", "e1", "--reason", "x", "--wait")
        assert drained.status == 0
        assert "1/1 moved" in drained.err
        assert drained.out == ""


async def test_executors_are_cordoned_uncordoned_and_evicted(shardctl, diary, cluster, namespace):
    async def live():
        async with diary.executor(cluster.endpoints, namespace, "e1") as executor:
            for verb, status in (("cordon", "cordoned"), ("uncordon", "active")):
                changed = await shardctl("executor", verb, "e1", "-o", "json")
                assert changed.json["status"] == status
                await until(lambda status=status: executor.status == status)
            hosts = await shardctl("executor", "cordon", "--hostname", "host-e1", "-o", "name")
            assert hosts.lines == ["host-e1"]
            evicted = await shardctl(
                *("executor", "evict", "e1", "--reason", "sick", "--force", "--yes")
            )
            assert evicted.status == 0
            assert "warning: its shards were given away" in evicted.err
            await asyncio.sleep(10)

    with pytest.raises(errors.IncarnationClosed):
        await live()


async def test_a_drain_wants_one_target_and_a_reason(shardctl):
    for words in ((), ("e1", "--hostname", "h"), ("e1", "--executor", "e2")):
        wrong = await shardctl("executor", "drain", *words, "--reason", "x")
        assert wrong.status == faults.USAGE
        assert "name one executor" in wrong.err
    assert (await shardctl("executor", "drain", "e1")).status == faults.USAGE


async def test_a_list_of_executors_says_who_is_away_and_to_be_back(
    shardctl, diary, cluster, namespace, operator
):
    await operator.declare_shards(namespace, ["a", "b"])
    async with diary.executor(cluster.endpoints, namespace, "e1") as executor:
        await until(lambda: len(executor.running()) == 2)
        await executor.leave(back_within_s=20.0)
        listed = await shardctl("executor", "list")
        told = "no executors\ne1 restarts: 2 shards are kept for it, for 20 s\n"
        assert (listed.status, listed.out, listed.err) == (0, "", told)
        assert "reserved" in (await shardctl("shard", "show", "a")).out


# ---------------------------------------------------------------------------------- shards


async def test_shards_are_declared_listed_moved_pinned_and_parked(
    shardctl, diary, cluster, namespace
):
    assert (await shardctl("shard", "declare", "a", "b/ü", "-o", "json")).json["created"] == 2
    first = diary.executor(cluster.endpoints, namespace, "e1")
    async with first, diary.executor(cluster.endpoints, namespace, "e2") as second:
        await until(lambda: len(first.running()) + len(second.running()) == 2)
        assert (await shardctl("shard", "list", "-o", "name")).lines == ["a", "b/ü"]
        assert (await shardctl("shard", "list", "--limit", "1", "-o", "name")).lines == ["a"]
        for words in (("move", "a", "--to", "e2"), ("pin", "--shard-key", "a", "--executor", "e2")):
            assert (await shardctl("shard", *words, "--reason", "x")).status == 0
            await until(lambda: "a" in second.running())
        for verb in ("show", "inspect"):
            shown = await shardctl("shard", verb, "--shard-key", "a", "-o", "json")
            assert (shown.json["executor"], shown.json["pinned"]) == ("e2", "e2")
        rows = [
            line.split() for line in (await shardctl("shard", "list", "--state", "owned")).lines
        ]
        assert rows[1][:3] == ["a", "owned", "e2"]
        assert (await shardctl("shard", "move", "a", "--to", "e1")).status == faults.CONFLICT
        assert (await shardctl("shard", "unpin", "a")).status == 0
        assert (await shardctl("shard", "drain", "a", "--reason", "poison")).status == 0
        await until(lambda: "a" not in second.running())
        assert "poison" in (await shardctl("shard", "show", "a")).out
        assert (await shardctl("shard", "undrain", "a")).status == 0


async def test_parking_a_shard_wants_a_reason(shardctl, operator, namespace):
    await operator.declare_shards(namespace, ["a"])
    refused = await shardctl("shard", "drain", "a")
    assert refused.status == faults.USAGE
    assert "--reason" in refused.err
    assert (await operator.shard(namespace, "a")).parked is None
    assert (await shardctl("shard", "unpin", "a")).status == faults.DONE


async def test_all_pages_of_shards_are_one_list(shardctl, monkeypatch):
    await shardctl("shard", "declare", *(f"k{number}" for number in range(7)))
    monkeypatch.setattr("client.cli.shards.PAGE_LIMIT", 3)
    listed = await shardctl("shard", "list", "-o", "jsonl")
    assert len(listed.lines) == 7
    first = await shardctl("shard", "list", "-o", "json")
    assert (len(first.json["shards"]), first.json["total"]) == (3, 7)
    assert first.err == f"there are more: --page {first.json['next_page']}\n"
    rest = await shardctl("shard", "list", "-o", "json", "--page", first.json["next_page"])
    assert [one["key"] for one in rest.json["shards"]] == ["k3", "k4", "k5"]
    assert len((await shardctl("shard", "list", "--limit", "5", "-o", "name")).lines) == 5


async def test_an_unknown_shard_is_not_found_and_not_made(shardctl):
    missing = await shardctl("shard", "show", "nothing")
    assert missing.status == faults.NOT_FOUND
    assert "shard_not_found" in missing.err
    assert "`shardctl shard list`" in missing.err
    assert missing.err.count("\n") == 1
    assert (await shardctl("shard", "list")).out == ""


# ------------------------------------------------------------------------ balance, cluster


async def test_balancing_is_shown_paused_and_resumed(shardctl, diary, cluster, namespace):
    async with diary.executor(cluster.endpoints, namespace, "e1"):
        status = await shardctl("balance", "status")
        fields = {line.split()[0] for line in status.lines if line.strip()}
        assert {"spread", "best_possible", "hottest", "EXECUTOR", "e1"} <= fields
        paused = await shardctl(
            "balance", "pause", "--reason", "deploy", "--for", "60", "-o", "json"
        )
        assert paused.json["paused"] is True
        assert (await shardctl("balance", "status", "-o", "json")).json["paused_reason"] == "deploy"
        assert (await shardctl("balance", "resume", "-o", "json")).json["paused"] is False


async def test_what_the_balancer_would_do_is_shown_in_words(
    shardctl, diary, cluster, operator, namespace
):
    await operator.declare_shards(namespace, ["a", "b"])
    async with diary.executor(cluster.endpoints, namespace, "e1"):
        await until(lambda: diary.of("a"))
        plan = await shardctl("balance", "plan", "--level", "tight")
        assert {"stopped_why", "best_possible", "before.hottest"} <= firsts(plan.lines)
        fewer = await shardctl("balance", "what-if", "--executors", "2", "-o", "json")
        assert fewer.json["executors"] == 2
        tried = await shardctl("balance", "what-if", "--set", "balancer.stop_gap=0.05")
        assert ["plan.stop_gap", "0.05"] in [line.split() for line in tried.lines]
        table = await shardctl("balance", "capacity", "--executors", "1-3")
        assert ["EXECUTORS", "MEAN", "BEST", "PLANNED", "HASH", "MOVES", "ENOUGH"] in [
            line.split() for line in table.lines
        ]
        assert [line.split()[0] for line in table.lines[-3:]] == ["1", "2", "3"]
        assert (await shardctl("balance", "history", "-o", "json")).json["decisions"] == []
        missing = await shardctl("balance", "decision", "7")
        assert missing.status == faults.NOT_FOUND
        assert "balance history" in missing.err
        await operator.pin_shard(namespace, "a", "e1", reason="exam")
        shard = await shardctl("shard", "inspect", "a")
        assert {"WHY-HERE", "WHY-NO-MOVE", "HISTORY"} <= firsts(shard.lines)
        assert (await shardctl("shard", "inspect", "a", "-o", "json")).json["why_here"]


def firsts(lines: list[str]) -> set[str]:
    return {line.split()[0] for line in lines if line.strip()}


async def test_the_cluster_is_shown_and_checked(shardctl):
    status = await shardctl("cluster", "status")
    assert ["leader", "n1"] in [line.split() for line in status.lines]
    assert ["NODE", "ROLE", "API", "REACHABLE", "HEARD"] in [line.split() for line in status.lines]
    healthy = await shardctl("cluster", "check")
    assert (healthy.status, healthy.out[:3]) == (0, "OK:")
    assert (await shardctl("cluster", "transfer-leader")).status == faults.CONFLICT
    elsewhere = ("--api", "http://127.0.0.1:9", "--raft", "127.0.0.1:9")
    assert (await shardctl("cluster", "move-member", "n1", *elsewhere)).status == faults.CONFLICT


async def test_events_are_listed_and_filtered(shardctl, operator, namespace):
    await operator.declare_shards(namespace, ["bad"])
    await shardctl("shard", "drain", "bad", "--reason", "poison")
    await shardctl("balance", "pause", "--reason", "exam")
    listed = await shardctl("events", "list")
    assert listed.lines[0].split()[:3] == ["AT", "KIND", "SHARD"]
    assert [line.split()[1] for line in listed.lines[1:]] == ["shard_parked", "balancer_paused"]
    assert "poison" in listed.lines[1]
    assert "127.0.0.1" in listed.lines[1]
    only = await shardctl(
        "events", "list", "--kind", "shard_parked", "--shard", "bad", "-o", "jsonl"
    )
    assert [json.loads(line)["reason"] for line in only.lines] == ["poison"]
    newest = await shardctl("events", "list", "--limit", "1", "--no-header")
    assert [line.split()[1] for line in newest.lines] == ["balancer_paused"]
    assert (await shardctl("events", "list", "--executor", "e9")).out == ""
    odd = await shardctl("events", "list", "--kind", "odd")
    assert odd.status == faults.REFUSED
    assert "executor_lost" in odd.err
    await shardctl("executor", "drain", "--hostname", "h7", "--reason", "kernel")
    assert "h7" in (await shardctl("events", "list", "--kind", "drain_started")).lines[-1].split()
    endless = await shardctl("events", "list", "--watch", "-o", "json")
    assert endless.status == faults.USAGE


async def test_events_are_watched_until_interrupted(cluster, operator, namespace):
    await operator.declare_shards(namespace, ["a", "b"])
    await operator.drain_shard(namespace, "a", reason="first")
    words = ("--endpoints", cluster.endpoints[0], "-n", namespace, "-o", "jsonl")
    watching = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "client.cli.main", *words, "watch", "--orders"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert watching.stdout is not None
        async with asyncio.timeout(20):
            first = json.loads(await watching.stdout.readline())
            await operator.drain_shard(namespace, "b", reason="second")
            second = json.loads(await watching.stdout.readline())
        assert [first["reason"], second["reason"]] == ["first", "second"]
        watching.send_signal(signal.SIGINT)
        async with asyncio.timeout(10):
            _, errors = await watching.communicate()
        assert watching.returncode == faults.INTERRUPTED
        assert b"Traceback" not in errors
    finally:
        if watching.returncode is None:
            watching.kill()
            await watching.wait()


async def test_a_mass_failure_is_shown_warned_of_and_proceeded_with(shardctl):
    quiet = await shardctl("mass-failure", "status")
    assert ["state", "none"] in [line.split() for line in quiet.lines]
    unasked = await shardctl("mass-failure", "proceed", "--reason", "rack 4")
    assert (unasked.status, "repeat with --yes" in unasked.err) == (faults.USAGE, True)
    done = await shardctl("mass-failure", "proceed", "--reason", "rack 4", "--yes")
    assert done.status == 0
    assert "no mass failure is on in" in done.err
    told = ok({"namespace": "jobs", "state": "proceeded", "given_up": 3})
    async with serving(told) as node:
        words = ("--endpoints", node.url, "-n", "jobs", "mass-failure", "proceed", "--reason", "x")
        done = await asyncio.to_thread(run, *words, "--yes")
    assert done.err == "3 silent executors of jobs are given up\n"
    assert (await shardctl("mass-failure", "proceed")).status == faults.USAGE
    would = await shardctl("mass-failure", "proceed", "--reason", "x", "--dry-run")
    assert "would give up 0 silent executors" in would.err
    alarm = {"namespace": "jobs", "alarm": "mass_failure", "state": "holding", "since": "2026"}
    body = {"cluster_id": "c", "leader": "n1", "term": 3, "nodes": [], "alarms": [alarm]}
    async with serving(ok(body)) as node:
        check = await asyncio.to_thread(run, "--endpoints", node.url, "cluster", "check")
    assert (check.status, check.out) == (
        1,
        "WARNING: mass_failure of jobs holding; leader n1\n",
    )


async def test_a_check_is_critical_when_nobody_answers():
    nobody = f"http://127.0.0.1:{free_port()}"
    words = ("--endpoints", nobody, "--request-timeout", "0.2", "cluster", "check")
    ended = await asyncio.to_thread(run, *words)
    assert ended.status == 2
    assert ended.out.startswith("CRITICAL")


# -------------------------------------------------------------------- settings and failures


async def test_the_environment_sets_what_flags_do_not(cluster, namespace, monkeypatch, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    monkeypatch.setenv("SHARDCTL_ENDPOINTS", f" {cluster.endpoints[0]} ,")
    monkeypatch.setenv("SHARDCTL_NAMESPACE", namespace)
    monkeypatch.setenv("SHARDCTL_TOKEN_FILE", str(token))
    assert (await asyncio.to_thread(run, "shard", "list")).status == 0
    other = await asyncio.to_thread(run, "shard", "list", "-n", "other")
    assert other.status == faults.NOT_FOUND


async def test_the_token_of_the_file_is_sent(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    async with serving(problem(403, "forbidden")) as node:
        words = ("--endpoints", node.url, "--token-file", str(token), "namespace", "list")
        refused = await asyncio.to_thread(run, *words)
    assert node.header("Authorization") == ["Bearer secret"]
    assert refused.status == faults.REFUSED
    assert "secret" not in refused.err
