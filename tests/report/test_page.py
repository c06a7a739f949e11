"""The card as a page: all that the card says, nothing that runs or is loaded from elsewhere, and readable by all."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from ostrakon.report.charts import Bar, bar_chart
from ostrakon.report.page import ASKED, STYLE, page

HOSTILE = "<script>alert(1)</script> ![x](https://example.org/x.png) [y](javascript:alert(1)) <https://example.org>"
CARD = f"""# Model card

## In plain words

Somebody who guesses.

## Privacy

**Everything is (1, 1e-05)-differentially private.**

| Question | Answer |
|---|---|
| Who is trusted? | The operator. |

| | |
|---|---|
| Labels | {HOSTILE} |

```python
from load_student import Student
```
"""
BARS = {"var(--answered)", "var(--check)", "var(--unused)"}
TOLD = '60 "answers" & <more>'
ASKED_ABOUT = (
    '<figure><ul class="tiles"><li><span>a</span><img alt="" src="data:image/png;base64,aaaa"></li></ul></figure>'
)
CHART = bar_chart(TOLD, [Bar(name=HOSTILE, share=0.25, value="25%")])


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links, self.text, self.attributes = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes.append(dict(attributes))
        self.links += [value for name, value in attributes if name in ("src", "href", "srcset", "style", "onload")]

    def handle_data(self, data):
        self.text.append(data)

    def of(self, tag):
        return [given for name, given in zip(self.tags, self.attributes, strict=True) if name == tag]


def shown(card=CARD, asked=None):
    return page(card, title='<b> "Yes"', charts=CHART, gallery_html=asked)


def read(*arguments, **options):
    reader = Reader()
    reader.feed(shown(*arguments, **options))
    return reader


def test_the_page_says_what_the_card_says():
    text = " ".join(read().text)
    for words in (
        "(1, 1e-05)-differentially private",
        "Who is trusted?",
        "The operator.",
        "from load_student import Student",
    ):
        assert words in text
    assert read().tags.count("table") == 2


def test_the_charts_are_above_the_tables_and_below_the_first_page():
    reader = read()
    assert reader.links == ["width: 25.0%"]
    assert reader.tags.index("figure") < reader.tags.index("table")
    assert "&quot;answers&quot; &amp; &lt;more&gt;" in shown()
    assert shown().index("Somebody who guesses") < shown().index("<figure>")
    assert "<title>&lt;b&gt; &quot;Yes&quot;</title>" in shown()


def test_names_cannot_run_or_load_anything():
    reader = read(asked=ASKED_ABOUT)
    assert not {"script", "a", "link", "iframe", "object", "form"} & set(reader.tags)
    assert reader.tags.count("img") == 1  # ours
    assert reader.links == ["width: 25.0%", "data:image/png;base64,aaaa"]
    assert "<script>alert(1)</script>" in "".join(reader.text)  # shown as text
    assert not re.search(r"url\(|@import|https?:", STYLE)
    (policy,) = [given["content"] for given in reader.of("meta") if "http-equiv" in given]
    assert policy.startswith("default-src 'none'")


def test_every_picture_has_words_and_every_part_its_place():
    reader = read(asked=ASKED_ABOUT)
    assert reader.of("html") == [{"lang": "en"}]
    # The label of an image stands beside it as text.
    assert [given["alt"] for given in reader.of("img")] == [""]
    assert {"title", "main", "figcaption"} <= set(reader.tags)
    levels = [int(tag[1]) for tag in reader.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(levels) == 4
    assert ASKED in "".join(reader.text)
    assert ASKED not in "".join(read().text)


def luminance(colour):
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    """As WCAG 2 defines it: 1 to 21."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_all_words_stand_out_from_their_ground_in_light_and_dark():
    roots = [
        dict(re.findall(r"(--\w+): (#[0-9a-f]{6});", block)) for block in re.findall(r":root \{(.*?)\}", STYLE, re.S)
    ]
    assert [len(colours) for colours in roots] == [8, 8]
    light, dark = roots
    assert luminance(light["--page"]) > 0.9
    assert luminance(dark["--page"]) < 0.1
    for colours in roots:
        for words in ("--text", "--quiet"):
            for ground in ("--page", "--soft"):
                assert contrast(colours[words], colours[ground]) >= 4.5, (words, ground)
        for bar in ("--answered", "--check", "--unused"):
            assert contrast(colours[bar], colours["--page"]) >= 3, bar  # WCAG 2 for graphics
    # No colour is used that was not looked at above.
    used = re.findall(r"(?:color|background): ([^;]+);", re.sub(r":root \{.*?\}", "", STYLE, flags=re.S))
    assert set(used) <= {"var(--text)", "var(--quiet)", "var(--page)", "var(--soft)", *BARS}


def test_it_prints_on_a4_and_the_first_page_ends_where_details_begin():
    assert "@page { size: A4;" in STYLE
    assert re.search(r"@media print \{.*h2:nth-of-type\(2\) \{ break-before: page; \}", STYLE, re.S)
    # Dark is for screens: paper is white.
    assert "@media screen and (prefers-color-scheme: dark)" in STYLE
