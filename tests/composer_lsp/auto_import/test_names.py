"""What a piece of a document, drawn between « and », reads and nothing binds."""

import pytest

from composer_lsp.auto_import.names import unbound_names


@pytest.mark.parametrize(
    ("language", "picture", "names"),
    [
        ("python", "x = «Basket(total)»\n", ["Basket", "total"]),
        ("python", "x = Bas«ket()»\n", ["Basket"]),
        ("python", "«def f(a, *b, c=D, **e):\n    return a, b, c, e, g»\n", ["D", "g"]),
        ("python", "from shop import Basket\nx = «Basket()»\n", []),
        ("python", "from shop import Basket as B\nx = «B(), Basket()»\n", []),
        ("python", "import shop.basket\nx = «shop.basket.Basket()»\n", []),
        ("python", "from shop import *\nx = «Basket()»\n", []),
        ("python", "class Basket: ...\nx = «Basket()»\n", []),
        ("python", "x = «print(len(range(3)), __name__)»\n", []),
        ("python", "x = «a.Basket.total»\n", ["a"]),
        ("python", "x = «f(total=1)»\n", ["f"]),
        ("python", "x = «'Basket'  # Basket»\n", []),
        ("python", "x = «f'{Basket}'»\n", ["Basket"]),
        ("python", "for item in items:\n    «item.use()»\n", []),
        ("python", "x = «[i for i, (j, k) in pairs if j]»\n", ["pairs"]),
        ("python", "with open(p) as file:\n    «file.read()»\n", []),
        ("python", "try:\n    f()\nexcept E as error:\n    «raise error»\n", []),
        ("python", "«if (n := 3):\n    pass\nn»\n", []),
        ("python", "x: int = 1\nBasket, y = z\n«Basket»\n", []),
        ("python", "x = «lambda a: a + b»\n", ["b"]),
        ("python", "«@cached\ndef f(x: Basket) -> Total: ...»\n", ["cached", "Basket", "Total"]),
        ("python", "x = «Basket(»\n", []),
        ("python", "match x:\n    case Point(a):\n        «a»\n", []),
        ("typescript", "const x = «new Basket(total)»;\n", ["Basket", "total"]),
        ("typescript", 'import { Basket } from "./a";\nconst x = «new Basket()»;\n', []),
        ("typescript", 'import { A as Basket } from "./a";\n«new Basket()»;\n', []),
        ("typescript", 'import Basket from "./a";\n«new Basket()»;\n', []),
        ("typescript", 'import * as shop from "./a";\n«shop.Basket»;\n', []),
        ("typescript", "let x: «Basket» = y;\n", ["Basket"]),
        ("typescript", "«console.log(Math.max(1), new Map(), undefined)»;\n", []),
        ("typescript", "function f(basket: B, { a, b: c }, [d], e = 1) {\n  «basket; a; c; d; e»;\n}\n", []),
        ("typescript", "«const { total } = g();\ntotal»;\n", ["g"]),
        ("typescript", "«xs.map((x) => x.id)»;\n", ["xs"]),
        ("typescript", "«xs.map(x => ({ x, total }))»;\n", ["xs", "total"]),
        ("typescript", "try { f(); } catch (error) { «error»; }\n", []),
        ("typescript", "interface Basket {}\nlet x: «Basket»;\n", []),
        ("typescript", "«'Basket' // Basket»\n", []),
        ("typescriptreact", "const x = «<Basket a={total} />»;\n", ["Basket", "total"]),
        ("javascript", "for (const item of items) { «item»; }\n", []),
        ("go", "x := «Basket()»\n", []),
    ],
)  # fmt: skip
def test_unbound(language: str, picture: str, names: list[str]) -> None:
    start = picture.index("«")
    text = picture.replace("«", "")
    end = text.index("»")
    assert list(unbound_names(text.replace("»", ""), start, end, language)) == names


def test_places_count_in_characters() -> None:
    text = "'μ🙂'; x = Basket(); y = Other()\n"
    start = text.index("Basket")
    assert list(unbound_names(text, start, start + 8, "python")) == ["Basket"]
