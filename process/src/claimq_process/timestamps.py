"""Timestamps of the Kubernetes API: Time has whole seconds, MicroTime microseconds. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_time(text: str | None) -> float | None:
    """Unix seconds of a Time or MicroTime; None for a field that is missing or empty."""
    return None if not text else datetime.fromisoformat(text).timestamp()


def format_time(at: float) -> str:
    """Unix seconds as a Time."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(at: float) -> str:
    """Unix seconds as a MicroTime."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
