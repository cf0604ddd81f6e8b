"""Public suffixes: every rule of the list gives the same registered domain as tldextract."""

from __future__ import annotations

import pytest
from tldextract import TLDExtract

from streams.public_suffixes import count_suffix_labels, load_rules
from streams.urls import registered_domain

PREFIXES = ("", "a.", "a.b.", "www.", "xn--p1ai.", "xn--zz.", f"xn--{'a' * 80}.")


def hosts_of_rules() -> set[str]:
    rules = [line.lstrip("!") for line in load_rules() if line and not line.startswith("//")]
    names = {rule.replace("*", "any") for rule in rules} | {rule.removeprefix("*.") for rule in rules}
    return {prefix + name.encode("idna").decode() for name in names for prefix in PREFIXES}


def test_all_rules_agree_with_tldextract() -> None:
    extractor = TLDExtract(suffix_list_urls=(), cache_dir=None)
    hosts = hosts_of_rules()
    assert len(hosts) > 40_000
    for host in hosts:
        parts = extractor.extract_str(host)
        suffix_labels = len(parts.suffix.split(".")) if parts.suffix else 0
        assert count_suffix_labels(host.split(".")) == suffix_labels, host


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("docs.a.co.uk", "a.co.uk"),
        ("co.uk", "co.uk"),
        ("a.b.shop.ck", "b.shop.ck"),
        ("b.www.ck", "www.ck"),
        ("a.github.io", "github.io"),  # rules about private domains are not used
        ("a.b.unlisted", "b.unlisted"),
        ("a.xn--55qx5d.cn", "a.xn--55qx5d.cn"),
        ("docs.apache.org.", "apache.org"),
        ("a." * 30_000 + "co.uk", "a.co.uk"),
    ],
    ids=lambda value: value[-20:],
)
def test_registered_domain(host: str, domain: str) -> None:
    assert registered_domain(host) == domain
