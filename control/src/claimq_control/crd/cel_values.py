"""CEL rules for single values where the message of a ``pattern`` would only show a regular expression."""

from __future__ import annotations

from claimq_control.crd.cel_rule import CelRule, joined, literal
from claimq_control.manifest.declaring import UNLIMITED, Declared
from claimq_control.manifest.redis_spec import URL_PATTERN


def form_of_text(declared: Declared) -> CelRule:
    """A text of the declaration's pattern. A URL is not repeated: it may hold a password."""
    fix = f"give {declared.form}"
    rule = f"self.matches({literal(declared.pattern or '')})"
    says = "" if declared.pattern == URL_PATTERN else joined('is "', "=self", f'"; {fix}')
    return CelRule("", rule, fix, says=says)


def duration_bounds(declared: Declared) -> CelRule:
    """A duration within the declaration's bounds."""
    least, most = declared.shown(declared.least), declared.shown(declared.most)
    example = declared.default_text() or least
    fix = f"give a duration {declared.range()} with a unit (h, m, s, ms), such as {example}"
    fix += f", or {UNLIMITED}" if declared.unlimited else ""
    bounds = f"duration(self) >= duration('{least}') && duration(self) <= duration('{most}')"
    rule = f"self != '' && self.matches({literal(declared.pattern or '')}) && {bounds}"
    if declared.unlimited:
        rule = f"self == '{UNLIMITED}' || ({rule})"
    return CelRule("", rule, fix, says=joined('is "', "=self", f'"; {fix}'))


def size_bounds(declared: Declared) -> CelRule:
    """A size within the declaration's bounds: a number, or a text whose suffixes CEL knows from quantities."""
    least, most = int(declared.least or 0), int(declared.most or 0)
    number = f"self >= {least} && self <= {most}"
    text = (
        f"type(self) == string && self.matches({literal(declared.pattern or '')}) && "
        f"quantity(self).compareTo(quantity('{least}')) >= 0 && quantity(self).compareTo(quantity('{most}')) <= 0"
    )
    example = declared.default_text() or "1Gi"
    fix = f"give a size in bytes {declared.range()} (units: Ki, Mi, Gi, k, M, G), such as {example}"
    rule = f"type(self) == int ? {number} : {text}"
    return CelRule("", rule, fix, says=joined("is ", "=string(self)", f"; {fix}"))


def quantity(declared: Declared) -> CelRule:
    """A quantity of the declaration's form, not negative."""
    form = f"string(self).matches({literal(declared.pattern or '')})"
    fix = 'give a quantity of 0 or more, for instance "500m", "2" or "256Mi"'
    rule = f"{form} && !quantity(string(self)).isLessThan(quantity('0'))"
    return CelRule("", rule, fix, says=joined("is ", "=string(self)", f"; {fix}"))
