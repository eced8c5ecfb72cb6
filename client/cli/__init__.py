"""`shardctl`, the command line of operators."""
