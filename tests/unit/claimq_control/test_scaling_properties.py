"""The decision about the number of workers: what holds for every queue, every spec and every past."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from claimq_control.manifest import ScaleDownSpec, ScaleUpSpec, ScalingSpec
from claimq_control.scaling import MOST_WANTED, Observation, ScalingState, decide
from testkit.kubernetes.scaling_input import scaling_input

counts = st.integers(min_value=0, max_value=60)
ages = st.floats(min_value=0, max_value=10_000)
steps = st.none() | st.integers(min_value=1, max_value=20)


@st.composite
def specs(draw: st.DrawFn) -> ScalingSpec:
    most = draw(st.integers(min_value=1, max_value=40))
    return ScalingSpec(
        min_replicas=draw(st.integers(min_value=0, max_value=most)),
        max_replicas=most,
        target_age=draw(st.sampled_from([1.0, 30.0, 600.0])),
        items_per_replica=draw(st.none() | st.integers(min_value=1, max_value=100)),
        idle_after=draw(st.sampled_from([0.0, 5.0, 60.0, 600.0])),
        scale_up=ScaleUpSpec(max_step=draw(steps), period=draw(st.sampled_from([1.0, 10.0, 60.0]))),
        scale_down=ScaleDownSpec(
            max_step=draw(steps),
            period=draw(st.sampled_from([1.0, 10.0, 60.0])),
            stabilization_window=draw(st.sampled_from([0.0, 5.0, 60.0, 300.0])),
        ),
    )


@st.composite
def queues(draw: st.DrawFn) -> Observation:
    """What may be seen of a queue; the workers are filled in by what was decided."""
    main, busy = draw(counts | st.integers(min_value=0, max_value=100_000)), draw(counts)
    return scaling_input(
        main=main,
        busy=busy,
        replicas=0,
        ready=0,
        busy_workers=draw(st.integers(min_value=0, max_value=busy)),
        delayed_due=draw(st.just(0) | counts),
        oldest_age=draw(ages) if main else None,
    )


def with_workers(what: Observation, replicas: int, share_ready: float = 1.0) -> Observation:
    ready = int(replicas * share_ready)
    return replace(what, replicas=replicas, ready=ready)


class Past:
    """A past of decisions on all kinds of observations, each performed at once."""

    def __init__(self, spec: ScalingSpec, replicas: int, start: float = 0.0) -> None:
        self.spec, self.replicas, self.now, self.state = spec, replicas, start, ScalingState()

    def step(self, what: Observation | None, after: float = 1.0, share_ready: float = 1.0) -> tuple[int, int]:
        """(before, after) of one decision."""
        self.now += after
        before = self.replicas
        observation = None if what is None else with_workers(what, before, share_ready)
        decision = decide(self.spec, observation, self.state, self.now)
        assert decision.reason
        self.state = decision.state
        if decision.replicas is not None:
            self.replicas = decision.replicas
        return before, self.replicas


moments = st.tuples(
    st.none() | queues(), st.sampled_from([0.5, 2.0, 10.0, 50.0, 100.0]), st.sampled_from([0.0, 0.5, 1.0])
)


@given(specs(), counts, st.lists(moments, max_size=12))
def test_bounds_hold_and_nothing_unknown_changes_anything(
    spec: ScalingSpec, replicas: int, past: list[tuple[Observation | None, float, float]]
) -> None:
    run = Past(spec, replicas)
    for what, after, ready in past:
        before, decided = run.step(what, after, ready)
        if what is None:
            assert decided == before
        else:
            assert spec.min_replicas <= decided <= spec.max_replicas


@given(specs(), counts, st.lists(moments, max_size=12))
def test_workers_that_hold_claims_are_never_taken_unless_max_says_so(
    spec: ScalingSpec, replicas: int, past: list[tuple[Observation | None, float, float]]
) -> None:
    run = Past(spec, replicas)
    for what, after, ready in past:
        before, decided = run.step(what, after, ready)
        if what is not None and decided < before:
            assert decided >= min(what.busy_workers, before, spec.max_replicas)


@given(specs(), counts, st.lists(moments, max_size=8), queues(), st.booleans())
@example(
    ScalingSpec(
        min_replicas=0,
        max_replicas=4,
        target_age=30.0,
        idle_after=0.0,
        scale_up=ScaleUpSpec(max_step=2, period=1.0),
        scale_down=ScaleDownSpec(stabilization_window=0.0),
    ),
    0,
    [],
    scaling_input(main=10, busy=2, replicas=0, ready=0, oldest_age=9.0),
    False,
)
@settings(deadline=None)
def test_a_repeated_observation_adds_workers_first_and_never_after_a_removal(
    spec: ScalingSpec,
    replicas: int,
    past: list[tuple[Observation | None, float, float]],
    what: Observation,
    is_idle: bool,
) -> None:
    if is_idle:
        what = scaling_input(main=0, busy=0, replicas=0, ready=0)
    run = Past(spec, replicas)
    for observation, after, ready in past:
        run.step(observation, after, ready)
    trail = [run.step(what, 7.0)[1] for _ in range(300)]
    changes = [later - earlier for earlier, later in pairwise(trail) if later != earlier]
    # More workers are ordered than are needed once they have started, since items become older until then. Without
    # a window the surplus goes at once; what must not happen is that it comes back.
    assert changes == sorted(changes, key=lambda change: change < 0)


@given(specs(), counts, st.lists(moments, max_size=8), queues())
@settings(deadline=None)
def test_the_same_observation_ends_at_rest_if_steps_are_not_limited(
    spec: ScalingSpec, replicas: int, past: list[tuple[Observation | None, float, float]], what: Observation
) -> None:
    spec = replace(
        spec,
        scale_up=replace(spec.scale_up, max_step=None),
        scale_down=replace(spec.scale_down, max_step=None),
    )
    run = Past(spec, replicas)
    for observation, after, ready in past:
        run.step(observation, after, ready)
    trail = [run.step(what, 30.0)[1] for _ in range(120)]  # eight of the longest windows take 2,400 s
    assert len(set(trail[-30:])) == 1


@given(
    specs(),
    counts,
    st.lists(moments, max_size=6),
    queues(),
    st.integers(min_value=1, max_value=1000),
    st.booleans(),
)
def test_more_backlog_never_means_fewer_workers(
    spec: ScalingSpec,
    replicas: int,
    past: list[tuple[Observation | None, float, float]],
    what: Observation,
    more: int,
    is_due: bool,
) -> None:
    few, many = Past(spec, replicas), Past(spec, replicas)
    for observation, after, ready in past:
        few.step(observation, after, ready)
        many.step(observation, after, ready)
    larger = (
        replace(what, delayed_due=what.delayed_due + more) if is_due else replace(what, main=what.main + more)
    )
    assert many.step(larger)[1] >= few.step(what)[1]


@given(specs(), counts, st.lists(moments, max_size=6), queues(), ages, ages)
def test_an_older_item_never_means_fewer_workers(
    spec: ScalingSpec,
    replicas: int,
    past: list[tuple[Observation | None, float, float]],
    what: Observation,
    one: float,
    other: float,
) -> None:
    assume(what.main > 0)
    young, old = Past(spec, replicas), Past(spec, replicas)
    for observation, after, ready in past:
        young.step(observation, after, ready)
        old.step(observation, after, ready)
    decided = young.step(replace(what, oldest_age=min(one, other)))[1]
    assert old.step(replace(what, oldest_age=max(one, other)))[1] >= decided


@given(specs(), st.integers(min_value=1, max_value=40), st.lists(moments, max_size=40))
def test_zero_comes_only_after_idle_after_of_seen_idleness(
    spec: ScalingSpec, replicas: int, past: list[tuple[Observation | None, float, float]]
) -> None:
    spec = replace(spec, min_replicas=0)
    run, idle_since = Past(spec, replicas), None
    for what, after, ready in past:
        before, decided = run.step(what, after, ready)
        is_idle = what is not None and what.main + what.busy + what.delayed_due + what.busy_workers == 0
        idle_since = (run.now if idle_since is None else idle_since) if is_idle else None
        if before > 0 and decided == 0:
            assert idle_since is not None
            assert run.now - idle_since >= (spec.idle_after or 0.0)


@given(specs(), st.lists(st.sampled_from([0.5, 2.0, 10.0]), min_size=1, max_size=60))
def test_an_idle_queue_does_get_to_zero(spec: ScalingSpec, pauses: list[float]) -> None:
    run = Past(replace(spec, min_replicas=0), 7)
    idle = scaling_input(main=0, busy=0, replicas=0, ready=0)
    run.step(idle)
    for after in pauses:
        run.step(idle, after)
    if sum(pauses) >= (spec.idle_after or 0.0):
        assert run.replicas == 0


@given(specs(), queues())
def test_from_zero_a_waiting_item_gets_a_worker_at_once(spec: ScalingSpec, what: Observation) -> None:
    assume(what.main + what.delayed_due > 0)
    assert Past(spec, 0).step(what)[1] >= 1


@given(specs(), counts, st.integers(min_value=1, max_value=20), st.lists(moments, min_size=2, max_size=20))
def test_steps_are_limited(
    spec: ScalingSpec, replicas: int, step: int, past: list[tuple[Observation | None, float, float]]
) -> None:
    spec = replace(
        spec,
        scale_up=replace(spec.scale_up, max_step=step),
        scale_down=replace(spec.scale_down, max_step=step),
        idle_after=1e9,
    )
    run = Past(spec, min(max(replicas, spec.min_replicas), spec.max_replicas))
    for what, after, ready in past:
        before, decided = run.step(what, after, ready)
        assert abs(decided - before) <= step


@given(specs(), counts, st.lists(st.integers(min_value=0, max_value=4000), min_size=50, max_size=200))
@settings(deadline=None, max_examples=30)
def test_the_state_stays_small(spec: ScalingSpec, replicas: int, mains: list[int]) -> None:
    run = Past(replace(spec, max_replicas=1000, items_per_replica=1), replicas)
    for main in [*sorted(mains, reverse=True), *mains]:
        run.step(scaling_input(main=main, busy=0, replicas=0, ready=0, oldest_age=0.0 if main else None), 0.5)
        assert len(run.state.wanted) <= MOST_WANTED
        assert all(earlier[1] > later[1] for earlier, later in pairwise(run.state.wanted))


@given(specs(), counts, st.lists(moments, max_size=8), st.lists(counts, min_size=20, max_size=20))
@settings(deadline=None)
def test_in_the_window_after_a_wish_none_of_its_workers_is_removed(
    spec: ScalingSpec, replicas: int, past: list[tuple[Observation | None, float, float]], mains: list[int]
) -> None:
    window = 30.0
    spec = replace(spec, idle_after=1e9, scale_down=replace(spec.scale_down, stabilization_window=window))
    run = Past(spec, replicas)
    for what, after, ready in past:
        run.step(what, after, ready)
    raised_at, raised_to = 0.0, 0
    for main in mains:
        before, decided = run.step(
            scaling_input(main=main, busy=0, replicas=0, ready=0, oldest_age=0.0 if main else None), 3.0
        )
        if decided > before:
            raised_at, raised_to = run.now, decided
        elif decided < before and decided < raised_to:
            assert run.now - raised_at >= window
