"""RedisReachable: whether the server that holds the items answers."""

from __future__ import annotations

from claimq_operator.decide.conditions.finding import FALSE, TRUE, UNKNOWN, Finding, View

TYPE = "RedisReachable"


def redis_reachable(view: View) -> Finding:
    """False while it cannot be used; the number of workers is then left as it is."""
    observed = view.observed
    if observed.resource.spec is None:
        return Finding(TYPE, UNKNOWN, "SpecInvalid", "not tried: the spec has mistakes, see Stalled")
    if observed.redis_fault is not None:
        fault = observed.redis_fault
        held = "no worker is added" if fault.denied else "the number of workers is held meanwhile"
        return Finding(TYPE, FALSE, fault.reason, f"{fault.message}; {held}")
    if observed.snapshot is None:
        return Finding(TYPE, UNKNOWN, "NotTriedYet", "the server has not been asked yet")
    report = observed.report
    if observed.full:
        return Finding(TYPE, TRUE, "Full", f"{observed.full}; claims and verdicts go on")
    if report is not None and report.warnings:
        said = "; ".join(warning.message for warning in report.warnings)
        return Finding(TYPE, TRUE, "ReachableWithWarnings", f"{report.flavour} {report.version}: {said}")
    version = f"{report.flavour} {report.version}" if report is not None else "the server"
    return Finding(TYPE, TRUE, "Reachable", f"{version} answers")
