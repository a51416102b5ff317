"""CEL rules for ``spec.redis``: one address, no password in it, and fields that go with it.

Ports, IPv6 addresses and database numbers are checked by the parser alone: the operator reports them in the condition
Ready (SpecInvalid). Regular expressions would repeat the parser badly.
"""

from __future__ import annotations

from claimq_control.crd.cel_rule import CelRule, literal
from claimq_control.manifest.redis_spec import URL_PATTERN

# The steps of checking an address, in order: only the first one that fails is reported.
_GOOD_SCHEME = f"self.url.matches({literal(URL_PATTERN)})"
_IS_SOCKET = "self.url.startsWith('unix:')"
_HAS_SOCKET_PATH = "self.url.matches('^unix://([^@/?]*@)?/[^?]*[^?/]')"
_HAS_HOST = "!self.url.matches('^[a-z+]+://([^@]*@)?([^/?]*,)?(/|$|[?]|,|:)')"
_HAS_MASTER = "(!self.url.matches('^rediss?[+]sentinel://') || self.url.matches('^[a-z+]+://[^/]+/[^/?]+'))"
_IS_CLUSTER = "has(self.cluster) && self.cluster"


def _url(code: str, rule: str, message: str, *steps: str, field: str = ".url") -> CelRule:
    """A rule on an address that has passed the steps before."""
    before = "".join(f" || !{step}" for step in (_GOOD_SCHEME, *steps))
    return CelRule(code, f"!has(self.url){before} || {rule}", message, field)


REDIS_RULES = (
    CelRule(
        "one-address",
        "!(has(self.url) && has(self.secretRef))",
        "has both url and secretRef; keep one of them and remove the other",
    ),
    CelRule(
        "one-address",
        "has(self.url) || has(self.secretRef)",
        "has neither url nor secretRef; give one of them",
    ),
    _url(
        "no-password-in-url",
        "!(self.url.matches('^[a-z+]+://[^@]*:[^@]*@') || self.url.contains('password='))",
        "holds a password, which everyone who may read this object would see; remove it from the url "
        "and name a Secret in passwordSecretRef, or put the whole url in a Secret and name that in secretRef",
    ),
    _url(
        "no-password-in-url",
        "!has(self.user) || !self.url.matches('^[a-z+]+://[^@/]+@')",
        "is given in the url as well; remove one of the two",
        field=".user",
    ),
    _url(
        "url-form",
        f"!{_IS_SOCKET} || {_HAS_SOCKET_PATH}",
        "has no path of a socket, or a host before it; write unix:///path/to/socket?db=0",
    ),
    _url(
        "url-form",
        f"{_IS_SOCKET} || {_HAS_HOST}",
        "has an empty host; write redis://host:6379/0",
    ),
    _url(
        "url-form",
        _HAS_MASTER,
        "names no master; write redis+sentinel://host:26379,host:26379/master/0",
        f"({_HAS_HOST})",
    ),
    CelRule(
        "one-topology",
        f"!(has(self.sentinel) && {_IS_CLUSTER})",
        "is set and cluster is true; a server is one or the other: remove one of them",
        ".sentinel",
    ),
    _url(
        "one-topology",
        f"!has(self.sentinel) || ({_IS_CLUSTER}) || self.url.matches('^rediss?://')",
        "goes with a url of redis:// or rediss:// only; correct the url or remove sentinel",
        field=".sentinel",
    ),
    _url(
        "one-topology",
        f"!({_IS_CLUSTER}) || has(self.sentinel) || self.url.matches('^rediss?([+]cluster)?://')",
        "goes with a url of redis://, rediss:// or redis+cluster:// only; correct the url or remove cluster",
        field=".cluster",
    ),
    _url(
        "one-topology",
        f"!self.url.matches({_IS_CLUSTER} ? '^rediss?([+]cluster)?://' : '^rediss?[+]cluster://')"
        " || self.url.matches('^[a-z+]+://[^/?]+/*(0/*)?([?].*)?$')",
        "names a database; a cluster has only 0: remove it from the url",
    ),
    _url(
        "tls-needs-rediss",
        "!has(self.tls) || self.url.startsWith('rediss')",
        "is set, but the url makes no TLS connection; begin the url with rediss://, or remove tls",
        field=".tls",
    ),
)
