"""The fault of a password that must not be sent to the address of a queue's server. Pure."""

from __future__ import annotations

from claimq_control.fault import Fault
from claimq_control.manifest import RedisSpec
from claimq_control.password_hosts import HOSTS_KEY

REASON = "PasswordHostForbidden"


def forbidden(redis: RedisSpec, secret: str, namespace: str) -> Fault:
    """The fault of an address that the password of this Secret must not be sent to. It quotes no value of a Secret."""
    field = "spec.redis.url" if redis.secret_ref is None else "the address of spec.redis.secretRef"
    message = (
        f'the Secret "{secret}" does not allow its password to be sent to {field}, so no connection is made; list the '
        f'host in the key "{HOSTS_KEY}" of that Secret, put address and password into one Secret, or add '
        f'"{namespace}=HOST" to operator.passwordHosts of the operator\'s chart'
    )
    return Fault(REASON, message, needs_action=True)
