"""The end of a run: how each tier did, and in one loud line which servers were missing."""

import os
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NoReturn

import pytest

MISSING = "SERVER MISSING: "
UNCHANGED = "UNCHANGED: "
"""Begin of the reason of a skip that is no gap: what is tested has passed as it is."""
OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed")
EXIT_SERVER_MISSING = 1


def skipped(reporter: pytest.TerminalReporter, mark: str) -> Counter[str]:
    """Reason to the number of tests that were skipped for it, of those reasons that begin with `mark`."""
    reasons: Counter[str] = Counter()
    for report in reporter.getreports("skipped"):
        text = str(report.longrepr)
        if mark in text:
            reasons[text.split(mark, 1)[1].rstrip("')")] += 1
    return reasons


def skip_missing(what: object) -> NoReturn:
    """Skips the test for lack of a server or a program; the summary reports it."""
    pytest.skip(f"{MISSING}{what}")


def missing_servers(reporter: pytest.TerminalReporter) -> Counter[str]:
    """Reason to the number of tests that could not run for it."""
    return skipped(reporter, MISSING)


def is_continuous_integration() -> bool:
    """Whether warnings count as errors: CI=true."""
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def write_summary(reporter: pytest.TerminalReporter) -> None:
    """Writes a line for each tier, and the loud one."""
    _write_tiers(reporter)
    for reason, count in skipped(reporter, UNCHANGED).items():
        reporter.write_line(f"{count} tests were skipped: {reason}")
    reasons = missing_servers(reporter)
    if reasons:
        verdict = "so the run FAILS (CI is set)" if is_continuous_integration() else "so this run proves less"
        count, why = sum(reasons.values()), "; ".join(sorted(reasons))
        reporter.write_line(f"{count} TESTS HAD NO SERVER TO RUN ON, {verdict}: {why}", red=True, bold=True)


def _write_tiers(reporter: pytest.TerminalReporter) -> None:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    seconds: Counter[str] = Counter()
    for outcome in OUTCOMES:
        for report in reporter.getreports(outcome):
            if isinstance(report, pytest.TestReport):
                counts[_tier(report)][outcome] += 1
    for reports in reporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[_tier(report)] += report.duration  # type: ignore[assignment]  # a Counter of floats
    if not counts:
        return
    reporter.section("tiers")
    for tier, outcomes in sorted(counts.items()):
        bad = bool(outcomes["failed"] or outcomes["error"])
        reporter.write_line(tier_line(tier, outcomes, seconds[tier]), red=bad, green=not bad)


def tier_line(tier: str, outcomes: Mapping[str, int], seconds: float) -> str:
    """The line of a tier: how many of its tests had each outcome."""
    summary = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in OUTCOMES if outcomes.get(outcome))
    return f"{tier:<12} {summary}, {seconds:.1f} s of work"


def _tier(report: pytest.TestReport) -> str:
    parts = report.nodeid.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "tests" else "other"
