"""What to start and what to stop, from what is seen."""

from dataclasses import replace

import pytest

from claimq_local.plan import (
    Drain,
    Part,
    Patience,
    Step,
    WorkerSeen,
    next_step,
)

PATIENCE = Patience(start=30.0, drain=25.0, end=5.0)
NOW = 1000.0


def ready(number: int) -> WorkerSeen:
    return WorkerSeen(number, Part.RUNNING, Part.RUNNING)


def starting(number: int) -> WorkerSeen:
    return WorkerSeen(number, Part.STARTING, Part.ABSENT, sidecar_since=NOW)


def draining(number: int = 1, **drain: object) -> WorkerSeen:
    return replace(ready(number), drain=replace(Drain(since=NOW), **drain))  # type: ignore[arg-type]  # fields of Drain by name


@pytest.mark.parametrize(
    ("worker", "waits"),
    [
        (ready(1), False),
        (starting(1), False),
        (WorkerSeen(1, Part.RUNNING, Part.ABSENT, app_retry_at=NOW + 1), True),
        (WorkerSeen(1, Part.RUNNING, Part.ABSENT, app_retry_at=NOW), False),
        (WorkerSeen(1, Part.ABSENT, Part.RUNNING, sidecar_retry_at=NOW + 1), True),
        (WorkerSeen(1, Part.ABSENT, Part.ABSENT, app_retry_at=NOW + 1), False),
        (replace(ready(1), app_retry_at=NOW + 1), False),
    ],
)
def test_a_worker_waits_while_a_process_has_ended(worker: WorkerSeen, waits: bool) -> None:
    assert worker.waits_to_restart(NOW) is waits


def test_a_worker_starts_with_its_sidecar_then_waits_for_it_then_starts_the_app() -> None:
    worker = WorkerSeen(1)
    assert next_step(worker, PATIENCE, NOW) is Step.START_SIDECAR
    worker = replace(worker, sidecar=Part.STARTING, sidecar_since=NOW)
    assert next_step(worker, PATIENCE, NOW) is None
    worker = replace(worker, sidecar=Part.RUNNING)
    assert next_step(worker, PATIENCE, NOW) is Step.START_APP
    assert next_step(replace(worker, app=Part.RUNNING), PATIENCE, NOW) is None


def test_a_worker_is_not_ready_before_its_app_listens_and_soon_waits_for_it() -> None:
    worker = WorkerSeen(1, Part.RUNNING, Part.STARTING, app_since=NOW)
    assert next_step(worker, PATIENCE, NOW) is None
    assert (worker.is_ready, worker.stage(NOW + 29.9), worker.stage(NOW + 30)) == (
        False,
        "starting",
        "waiting",
    )
    assert replace(worker, sidecar_since=NOW + 9).stage(NOW + 38.9) == "starting"
    listened = replace(worker, has_listened=True)
    assert [listened.stage(NOW + seconds) for seconds in (4.9, 5)] == ["starting", "waiting"]
    assert replace(worker, app=Part.RUNNING).stage(NOW + 30) == "ready"
    assert next_step(replace(worker, is_stuck=True), PATIENCE, NOW) is Step.KILL_APP
    stopping = replace(worker, drain=Drain(NOW, is_asked=True, is_finished=True))
    assert next_step(stopping, PATIENCE, NOW) is Step.STOP_APP


def test_a_new_worker_starts_at_once_also_when_the_clock_has_just_begun() -> None:
    assert next_step(WorkerSeen(1), PATIENCE, 0.0) is Step.START_SIDECAR
    assert next_step(WorkerSeen(1, Part.RUNNING), PATIENCE, 0.0) is Step.START_APP
    assert next_step(WorkerSeen(1, Part.STARTING), PATIENCE, 29.9) is None
    assert next_step(WorkerSeen(1, Part.STARTING), PATIENCE, 30.0) is Step.KILL_SIDECAR


def test_by_default_a_worker_has_half_a_minute_to_start_and_to_stop() -> None:
    default = Patience()
    assert next_step(starting(1), default, NOW + 29.9) is None
    assert next_step(starting(1), default, NOW + 30.0) is Step.KILL_SIDECAR
    accepted = draining(is_asked=True, is_accepted=True)
    assert next_step(accepted, default, NOW + 24.9) is None
    assert next_step(accepted, default, NOW + 25.0) is Step.STOP_APP
    stopping = draining(is_asked=True, app_stopped_at=NOW)
    assert next_step(stopping, default, NOW + 4.9) is None
    assert next_step(stopping, default, NOW + 5.0) is Step.KILL_APP


