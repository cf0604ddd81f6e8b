"""Redirect maps for site generators, which write a page that redirects: mkdocs-redirects and sphinx-reredirects.

A redirect maps the source file of an old page to a full URL. The source file of the new page is unknown: `guide/` may
be built from `guide.md` or from `guide/index.md`.
"""

from __future__ import annotations

import json

from streams.find.map_formats.map_row import MapRow, percent_encode

_SPHINX_WILDCARDS = "*?[]"
_HTML = ".html"


def write_mkdocs(rows: list[MapRow]) -> str:
    """Write the settings of the plugin in mkdocs.yml."""
    lines = "".join(f"        {_quote(_mkdocs_source(row))}: {_quote(_target(row))}\n" for row in rows)
    redirect_maps = f"redirect_maps:\n{lines}" if rows else "redirect_maps: {}\n"
    return f"# In mkdocs.yml, add this to the other plugins.\nplugins:\n  - redirects:\n      {redirect_maps}"


def find_mkdocs_problem(row: MapRow) -> str | None:
    """Report pages that MkDocs cannot write. With `use_directory_urls`, all its URLs end with a slash."""
    has_file_name = row.page_path.endswith(_HTML) and not row.page_path.endswith("index.html")
    if has_file_name and not row.target.endswith(_HTML):
        return "ends with .html, but MkDocs would write it with / at the end, as it did with the new URL"
    return _find_page_problem(row, "#")  # the plugin takes # for the start of an anchor


def _mkdocs_source(row: MapRow) -> str:
    folder, is_folder = row.page_path.removesuffix("/"), row.page_path.endswith("/")
    if not row.page_path or (is_folder and row.target.endswith(_HTML)):
        return f"{row.page_path}index.md"
    # MkDocs builds `x/index.html` from `x.md` if `use_directory_urls` is on, which is the default.
    return f"{folder.removesuffix(_HTML)}.md"


def write_sphinx(rows: list[MapRow]) -> str:
    """Write the dictionary `redirects` for conf.py."""
    lines = "".join(f"    {_quote(_sphinx_source(row))}: {_quote(_target(row))},\n" for row in rows)
    return f"# In conf.py, with the extension sphinx_reredirects:\nredirects = {{\n{lines}}}\n"


def find_sphinx_problem(row: MapRow) -> str | None:
    """Report URLs that are not pages, and names with wildcards."""
    return _find_page_problem(row, _SPHINX_WILDCARDS)


def _sphinx_source(row: MapRow) -> str:
    is_folder = not row.page_path or row.page_path.endswith("/")
    return f"{row.page_path}index" if is_folder else row.page_path.removesuffix(_HTML)


def page_match_key(host: str, path: str, _query: str) -> str:
    """Return the URL without its suffix (`/`, `.html` or `/index.html`): servers treat these as one page."""
    return host + path.removesuffix("index.html").removesuffix(_HTML).rstrip("/")


def _find_page_problem(row: MapRow, special_characters: str) -> str | None:
    """Report URLs that are not pages, and file names outside the folder of the built site."""
    if row.query:
        return "has a query, which a file name cannot contain"
    segments = row.page_path.removesuffix("/").split("/") if row.page_path else []
    # U+FFFD replaces bytes that are not UTF-8.
    has_bad_character = not row.page_path.isprintable() or any(
        c in row.page_path for c in f"\\\ufffd{special_characters}"
    )
    if has_bad_character or any(segment in {"", ".", ".."} for segment in segments):
        return "has a path that is not a safe file name"
    is_page = row.page_path.endswith(("/", _HTML)) or "." not in "".join(segments[-1:])
    return None if is_page else "is a file, but not a page that ends with / or .html"


def _target(row: MapRow) -> str:
    # Both plugins insert the target into a script without escaping it.
    return percent_encode(row.target, "\\")


def _quote(text: str) -> str:
    """Quote printable text as a string that YAML and Python read alike."""
    return json.dumps(text, ensure_ascii=False)
