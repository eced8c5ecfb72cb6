"""Services built on the kit, small enough to read in one go. Each is started by one command.

    python -m client.examples.rate_limiter  --name a    buckets of callers, by hash in 64 shards
    python -m client.examples.task_lists    --name a    lists of tasks, waited for; a fenced store
    python -m client.examples.tenant_jobs   --name a    jobs of tenants on one loop, by their CPU
    sh client/examples/executor.sh API NAMESPACE NAME COMMAND    an executor in POSIX shell

Start several under different names; they share the work. `make cluster` in the project's root
starts the coordinator that they look for.
"""
