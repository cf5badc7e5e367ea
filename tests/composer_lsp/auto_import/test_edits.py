"""Where an import goes and how it is written, as files before and after."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from composer_lsp.auto_import import python, script
from composer_lsp.auto_import.finder import Wanted, edit_for, wanted
from composer_lsp.auto_import.trees import Tree

DOC = '"""Shop."""\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "from shop.basket import Basket\n"),
        ("x = 1\n", "from shop.basket import Basket\n\nx = 1\n"),
        (DOC + "\nx = 1\n", DOC + "\nfrom shop.basket import Basket\n\nx = 1\n"),
        (DOC + "x = 1\n", DOC + "\nfrom shop.basket import Basket\n\nx = 1\n"),
        (DOC, DOC[:-1] + "\n\nfrom shop.basket import Basket\n"),
        ("#!/usr/bin/env python\n# coding: utf-8\nx = 1\n", "#!/usr/bin/env python\n# coding: utf-8\n\nfrom shop.basket import Basket\n\nx = 1\n"),
        ("# Licence\n" + DOC + "\nx = 1\n", "# Licence\n" + DOC + "\nfrom shop.basket import Basket\n\nx = 1\n"),
        ("# Licence\n\n# Of x.\nx = 1\n", "# Licence\n\nfrom shop.basket import Basket\n\n# Of x.\nx = 1\n"),
        ("from __future__ import annotations\n\nx = 1\n", "from __future__ import annotations\n\nfrom shop.basket import Basket\n\nx = 1\n"),
        ("import os\n\nx = 1\n", "import os\n\nfrom shop.basket import Basket\n\nx = 1\n"),
        ("import os\n\nfrom shop.article import Article\n\nx = 1\n", "import os\n\nfrom shop.article import Article\nfrom shop.basket import Basket\n\nx = 1\n"),
        ("from shop.till import Till\n", "from shop.basket import Basket\nfrom shop.till import Till\n"),
        ("from shop.basket import Article, Total\n", "from shop.basket import Article, Basket, Total\n"),
        ("from shop.basket import Article\n", "from shop.basket import Article, Basket\n"),
        ("from shop.basket import total\n", "from shop.basket import Basket, total\n"),
        ("from shop.basket import MAX\n", "from shop.basket import MAX, Basket\n"),
        ("from shop.basket import Zebra, Ant\n", "from shop.basket import Zebra, Ant, Basket\n"),
        ("from shop.basket import (Article, Total)\n", "from shop.basket import (Article, Basket, Total)\n"),
        ("from shop.basket import (\n    Article,\n    Total,\n)\n", "from shop.basket import (\n    Article,\n    Basket,\n    Total,\n)\n"),
        ("from shop.basket import (\n    Article,\n)\n", "from shop.basket import (\n    Article,\n    Basket,\n)\n"),
        ("from shop.basket import (\n    Article\n)\n", "from shop.basket import (\n    Article,\n    Basket\n)\n"),
        ("from shop.basket import Article as A\n", "from shop.basket import Article as A, Basket\n"),
        ("import shop.basket\n", "import shop.basket\nfrom shop.basket import Basket\n"),
        ("from shop.basket import *\n", "from shop.basket import *\nfrom shop.basket import Basket\n"),
        ("import os  # why\n\nx = 1\n", "import os  # why\n\nfrom shop.basket import Basket\n\nx = 1\n"),
        ("μ = '🙂'\nimport os\n\ndef f():\n    import re\n", "μ = '🙂'\nimport os\n\nfrom shop.basket import Basket\n\ndef f():\n    import re\n"),
        ("def f(): ...\nimport os\n", "from shop.basket import Basket\n\ndef f(): ...\nimport os\n"),
    ],
)  # fmt: skip
def test_python(before: str, after: str) -> None:
    tree = Tree.of(before, "python")
    assert tree is not None
    edit = python.import_edit(tree, "shop.basket", "Basket")
    assert before[: edit.offset] + edit.text + before[edit.offset :] == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'import { Basket } from "./basket";\n'),
        ("const x = 1;\n", 'import { Basket } from "./basket";\n\nconst x = 1;\n'),
        ("const x = 'a'\n", "import { Basket } from './basket'\n\nconst x = 'a'\n"),
        ('import a from "a";\n\nf();\n', 'import a from "a";\nimport { Basket } from "./basket";\n\nf();\n'),
        ("import a from 'a'\n", "import a from 'a'\nimport { Basket } from './basket'\n"),
        ('import { A } from "./basket";\n', 'import { A, Basket } from "./basket";\n'),
        ('import { Z } from "./basket";\n', 'import { Basket, Z } from "./basket";\n'),
        ('import b, { Z } from "./basket";\n', 'import b, { Basket, Z } from "./basket";\n'),
        ('import {\n  A,\n  Z,\n} from "./basket";\n', 'import {\n  A,\n  Basket,\n  Z,\n} from "./basket";\n'),
        ('import {\n  A,\n} from "./basket";\n', 'import {\n  A,\n  Basket,\n} from "./basket";\n'),
        ('import type { A } from "./basket";\n', 'import type { A } from "./basket";\nimport { Basket } from "./basket";\n'),
        ('import * as b from "./basket";\n', 'import * as b from "./basket";\nimport { Basket } from "./basket";\n'),
        ('"use strict";\nf();\n', '"use strict";\n\nimport { Basket } from "./basket";\n\nf();\n'),
        ("#!/usr/bin/env node\n// Licence\n\nf();\n", '#!/usr/bin/env node\n// Licence\n\nimport { Basket } from "./basket";\n\nf();\n'),
    ],
)  # fmt: skip
def test_script(before: str, after: str) -> None:
    tree = Tree.of(before, "typescript")
    assert tree is not None
    edit = script.import_edit(tree, "./basket", "Basket")
    assert before[: edit.offset] + edit.text + before[edit.offset :] == after


@pytest.mark.parametrize(
    ("packages", "defined", "importer", "text", "module"),
    [
        (["shop"], "shop/basket.py", "shop/till.py", "", "shop.basket"),
        (["shop"], "shop/basket.py", "tests/till.py", "", "shop.basket"),
        (["src/shop", "src/shop/a"], "src/shop/a/basket.py", "src/shop/till.py", "", "shop.a.basket"),
        (["shop"], "shop/__init__.py", "main.py", "", "shop"),
        (["shop"], "shop/basket.py", "shop/till.py", "from .x import y\n", ".basket"),
        (["shop", "shop/a"], "shop/basket.py", "shop/a/till.py", "from .x import y\n", "..basket"),
        (["shop", "shop/a"], "shop/a/basket.py", "shop/till.py", "from .x import y\n", ".a.basket"),
        (["shop", "shop/a"], "shop/a/basket.py", "shop/a/__init__.py", "from .x import y\n", ".basket"),
        (["shop"], "shop/basket.py", "shop/till.py", "from .x import y\nimport shop\n", "shop.basket"),
        ([], "basket.py", "till.py", "", "basket"),
        ([], "src/basket.py", "till.py", "", "basket"),
        ([], "tools/basket.py", "tools/till.py", "", "basket"),
        ([], "tools/basket.py", "till.py", "", None),
        ([], "my-shop.py", "till.py", "", None),
        ([], "class.py", "till.py", "", None),
        ([], "test_basket.py", "till.py", "", None),
        ([], "basket.pyi", "till.py", "", None),
    ],
)  # fmt: skip
def test_modules_of_python(
    tmp_path: Path,
    packages: Sequence[str],
    defined: str,
    importer: str,
    text: str,
    module: str | None,
) -> None:
    for package in packages:
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "__init__.py").touch()
    tree = Tree.of(text, "python")
    assert tree is not None
    found = python.module_of(
        tmp_path / defined, root=tmp_path, importer=tmp_path / importer, tree=tree
    )
    assert found == module


@pytest.mark.parametrize(
    ("defined", "importer", "text", "module"),
    [
        ("a/basket.ts", "a/till.ts", "", "./basket"),
        ("a/basket.ts", "b/till.ts", "", "../a/basket"),
        ("a/b/basket.tsx", "a/till.ts", "", "./b/basket"),
        ("a/basket/index.ts", "a/till.ts", "", "./basket"),
        ("basket.ts", "till.ts", 'import a from "./a.js";\n', "./basket.js"),
        ("basket.ts", "till.ts", 'import a from "./a.ts";\n', "./basket.ts"),
        ("basket.ts", "till.ts", 'import a from "./a";\n', "./basket"),
        ("basket.js", "till.js", 'const a = require("a");\n', None),
        ("basket.test.ts", "till.ts", "", None),
        ("basket.d.ts", "till.ts", "", None),
        ("basket.vue", "till.ts", "", None),
    ],
)
def test_modules_of_scripts(
    tmp_path: Path, defined: str, importer: str, text: str, module: str | None
) -> None:
    tree = Tree.of(text, "typescript")
    assert tree is not None
    found = script.module_of(tmp_path / defined, importer=tmp_path / importer, tree=tree)
    assert found == module


@pytest.mark.parametrize(
    ("text", "exported"),
    [
        ("export class Basket {}", True),
        ("export abstract class Basket {}", True),
        ("export const Basket = 1;", True),
        ("export async function Basket() {}", True),
        ("export function* Basket() {}", True),
        ("class Basket {}\nexport { A, Basket };", True),
        ("export {\n  Basket,\n}", True),
        ("class Basket {}", False),
        ("export default class Basket {}", False),
        ("export class BasketItem {}", False),
        ("class Basket {}\nexport { Basket as B };", False),
        ("// export class Basket", False),
    ],
)
def test_what_a_module_exports(text: str, exported: bool) -> None:
    assert script.is_exported(text, "Basket") == exported


class FakeIndex:
    """Implements `Definitions` of files below `root`."""

    def __init__(self, root: Path, *found: tuple[str, str]) -> None:
        self._found = [
            {"root": str(root), "path": path, "name": symbol.split(".")[-1], "symbol": symbol}
            for path, symbol in found
        ]

    async def definitions(self, name: str) -> Sequence[Mapping[str, Any]]:
        return [each for each in self._found if each["name"] == name]


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ([("basket.py", "Basket")], ["Basket"]),
        ([("basket.py", "Basket"), ("basket.py", "Basket")], ["Basket"]),
        ([("basket.py", "Basket"), ("other.py", "Basket")], []),
        ([("basket.py", "Basket"), ("basket.ts", "Basket")], ["Basket"]),
        ([("basket.py", "Shop.Basket")], []),
        ([("till.py", "Basket")], []),
        ([], []),
    ],
)
async def test_what_is_wanted(
    tmp_path: Path, found: list[tuple[str, str]], names: list[str]
) -> None:
    text = "x = Basket()\n"
    lacked = await wanted(
        FakeIndex(tmp_path, *found),
        text,
        4,
        12,
        path=tmp_path / "till.py",
        language_id="python",
    )
    assert [each.name for each in lacked] == names


def test_nothing_is_imported_that_is_bound_by_now(tmp_path: Path) -> None:
    lacked = Wanted("Basket", tmp_path / "basket.py", tmp_path)
    importer = tmp_path / "till.py"
    for text in ("from basket import Basket\nBasket()\n", "x = 1\n"):
        assert edit_for(lacked, text, path=importer, language_id="python") is None
    edit = edit_for(lacked, "Basket()\n", path=importer, language_id="python")
    assert edit is not None and edit.text == "from basket import Basket\n\n"


def test_a_script_imports_what_is_exported(tmp_path: Path) -> None:
    lacked = Wanted("Basket", tmp_path / "basket.ts", tmp_path)
    importer = tmp_path / "till.ts"
    assert edit_for(lacked, "new Basket();\n", path=importer, language_id="typescript") is None
    (tmp_path / "basket.ts").write_text("export class Basket {}\n")
    edit = edit_for(lacked, "new Basket();\n", path=importer, language_id="typescript")
    assert edit is not None and edit.text == 'import { Basket } from "./basket";\n\n'
