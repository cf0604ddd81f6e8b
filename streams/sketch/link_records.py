"""The records of links, which the modules that extract links pass on, and the rows that describe them.

    <a class="m" href="../x.html#top" rel="nofollow">The <b>next</b> page</a>   on https://a.org/guide/page.html

    org,a)/x.html │ 00 │ 6 │ The next page
    target        │    │ flags in decimal digits │ anchor text

Such a sequence of bytes is a record. The records of a page follow one another in a buffer, with a row of offsets and
flags for each.
"""

from __future__ import annotations

A, AREA, LINK, BASE = 0, 1, 2, 3  # the elements that contain links
IN_NAVIGATION = 4  # added to the number of an element inside <nav>, <footer> or <aside>
NAVIGATION, NOFOLLOW, HTTPS, KIND_SHIFT = 1, 2, 4, 3  # flags of a record, with the kind of link above them
IS_CUT = 64  # the anchor was longer than the limit; this flag is not part of the record's bytes
START, TARGET_END, ANCHOR_START, END, FLAGS = range(5)  # the columns of a record's row: offsets, and its flags
RECORD_COLUMNS = 5
ODD, NO_LINK = -1, -2  # in the column START: an unusual tag, to be parsed in Python; and a tag without a link
