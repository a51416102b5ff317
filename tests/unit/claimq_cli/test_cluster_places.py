"""Which Service or pod a host name of a cluster belongs to."""

import pytest

from claimq_cli.cluster.places import Place, place_of


@pytest.mark.parametrize(
    ("host", "place"),
    [
        ("valkey", Place("service", "valkey", "media")),
        ("valkey.shop.svc", Place("service", "valkey", "shop")),
        ("valkey.shop.svc.cluster.local", Place("service", "valkey", "shop")),
        ("valkey.shop.svc.cluster.local.", Place("service", "valkey", "shop")),
        ("valkey-0.valkey.shop.svc.cluster.local", Place("pod", "valkey-0", "shop")),
        ("valkey-0.valkey.shop.svc", Place("pod", "valkey-0", "shop")),
    ],
)
def test_names_that_pods_use_are_services_and_pods(host: str, place: Place) -> None:
    assert place_of(host, "media") == place


@pytest.mark.parametrize(
    "host",
    [
        "redis.example.com",
        "10.0.0.7",
        "::1",
        "localhost",
        "",
        "a..b",
        "db.example.",
        "a.b.c.d.svc",
        "svc.example.com",
    ],
)
def test_other_hosts_are_outside_the_cluster(host: str) -> None:
    assert place_of(host, "media") is None
