"""Redirect maps for web servers: nginx, Apache and Caddy. Comments at the top of each map explain how to use it."""

from __future__ import annotations

from streams.find.map_formats.map_row import MapRow, percent_encode

_APACHE_LINE_MAX = 1000  # mod_rewrite reads 1024 bytes at a time, and treats the rest of a line as a new entry
_APACHE_SLASH_COMMENT = (
    "# AllowEncodedSlashes NoDecode\n"
    "# The line above belongs in the virtual host. Without it, Apache answers 404 to paths with %2F before it reads\n"
    "# this map.\n"
)
_NGINX_WORD_MAX = 4000  # nginx accepts words of fewer than 4096 bytes, including quotes and escapes
_NGINX_HASH_SIZE_MIN = 2048  # nginx's default for map_hash_max_size
_NGINX_DOLLAR = "$moved_dollar"  # the variable that contains a $
_CADDY_VARIABLE = "moved_to"


def write_nginx(rows: list[MapRow]) -> str:
    """Write two maps: from old URLs to targets, and from old URLs to their exact paths, because look-ups ignore case.

    With the first map alone, a page whose name differs from an old name only in case would also be redirected. If the
    site changed all names to lower case, the page would be redirected to itself.
    """
    words = [_nginx_words(row) for row in rows]
    longest_key = max((len(row.source) for row in rows), default=0)
    text = (
        "# Include in http{}, before the first map. If http{} sets these two sizes already, keep the larger values.\n"
        f"map_hash_bucket_size {_next_power_of_two(longest_key + 64)};\n"
        f"map_hash_max_size {_next_power_of_two(max(_NGINX_HASH_SIZE_MIN, 2 * len(rows)))};\n"
        f'geo {_NGINX_DOLLAR} {{ default "$"; }}\n'
        "# In a server block: if ($moved_from = $request_uri) { return 301 $moved_to; }\n"
    )
    for column, variable in ((1, "$moved_to"), (2, "$moved_from")):
        lines = "".join(f"    {row_words[0]} {row_words[column]};\n" for row_words in words)
        text += f'map "$http_host$request_uri" {variable} {{\n    default "";\n{lines}}}\n'
    return text


def find_nginx_problem(row: MapRow) -> str | None:
    """Report words that are too long."""
    return "is too long for an nginx map" if max(map(len, _nginx_words(row))) > _NGINX_WORD_MAX else None


def nginx_unique_key(host: str, path: str, query: str) -> str:
    """Return the URL in lower case, because the keys of an nginx map are case-insensitive."""
    return (host + path + query).lower()


def _nginx_words(row: MapRow) -> tuple[str, str, str]:
    """Return the look-up key, the target, and the path with its query in the exact spelling, all quoted."""
    # A $ in a value begins the name of a variable. nginx has no escape for $, so a variable contains the $.
    path = _quote(row.path + row.query).replace("$", f"${{{_NGINX_DOLLAR[1:]}}}")
    return _quote(row.source), _quote(row.target.replace("$", "%24")), path


def _next_power_of_two(minimum: int) -> int:
    return 1 << (minimum - 1).bit_length()


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_apache(rows: list[MapRow]) -> str:
    """Write a text file for RewriteMap."""
    header = (
        "# RewriteEngine On\n"
        '# RewriteMap moved "txt:/etc/apache2/moved.map"\n'
        "# RewriteMap lower int:tolower\n"
        '# RewriteCond "%{THE_REQUEST}" "^\\S+ (\\S+)"\n'
        '# RewriteCond "${moved:${lower:%{HTTP_HOST}}%1}" "(.+)"\n'
        '# RewriteRule "^" "%1" [R=301,L,NE,QSD,UnsafeAllow3F]\n'
        "# Omit UnsafeAllow3F on Apache before 2.4.60, which does not know this flag.\n"
    )
    if any("%2f" in row.path.lower() for row in rows):
        header += _APACHE_SLASH_COMMENT
    return header + "".join(f"{_apache_line(row)}\n" for row in rows)


def find_apache_problem(row: MapRow) -> str | None:
    """Report lines that are too long."""
    return "is too long for an Apache map" if len(_apache_line(row)) > _APACHE_LINE_MAX else None


def _apache_line(row: MapRow) -> str:
    return f"{row.source} {row.target}"


def write_caddy(rows: list[MapRow]) -> str:
    """Write directives for a site block of a Caddyfile."""
    targets = (percent_encode(row.target, "{}\\") for row in rows)
    lines = "".join(f'    "{row.source}" "{target}"\n' for row, target in zip(rows, targets, strict=True))
    return (
        "# Import this file in the site block of each old host.\n"
        f'map {{http.request.hostport}}{{http.request.uri}} {{{_CADDY_VARIABLE}}} {{\n    default ""\n{lines}}}\n'
        f'@moved expression `{{{_CADDY_VARIABLE}}} != ""`\n'
        f"redir @moved {{{_CADDY_VARIABLE}}} permanent\n"
    )


def find_caddy_problem(row: MapRow) -> str | None:
    r"""Report what a quoted word cannot contain: braces begin placeholders, and a \ at the end escapes the quote."""
    if any(character in row.query for character in "{}\\"):
        return "has a query with {, } or \\, which a Caddyfile cannot match"
    # Caddy refuses a map in which the name of its own variable occurs.
    has_variable = _CADDY_VARIABLE in row.target or _CADDY_VARIABLE in row.source
    return f"contains {_CADDY_VARIABLE}, the name of the variable of the Caddy map" if has_variable else None
