"""Look up public suffixes, such as `co.uk`, in the list that is installed with tldextract.

Only the list is used, because importing tldextract takes a tenth of a second, a third of the time of a query: it
imports an HTTP client to download newer lists. lostfound never downloads a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_LIST_NAME = ".tld_set_snapshot"
_PRIVATE_DOMAINS = (
    "// ===BEGIN PRIVATE DOMAINS==="  # then follow suffixes of companies, such as github.io, which are not used
)
_DNS_LABEL_MAX = 63
_RULE_LABELS_MAX = 8  # no rule has more labels, but a URL may have a host with thousands


def count_suffix_labels(labels: Sequence[str]) -> int:
    """Return how many of the last labels of a host form its public suffix, or 0 if no rule of the list applies.

    The longest rule wins. A rule `*.ck` applies to all names below `ck`, except to `www.ck` if there is a rule
    `!www.ck`. The public suffix of `www.ck` is then `ck`.
    """
    rules, count = load_rules(), 0
    name = ""
    for n, label in enumerate(reversed(labels[-_RULE_LABELS_MAX:]), start=1):
        parent, name = name, f"{_decode_label(label)}.{name}" if name else _decode_label(label)
        if f"!{name}" in rules:
            return n - 1
        if name in rules or (parent and f"*.{parent}" in rules):
            count = n
    return count


@cache
def load_rules() -> frozenset[str]:
    """Return the lines of the list, which are rules and comments, without those for private domains."""
    package = find_spec("tldextract")
    assert package is not None, "tldextract is a dependency"
    assert package.origin is not None, "tldextract is installed as files"
    text = Path(package.origin).with_name(_LIST_NAME).read_text(encoding="utf-8")
    return frozenset(text.partition(_PRIVATE_DOMAINS)[0].splitlines())


def _decode_label(label: str) -> str:
    """Return a label in Unicode, as in the rules, if it is encoded in Punycode."""
    if not label.startswith("xn--") or len(label) > _DNS_LABEL_MAX:
        return label
    try:
        return label[4:].encode().decode("punycode")
    except UnicodeError:
        return label
