"""The metrics of several sidecars on one page."""

from prometheus_client.parser import text_string_to_metric_families

from claimq_local.workers.sidecar_metrics import merged
from claimq_sidecar.metrics import Metrics

PAGE = """# HELP claimq_sidecar_verdicts_total Verdicts.
# TYPE claimq_sidecar_verdicts_total counter
claimq_sidecar_verdicts_total{verdict="done"} 3.0
# HELP claimq_sidecar_draining 1 during a drain.
# TYPE claimq_sidecar_draining gauge
claimq_sidecar_draining 0.0
"""


def up(*workers: str) -> str:
    """The lines about sidecars that have answered."""
    lines = "".join(f'claimq_sidecar_up{{name="q",worker="{one}"}} 1\n' for one in workers)
    help_text = "1 if the sidecar of the worker answered this scrape, 0 if it did not."
    return f"# HELP claimq_sidecar_up {help_text}\n# TYPE claimq_sidecar_up gauge\n{lines}"


def test_each_family_is_there_once_with_the_series_of_all_sidecars() -> None:
    pages = [({"name": "q", "worker": f"q-{number}"}, PAGE) for number in (1, 2)]
    assert (
        merged(pages)
        == f"""{up("q-1", "q-2")}# HELP claimq_sidecar_verdicts_total Verdicts.
# TYPE claimq_sidecar_verdicts_total counter
claimq_sidecar_verdicts_total{{name="q",worker="q-1",verdict="done"}} 3.0
claimq_sidecar_verdicts_total{{name="q",worker="q-2",verdict="done"}} 3.0
# HELP claimq_sidecar_draining 1 during a drain.
# TYPE claimq_sidecar_draining gauge
claimq_sidecar_draining{{name="q",worker="q-1"}} 0.0
claimq_sidecar_draining{{name="q",worker="q-2"}} 0.0
"""
    )


def test_another_help_text_of_a_family_does_not_add_a_line() -> None:
    newer = PAGE.replace("Verdicts.", "Ended claims.")
    page = merged([({"worker": "a"}, PAGE), ({"worker": "b"}, newer)])
    assert page.count("# HELP claimq_sidecar_verdicts_total") == 1
    assert page.count("claimq_sidecar_verdicts_total{") == 2


def test_a_sidecar_without_an_answer_is_reported_beside_the_others() -> None:
    page = merged([({"worker": "a"}, PAGE), ({"worker": "b"}, None)])
    assert 'claimq_sidecar_up{worker="b"} 0\n' in page
    assert page.replace('claimq_sidecar_up{worker="b"} 0\n', "") == merged([({"worker": "a"}, PAGE)])


def test_what_is_no_metric_of_a_sidecar_is_left_out() -> None:
    foreign = "<html>\nclaimq_sidecar_draining nothing here\nclaimq_queue_items 7\nprocess_open_fds 3.0\n"
    nothing = merged([({"worker": "a"}, ""), ({"worker": "b"}, "")])
    assert merged([({"worker": "a"}, foreign), ({"worker": "b"}, "")]) == nothing
    assert [line for line in nothing.splitlines() if not line.startswith("#")] == [
        'claimq_sidecar_up{worker="a"} 1',
        'claimq_sidecar_up{worker="b"} 1',
    ]
    assert merged([({"worker": "a"}, PAGE + foreign)]) == merged([({"worker": "a"}, PAGE)])


def test_the_page_of_a_sidecar_keeps_all_its_series() -> None:
    metrics = Metrics()
    metrics.count_verdict("done")
    metrics.observe_request("/v1/claim", 200, 0.1)
    page = metrics.render(lambda _: None).decode()
    before = {one.name: one for one in text_string_to_metric_families(page) if "process_" not in one.name}
    after = {one.name: one for one in text_string_to_metric_families(merged([({"worker": "w"}, page)]))}
    assert after.pop("claimq_sidecar_up").samples[0].value == 1
    assert after.keys() == before.keys()
    for name, family in after.items():
        assert (family.type, family.documentation) == (before[name].type, before[name].documentation)
        assert [(one.name, one.labels, one.value) for one in family.samples] == [
            (one.name, {**one.labels, "worker": "w"}, one.value) for one in before[name].samples
        ]
