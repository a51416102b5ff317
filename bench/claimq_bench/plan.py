"""How much a run of the benchmarks measures."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """One row's size: items of `size` bytes in batches of `batch`, `items` of them in each of `rounds`."""

    batch: int
    size: int
    items: int
    rounds: int


@dataclass(frozen=True)
class Plan:
    """`settings`: of the cycle, the main one (batch 100, 100 bytes) first."""

    settings: tuple[Setting, ...]
    single_items: int
    consume_items: int
    consume_rounds: int
    scale_rounds: int
    latency_samples: int
    sidecar_items: int
    sidecar_starts: int
    stream_items: int
    push_items: int
    reap_runs: int

    @property
    def is_quick(self) -> bool:
        return self is QUICK


FULL = Plan(
    settings=(
        Setting(100, 100, 10_000, 11),
        Setting(1, 100, 1_000, 7),
        Setting(10, 100, 4_000, 7),
        Setting(500, 100, 20_000, 7),
        Setting(1, 10_000, 500, 7),
        Setting(10, 10_000, 1_000, 7),
        Setting(100, 10_000, 2_000, 7),
        Setting(500, 10_000, 3_000, 7),
    ),
    single_items=10_000,
    consume_items=20_000,
    consume_rounds=7,
    scale_rounds=60,
    latency_samples=500,
    sidecar_items=40_000,
    sidecar_starts=5,
    stream_items=200_000,
    push_items=40_000,
    reap_runs=3,
)
QUICK = Plan(
    settings=(
        Setting(100, 100, 5_000, 5),
        Setting(1, 100, 200, 3),
        Setting(10, 100, 1_000, 3),
        Setting(500, 100, 5_000, 3),
        Setting(1, 10_000, 100, 3),
        Setting(10, 10_000, 300, 3),
        Setting(100, 10_000, 500, 3),
        Setting(500, 10_000, 500, 3),
    ),
    single_items=2_000,
    consume_items=4_000,
    consume_rounds=3,
    scale_rounds=12,
    latency_samples=100,
    sidecar_items=10_000,
    sidecar_starts=2,
    stream_items=20_000,
    push_items=4_000,
    reap_runs=1,
)
