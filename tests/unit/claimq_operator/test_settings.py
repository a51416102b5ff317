"""The operator's settings, with all problems at once."""

import pytest

from claimq_control.grants import Grants, QueueGrants
from claimq_operator.settings import OperatorSettings
from claimq_process.environment import InvalidSettings


def test_only_the_sidecar_image_is_required() -> None:
    settings = OperatorSettings.from_environment({"CLAIMQ_SIDECAR_IMAGE": "s:1"})
    assert settings == OperatorSettings(sidecar_image="s:1")


def test_every_setting_can_be_given() -> None:
    settings = OperatorSettings.from_environment(
        {
            "CLAIMQ_SIDECAR_IMAGE": "s:1",
            "CLAIMQ_SIDECAR_PULL_POLICY": "Never",
            "CLAIMQ_NAMESPACES": "a, b,a",
            "CLAIMQ_OPERATOR_NAMESPACE": "claimq",
            "CLAIMQ_OPERATOR_ID": "pod-1",
            "CLAIMQ_LEADER_ELECTION": "false",
            "CLAIMQ_LEASE_NAME": "mine",
            "CLAIMQ_LEASE_DURATION": "30s",
            "CLAIMQ_HTTP_HOST": "127.0.0.1",
            "CLAIMQ_HTTP_PORT": "0",
            "CLAIMQ_BUSY_PERIOD": "500ms",
            "CLAIMQ_IDLE_PERIOD": "5s",
            "CLAIMQ_STATUS_PERIOD": "20s",
            "CLAIMQ_RESYNC_PERIOD": "2m",
            "CLAIMQ_DELETION_PATIENCE": "1m",
            "CLAIMQ_CLUSTER_ID": "east-1",
            "CLAIMQ_QUEUE_NAMES": "team-*=orders.*, a=b",
            "CLAIMQ_PASSWORD_HOSTS": "*=*.redis.svc:6379",
            "CLAIMQ_WORKERS_MAY": "Root, HostPath,Root",
            "CLAIMQ_LOG_LEVEL": "debug",
        }
    )
    assert settings == OperatorSettings(
        sidecar_image="s:1",
        sidecar_pull_policy="Never",
        namespaces=("a", "b"),
        own_namespace="claimq",
        identity="pod-1",
        elects_leader=False,
        lease_name="mine",
        lease_duration=30.0,
        http_host="127.0.0.1",
        http_port=0,
        busy_period=0.5,
        idle_period=5.0,
        status_period=20.0,
        resync_period=120.0,
        deletion_patience=60.0,
        cluster_id="east-1",
        grants=QueueGrants(
            queue_names=Grants((("team-*", "orders.*"), ("a", "b"))),
            password_hosts=Grants((("*", "*.redis.svc:6379"),)),
        ),
        workers_may=("Root", "HostPath"),
        log_level="debug",
    )


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(InvalidSettings) as raised:
        OperatorSettings.from_environment(
            {
                "CLAIMQ_SIDECAR_PULL_POLICY": "Sometimes",
                "CLAIMQ_NAMESPACES": "Media",
                "CLAIMQ_LEADER_ELECTION": "yes",
                "CLAIMQ_LEASE_DURATION": "1s",
                "CLAIMQ_HTTP_PORT": "http",
                "CLAIMQ_BUSY_PERIOD": "1",
                "CLAIMQ_CLUSTER_ID": "east 1",
                "CLAIMQ_QUEUE_NAMES": "orders",
                "CLAIMQ_PASSWORD_HOSTS": "a=b c,=d",
                "CLAIMQ_WORKERS_MAY": "root",
                "CLAIMQ_LOG_LEVEL": "loud",
            }
        )
    assert [problem.partition(":")[0] for problem in raised.value.problems] == [
        "CLAIMQ_SIDECAR_IMAGE",
        "CLAIMQ_SIDECAR_PULL_POLICY",
        "CLAIMQ_NAMESPACES",
        "CLAIMQ_LEADER_ELECTION",
        "CLAIMQ_LEASE_DURATION",
        "CLAIMQ_HTTP_PORT",
        "CLAIMQ_BUSY_PERIOD",
        "CLAIMQ_CLUSTER_ID",
        "CLAIMQ_QUEUE_NAMES",
        "CLAIMQ_PASSWORD_HOSTS",
        "CLAIMQ_PASSWORD_HOSTS",
        "CLAIMQ_WORKERS_MAY",
        "CLAIMQ_LOG_LEVEL",
    ]
