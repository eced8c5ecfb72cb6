"""Times and durations as people write them.

Decides what `03:10`, `10m` and `2h` mean. Pure but for the clock and the zone of the machine that
it runs on: an operator means the clock on the wall.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|)")
_CLOCK: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")


class Duration(click.ParamType[float]):
    """`90`, `90s`, `5m`, `2h`, `1d`; gives seconds."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Seconds, more than none."""
        if isinstance(value, int | float):
            return float(value)
        found = _DURATION.fullmatch(str(value).strip())
        seconds = 0.0 if found is None else float(found[1]) * _UNITS_S[found[2]]
        if seconds <= 0.0:
            self.fail(f"{value!r} is no duration such as 90s, 5m or 2h", param, ctx)
        return seconds


class Moment(click.ParamType[str]):
    """A time that is past: `03:10` (today, or else yesterday), `10m` (ago), or an ISO time."""

    name = "time"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """RFC 3339 in UTC."""
        found = moment_of(str(value).strip(), datetime.now().astimezone())
        if found is None:
            self.fail(
                f"{value!r} is no time such as 03:10, 2026-11-30T03:10 or 10m (ago)", param, ctx
            )
        return found


def moment_of(text: str, now: datetime) -> str | None:
    """The time that a text means at a moment, in RFC 3339 and UTC; None when it means none."""
    ago = _DURATION.fullmatch(text)
    clock = _CLOCK.fullmatch(text)
    try:
        if ago is not None and ago[2]:
            at = now - timedelta(seconds=float(ago[1]) * _UNITS_S[ago[2]])
        elif clock is not None:
            hour, minute, second = (int(part or 0) for part in clock.groups())
            at = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
            if at > now:
                at -= timedelta(days=1)
        else:
            at = datetime.fromisoformat(text)
            if at.tzinfo is None:
                at = at.replace(tzinfo=now.tzinfo)
        return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
    except (ValueError, OverflowError):
        return None


DURATION: Final = Duration()
MOMENT: Final = Moment()
