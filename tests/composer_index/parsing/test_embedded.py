"""Code of other languages inside of a file: what it defines, and whose chunks it is."""

import pytest

from composer_index.chunk import ParsedFile
from composer_index.parsing import embedded, parse_file
from tests.composer_index.parsing.test_definitions import Case, check

PAGE = """\
<!doctype html>
<html>
<head>
<style>
:root { --gap: 4px }
</style>
<script>const inline = 1;</script>
<script type="application/ld+json">
{"name": "no"}
</script>
</head>
<body>
<div id="app">Text</div>
<script type="module">
import { run } from './run.js';
function greet(name) {
  return `Hello, ${name}`;
}
</script>
</body>
</html>
"""

CASES = (
    Case(
        "page.html",
        "html",
        PAGE,
        """\
5-5 class :root
5-5 variable :root --gap
7-7 constant inline
13-13 field app
16-18 function greet
""",
        ("./run.js",),
    ),
    Case(
        "App.vue",
        "vue",
        """\
<template>
  <div id="root" @click="go">{{ count }}</div>
</template>
<script setup lang="ts">
import { ref } from 'vue';
interface Props { size: number }
const count = ref(0);
</script>
<style scoped lang="scss">
.box { margin: 0 }
</style>
""",
        """\
2-2 field root
6-6 interface Props
6-6 field Props.size
7-7 constant count
""",
        ("vue",),
    ),
    Case(
        "view.php",
        "php",
        """\
<?php
function head($title) { ?>
<html><body id="top">
<?php } ?>
<ul id="<?= $id ?>" class="list">
<?php foreach ($items as $item): ?>
  <li id="item"><?= $item ?></li>
<?php endforeach; ?>
</ul>
<script>
var total = <?php echo 1; ?>;
function refresh() { return total; }
</script>
""",
        """\
2-4 function head
3-13 field top
7-7 field top.item
11-11 variable total
12-12 function refresh
""",
    ),
    Case(
        "README.md",
        "markdown",
        """\
# Install

```sh
install_all() {
  make install
}
```

> ```python {.numbered}
> class Client:
>     def get(self, url):
>         return url
> ```

1. A step

   ```c++
   #include "add.h"
   int add(int a, int b) { return a + b; }
   ```

```json
{"name": "no"}
```

~~~html
<script>function nested() {}</script>
~~~

```no-such-language
def no(): pass
```
""",
        """\
1-32 heading Install
4-6 function install_all
10-12 class Client
11-12 method Client.get
19-19 function add
27-27 function nested
""",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path)
def test_definitions_and_imports(case: Case) -> None:
    check(case)


def languages(path: str, source: str) -> list[str]:
    parsed = parse_file(path, source.encode())
    assert isinstance(parsed, ParsedFile)
    return [
        f"{one.start_line}-{one.end_line} {one.language} {one.symbol or '-'}"
        for one in parsed.chunks
    ]


def test_scripts_and_styles_are_chunks_of_their_own_language() -> None:
    assert languages("page.html", PAGE) == [
        "1-3 html -",
        "4-6 css :root",
        "7-7 javascript inline",
        "8-13 html -",
        "14-19 javascript greet",
        "20-21 html -",
    ]


def test_a_style_whose_language_has_no_grammar_is_its_chunk_all_the_same() -> None:
    source = "<template></template>\n<style lang='scss'>\n.a { b: c }\n</style>\n"

    assert languages("a.vue", source) == ["1-1 vue -", "2-4 scss -"]


def test_a_script_between_php_is_a_chunk_of_javascript() -> None:
    source = "<?php a(); ?>\n<script>\nlet b = <?= $c ?>;\n</script>\n<?php d();\n"

    assert languages("a.php", source) == ["1-1 php -", "2-4 javascript -", "5-5 php -"]


def test_examples_in_a_document_stay_with_its_words() -> None:
    source = "# Use\n\nCall it:\n\n```py\nimport no\ndef f(): pass\n```\n"

    assert languages("a.md", source) == ["1-8 markdown Use"]


def test_a_script_beside_markup_stays_with_it() -> None:
    assert languages("a.html", "<p>x</p><script>f()</script><p>y</p>\n") == ["1-1 html -"]


def test_a_script_of_some_size_is_cut_along_its_tree() -> None:
    body = "".join(f"  value_{row:04} = compute();\n" for row in range(40))
    source = (
        f"<p>x</p>\n<script>\nfunction a() {{\n{body}}}\nfunction b() {{\n{body}}}\n</script>\n"
    )

    assert languages("a.html", source) == [
        "1-1 html -",
        "2-44 javascript a",
        "45-87 javascript b",
    ]


def test_only_so_many_regions_of_a_file_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_MAX_REGIONS", 2)
    source = "".join(f"```py\ndef f{number}(): pass\n```\n" for number in range(4))

    parsed = parse_file("a.md", source.encode())

    assert isinstance(parsed, ParsedFile)
    assert [one.name for one in parsed.definitions] == ["f0", "f1"]


def test_a_quote_of_too_many_lines_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_MAX_RANGES", 3)
    rows = ["> ```py", "> def f():", ">     pass", ">     pass", ">     pass", "> ```"]

    parsed = parse_file("a.md", "\n".join(rows).encode())

    assert isinstance(parsed, ParsedFile)
    assert not parsed.definitions
