"""Types of command line options: durations and instants."""

from __future__ import annotations

from datetime import datetime

import click

from claimq_spec.duration import parse_duration


class Duration(click.ParamType[float]):
    """``30s``, ``5m``; to seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, or a usage error with the fix."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Instant(click.ParamType[float]):
    """ISO 8601 (without an offset: in the local time zone) or Unix seconds; to Unix seconds."""

    name = "instant"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Unix seconds, or a usage error with the fix."""
        if isinstance(value, float):
            return value
        try:
            return float(str(value))
        except ValueError:
            pass
        try:
            return datetime.fromisoformat(str(value)).timestamp()
        except (ValueError, OverflowError, OSError):
            self.fail(
                f'"{value}" is not an instant; write ISO 8601 (2030-01-31T09:00:00Z; without an offset in the local '
                "time zone) or Unix seconds",
                param,
                ctx,
            )
