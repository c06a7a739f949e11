"""The card as a page: all that the card says, and nothing that runs or is loaded from elsewhere."""

import base64
import re
from html.parser import HTMLParser

from ostrakon.report.page import page

HOSTILE = "<script>alert(1)</script> ![x](https://example.org/x.png) [y](javascript:alert(1)) <https://example.org>"
CARD = f"""# Model card

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


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "srcset", "style", "onload")]

    def handle_data(self, data):
        self.text.append(data)


def read(card, picture=b"\x89PNG"):
    reader = Reader()
    reader.feed(page(card, picture=picture, told='60 "answers" & <more>'))
    return reader


def test_the_page_says_what_the_card_says():
    text = " ".join(read(CARD).text)
    for words in (
        "(1, 1e-05)-differentially private",
        "Who is trusted?",
        "The operator.",
        "from load_student import Student",
    ):
        assert words in text
    assert read(CARD).tags.count("table") == 2


def test_the_picture_is_inside_and_above_the_tables():
    reader = read(CARD, picture=b"a picture")
    assert reader.links == ["data:image/png;base64," + base64.b64encode(b"a picture").decode()]
    assert reader.tags.index("img") < reader.tags.index("table")
    assert "&quot;answers&quot; &amp; &lt;more&gt;" in page(CARD, picture=b"", told='60 "answers" & <more>')


def test_names_cannot_run_or_load_anything():
    reader = read(CARD)
    assert "script" not in reader.tags
    assert "a" not in reader.tags
    assert reader.tags.count("img") == 1  # ours
    assert "<script>alert(1)</script>" in "".join(reader.text)  # shown as text
    assert not re.search(r"url\(|@import", page(CARD, picture=b"", told=""))