def test_a_sidecar_that_does_not_become_ready_is_killed() -> None:
    assert next_step(starting(1), PATIENCE, NOW + 29.9) is None
    assert next_step(starting(1), PATIENCE, NOW + 30) is Step.KILL_SIDECAR


@pytest.mark.parametrize(
    ("worker", "step"),
    [
        (WorkerSeen(1, sidecar_retry_at=NOW + 2), Step.START_SIDECAR),
        (WorkerSeen(1, Part.RUNNING, app_retry_at=NOW + 2), Step.START_APP),
    ],
)
def test_what_died_is_started_again_only_after_its_wait(worker: WorkerSeen, step: Step) -> None:
    assert next_step(worker, PATIENCE, NOW + 1.9) is None
    assert next_step(worker, PATIENCE, NOW + 2) is step


def test_an_app_goes_on_while_its_sidecar_is_started_again() -> None:
    worker = WorkerSeen(1, Part.ABSENT, Part.RUNNING)
    assert next_step(worker, PATIENCE, NOW) is Step.START_SIDECAR


def test_an_app_with_a_stuck_item_is_killed() -> None:
    assert next_step(replace(ready(1), is_stuck=True), PATIENCE, NOW) is Step.KILL_APP


def test_the_end_begins_with_the_sidecars_drain() -> None:
    assert next_step(draining(), PATIENCE, NOW) is Step.ASK_DRAIN
    assert next_step(draining(is_asked=True), PATIENCE, NOW) is None


def test_the_app_is_stopped_when_nothing_is_in_flight_or_the_time_is_over() -> None:
    assert next_step(draining(is_asked=True, is_finished=True), PATIENCE, NOW) is Step.STOP_APP
    assert next_step(draining(is_asked=True), PATIENCE, NOW + 25) is Step.STOP_APP


def test_without_a_sidecar_there_is_nothing_to_ask() -> None:
    worker = replace(draining(), sidecar=Part.ABSENT)
    assert next_step(worker, PATIENCE, NOW) is Step.STOP_APP


def test_an_app_that_ignores_the_signal_is_killed() -> None:
    stopping = draining(is_finished=True, app_stopped_at=NOW)
    assert next_step(stopping, PATIENCE, NOW + 4.9) is None
    assert next_step(stopping, PATIENCE, NOW + 5) is Step.KILL_APP


def test_the_sidecar_ends_after_the_app_and_then_the_worker_is_forgotten() -> None:
    worker = replace(draining(is_finished=True, app_stopped_at=NOW), app=Part.ABSENT)
    assert next_step(worker, PATIENCE, NOW) is Step.STOP_SIDECAR
    stopping = replace(worker, drain=Drain(NOW, sidecar_stopped_at=NOW))
    assert next_step(stopping, PATIENCE, NOW + 1) is None
    assert next_step(stopping, PATIENCE, NOW + 5) is Step.KILL_SIDECAR
    assert next_step(replace(stopping, sidecar=Part.ABSENT), PATIENCE, NOW) is Step.REMOVE


def test_a_worker_that_never_started_is_forgotten_at_once() -> None:
    assert next_step(WorkerSeen(1, drain=Drain(NOW)), PATIENCE, NOW) is Step.REMOVE


def test_in_a_hurry_no_client_waits_for_what_is_in_flight() -> None:
    accepted = draining(is_asked=True, is_accepted=True)
    assert next_step(accepted, PATIENCE.hurried(), NOW) is Step.STOP_APP


def test_in_a_hurry_no_app_is_stopped_before_its_sidecar_drains() -> None:
    hurried = PATIENCE.hurried()
    assert next_step(draining(), hurried, NOW) is Step.ASK_DRAIN
    assert next_step(draining(is_asked=True), hurried, NOW + 4.9) is None, "its items would be charged"
    assert next_step(draining(is_asked=True), hurried, NOW + 5) is Step.STOP_APP


def test_in_a_hurry_an_app_has_time_to_give_its_items_back() -> None:
    stopping = draining(is_asked=True, app_stopped_at=NOW)
    assert next_step(stopping, PATIENCE.hurried(), NOW + 4.9) is None
    assert next_step(stopping, PATIENCE.hurried(), NOW + 5) is Step.KILL_APP
