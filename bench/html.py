"""Wrap a synthetic text in HTML with as much markup as an ordinary page has.

According to the HTTP Archive's Web Almanac 2024, the median page has about 600 elements. Most belong to menus, cards,
icons and footers, not to the text. Everything but the text is the same on all pages of a site.
"""

from __future__ import annotations

from functools import lru_cache

_ICON = '<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="M2 4h12v2H2zm0 5h12v2H2z"></path></svg>'
_STYLE = "\n".join(f".block-{i} {{ margin: {i}px 0 {i}px 4%; color: #{i * 4099:06x}; }}" for i in range(60))
_SCRIPT = "\n".join(f'window.queue.push(["event{i}", {{"page": {i}, "sent": false}}]);' for i in range(60))


def page(title: str, text: str, url: str, labels: tuple[str, ...]) -> str:
    """Return a page whose article is `text`. `labels` are the words of the site's links, at least 100."""
    host = url.split("/", 3)[2]
    before, after = _frame(host, labels)
    return _PAGE.format(
        title=title, url=url, before=before, body=_article(text), after=after, style=_STYLE, script=_SCRIPT
    )


def _article(text: str) -> str:
    body = []
    for i, paragraph in enumerate(text.split("\n\n")):
        sentences = [sentence.split(" ") for sentence in paragraph.split(". ")]
        for j, words in enumerate(sentences):
            at = len(words) // 2
            if j % 2:
                words[at] = f'<a href="/read/{words[at]}/{j}" class="inline" title="{words[at]}">{words[at]}</a>'
            elif j % 3 == 2:
                words[at] = f"<em>{words[at]}</em>"
            else:
                words[at] = f'<span class="term" data-term="{j}">{words[at]}</span>'
        joined = ". ".join(" ".join(words) for words in sentences)
        heading = (
            f'<h2 id="part-{i}"><a href="#part-{i}">{" ".join(paragraph.split()[:4])}</a></h2>\n'
            if i % 3 == 2
            else ""
        )
        body.append(f'{heading}<div class="block block-{i}"><p>{joined}</p></div>\n')
    return "".join(body)


@lru_cache(4096)
def _frame(host: str, labels: tuple[str, ...]) -> tuple[str, str]:
    """Return the markup before and after the article, the same on every page of a site."""
    menu = "".join(
        f'<li class="menu-item menu-item-{i}"><a href="https://{host}/{label}/" data-track="nav-{i}">{_ICON}'
        f'<span class="label">{label}</span></a></li>\n'
        for i, label in enumerate(labels[:45])
    )
    cards = "".join(
        f'<div class="card" data-card="{i}"><a class="card-link" href="/{label}/{i}.html"><figure><img src="/media/{i}.jpg" '
        f'alt="{label}" loading="lazy" width="320" height="180"></figure><h3 class="card-title">{label} {labels[-1 - i]}</h3>'
        f'<p class="card-text">{" ".join(labels[i : i + 6])}</p><time datetime="2025-01-{i + 1:02d}">{i + 1} January</time>'
        f'<span class="tags"><span>{label}</span></span></a></div>\n'
        for i, label in enumerate(labels[45:63])
    )
    foot = "".join(
        f'<li><a href="/{label}" rel="nofollow">{label} {labels[i]}</a></li>\n'
        for i, label in enumerate(labels[63:100])
    )
    before = f'<header><a href="https://{host}/" class="logo"><img src="/logo.svg" alt=""></a>\n<nav><ul>\n{menu}</ul></nav></header>'
    return (
        before,
        f"<aside>{cards}</aside>\n<footer><ul>{foot}</ul><p>&copy; 2025 {host} &middot; all rights reserved</p></footer>",
    )


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<link rel="canonical" href="{url}"><meta name="viewport" content="width=device-width, initial-scale=1">
<style>{style}</style><script>window.queue = []; {script}</script></head>
<body>{before}
<main id="content"><article><h1>{title}</h1>
{body}</article></main>
{after}
<script>{script}</script></body></html>
"""
