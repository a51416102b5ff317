"""Condition RedisReachable: whether the queue's server answers. Pure."""

from __future__ import annotations

from claimq_control.decide.conditions.condition import FALSE, TRUE, UNKNOWN, Condition, View

TYPE = "RedisReachable"


def redis_reachable(view: View) -> Condition:
    """False while the server cannot be used; the number of workers is not changed in that time."""
    observed = view.observed
    if observed.resource.spec is None:
        return Condition(TYPE, UNKNOWN, "SpecInvalid", "not checked: the spec is invalid, see Stalled")
    if observed.redis_fault is not None:
        fault = observed.redis_fault
        effect = "no workers are added" if fault.denied else "the number of workers is kept"
        return Condition(TYPE, FALSE, fault.reason, f"{fault.message}; {effect}")
    if observed.snapshot is None:
        return Condition(TYPE, UNKNOWN, "NotTriedYet", "the server has not been connected to yet")
    report = observed.report
    if observed.full:
        return Condition(TYPE, TRUE, "Full", f"{observed.full}; items can still be claimed and completed")
    if report is not None and report.warnings:
        warnings = "; ".join(warning.message for warning in report.warnings)
        return Condition(
            TYPE, TRUE, "ReachableWithWarnings", f"{report.flavour} {report.version}: {warnings}"
        )
    server = f"{report.flavour} {report.version}" if report is not None else "the server"
    return Condition(TYPE, TRUE, "Reachable", f"{server} is reachable")
