"""Heartbeats beside what a team would build them on instead."""
