"""Chunks of recorded loads come in: one behind the other, and all of a sweep before it counts."""

from coordinator.core.balance_series import extended
from coordinator.core.commands import Applied, Outcome, Reason, RecordLoads, Refused
from coordinator.core.draft import Draft
from coordinator.core.saved_loads import CHUNK_BYTES_MAX, CHUNKS_MAX, SavedLoads, Sweep


def record(draft: Draft, command: RecordLoads) -> Outcome:
    """Keep a chunk. The first one of a sweep ends any other that was coming in."""
    saved, name = draft.base.loads, draft.base.info.name
    if len(command.chunk) > CHUNK_BYTES_MAX:
        return Refused(Reason.INVALID, f"a chunk has at most {CHUNK_BYTES_MAX} bytes")
    before: tuple[bytes, ...] = ()
    if command.number != 0:
        coming = saved.coming
        if coming is None or (coming.at_ms, len(coming.chunks)) != (
            command.sweep_ms,
            command.number,
        ):
            return Refused(Reason.CONFLICT, f"chunk {command.number} does not follow what is here")
        before = coming.chunks
    if len(before) >= CHUNKS_MAX:
        return Refused(Reason.QUOTA_EXCEEDED, f"a sweep has at most {CHUNKS_MAX} chunks")
    sweep = Sweep(command.sweep_ms, (*before, command.chunk))
    past = saved.past if command.point is None else extended(saved.past, command.point)
    draft.loads = (
        SavedLoads(whole=sweep, past=past)
        if command.is_last
        else SavedLoads(saved.whole, coming=sweep, past=past)
    )
    return Applied(resource=name)
