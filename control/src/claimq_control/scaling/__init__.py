"""Computes how many workers a queue needs. Pure: settings, observation, state and time are arguments.

The caller performs the decision. It calls :func:`decide` every few seconds (at least once a minute, and at
once when an item comes to an empty queue) and passes the state of the last decision back in.
docs/scaling.md explains the rule, bench/scaling.md how it was evaluated.

The rule: the fewest workers that start every item within ``targetAge`` (``demand``), or enough for
``itemsPerReplica``, whichever is more; within min and max. Up at once; down after a window in which fewer
were enough, never below the workers that hold claims; to zero when idle. An unknown value changes nothing.
"""

from claimq_control.scaling.decision import LONGEST_GAP, decide
from claimq_control.scaling.estimates import Estimates
from claimq_control.scaling.explanation import document
from claimq_control.scaling.observation import observe
from claimq_control.scaling.values import (
    MOST_WANTED,
    NOT_AUTO,
    Decision,
    Explanation,
    Limit,
    Observation,
    ScalingRule,
    ScalingState,
    StepPeriod,
)

__all__ = [
    "LONGEST_GAP",
    "MOST_WANTED",
    "NOT_AUTO",
    "Decision",
    "Estimates",
    "Explanation",
    "Limit",
    "Observation",
    "ScalingRule",
    "ScalingState",
    "StepPeriod",
    "decide",
    "document",
    "observe",
]
