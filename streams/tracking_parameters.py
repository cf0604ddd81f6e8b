"""Find a captured URL that differs from a URL only by tracking parameters, such as `utm_source`.

Campaigns and mail programs append these parameters to links, so dead links often have them although no crawler
captured them. Patterns, such as `utm_*`, name the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import product
from re import split

from state.view import View

_CAPTURES_PER_PREFIX = 32  # only their keys are read


def known_key(view: View, key: bytes, patterns: Sequence[str]) -> bytes | None:
    """Return the key of a captured URL that differs from the URL of `key` only by tracking parameters, or None.

    The URL without these parameters is preferred, then the most recently captured one. The parameters of a captured
    URL are recognised at the beginning and at the end of its query, where they are one range of keys per pattern. A
    limit bounds the number of captures read per range, so a URL with many such variants may not be recognised.
    """
    plain_key = without_tracking_parameters(key, patterns)
    if plain_key != key and view.captures(plain_key):
        return plain_key
    path, query_mark, _ = plain_key.partition(b"?")
    beginnings = (path + b"?", plain_key + b"&") if query_mark else (path + b"?",)
    names = (split(r"[*?\[]", pattern, maxsplit=1)[0].encode() for pattern in patterns)
    prefixes = [beginning + name for beginning, name in product(beginnings, names)]
    possible_keys = view.url_keys_under_each(prefixes, _CAPTURES_PER_PREFIX)
    keys = [k for k in possible_keys if k != key and without_tracking_parameters(k, patterns) == plain_key]
    histories = [captures for captures in view.histories(keys) if captures]
    latest = max((captures[-1] for captures in histories), key=lambda c: (c.sweep, c.time, c.key), default=None)
    return latest.key if latest else None


def without_tracking_parameters(key: bytes, patterns: Sequence[str]) -> bytes:
    """Return the key of the same URL without the query parameters whose names match a pattern."""
    path, _, query = key.partition(b"?")
    parameters = query.split(b"&") if query else []
    others = [parameter for parameter in parameters if not _is_tracking_parameter(parameter, patterns)]
    if len(others) == len(parameters):
        return key
    return path + b"?" + b"&".join(others) if others else path


def _is_tracking_parameter(parameter: bytes, patterns: Sequence[str]) -> bool:
    name = parameter.partition(b"=")[0].decode("ascii", "replace")
    return any(fnmatchcase(name, pattern) for pattern in patterns)
