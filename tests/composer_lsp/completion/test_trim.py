"""Trimming, as documents before and after a suggestion is accepted."""

import pytest

from composer_lsp.completion.parsing import ParsedWith
from composer_lsp.completion.surroundings import Surroundings
from composer_lsp.completion.templates import ALL_SENTINELS
from composer_lsp.completion.trim import Trimmer
from tests.composer_lsp.completion.drawn import accept, drawn, trimmed


def case(name: str, language: str, before: str, answer: str, after: str):
    return pytest.param(language, before, answer, after, id=f"{language}-{name}")


AUTO_CLOSED = [
    case("call", "python", "some_func(ˇ)", "a, b)", "some_func(a, bˇ)"),
    case("call", "typescript", "someFunc(ˇ);", "a, b);", "someFunc(a, bˇ);"),
    case("call", "go", "fmt.Println(ˇ)", '"hi", x)\n', 'fmt.Println("hi", xˇ)'),
    case("call", "rust", "println!(ˇ);", '"{}", x);', 'println!("{}", xˇ);'),
    case("call", "lua", "print(ˇ)", "x)", "print(xˇ)"),
    case("inner-call", "python", "f(g(ˇ)", "x))", "f(g(xˇ)".replace("xˇ", "x)ˇ")),
    case("both-closed", "python", "f(g(ˇ))", "x))", "f(g(xˇ))"),
    case("own-brackets", "python", "f(ˇ)", "g(x), [1])", "f(g(x), [1]ˇ)"),
    case("own-bracket-last", "typescript", "bar(ˇ);", "foo(x));", "bar(foo(x)ˇ);"),
    case("list", "python", "x = [ˇ]", "1, 2]", "x = [1, 2ˇ]"),
    case("index", "go", "x := a[ˇ]", "i]", "x := a[iˇ]"),
    case("double-quote", "python", 'print("ˇ")', 'hello")', 'print("helloˇ")'),
    case("single-quote", "lua", "print('ˇ')", "hello')", "print('helloˇ')"),
    case("template", "typescript", "log(`ˇ`)", "a ${b}`)", "log(`a ${b}ˇ`)"),
    case("escaped-quote", "go", 'x := "ˇ"', 'say \\"hi\\""', 'x := "say \\"hi\\"ˇ"'),
    case("docstring", "python", '"""ˇ"""', 'The "best" one."""\n', '"""The "best" one.ˇ"""'),
    case("attribute", "html", '<a href="ˇ">', '/home">Home</a>', '<a href="/homeˇ">'),
    case("element", "html", "<b>ˇ</b>", "bold</b>", "<b>boldˇ</b>"),
    case("link", "markdown", "[text](ˇ)", "https://a.example)", "[text](https://a.exampleˇ)"),
    case("signature", "python", "def f(ˇ):", "a, b):\n    return a", "def f(a, bˇ):"),
    case(
        "object",
        "typescript",
        "const x = {ˇ}",
        "\n    a: 1,\n    b: 2,\n}",
        "const x = {\n    a: 1,\n    b: 2,\nˇ}",
    ),
    case("lifetime", "rust", "fn f<'a>(ˇ)", "x: &'a str) -> u8 {", "fn f<'a>(x: &'a strˇ)"),
    case("only-closer", "python", "f(xˇ)", ")", "f(xˇ)"),
    case("smiley-in-string", "python", "f(ˇ)", '":)")', 'f(":)"ˇ)'),
]

REPEATS_NEAR = [
    case("import", "python", "import os\nˇ\nimport sys\nimport re\n", "import re", "import os\nˇ\nimport sys\nimport re\n"),
    case("heading", "markdown", "x\n\nˇ\n\n- a\n- b\n\n## License\n", "## License", "x\n\nˇ\n\n- a\n- b\n\n## License\n"),
    case("return", "python", "def f():\n    ˇ\n    y = 2\n    return foo(x, y)\n", "return foo(x, y)", "def f():\n    ˇ\n    y = 2\n    return foo(x, y)\n"),
    case("second-line", "python", "def f():\n    ˇ\n    z = 1\n    return foo(x, y)\n", "x = y = 0\n    return foo(x, y)", "def f():\n    x = y = 0ˇ\n    z = 1\n    return foo(x, y)\n"),
    case("deeper-below", "yaml", "date:\n  ˇ\n    type: string\n", "type: string\n  time:", "date:\n  ˇ\n    type: string\n"),
    case("line-above", "python", "import os\nˇ\nx = 1\n", "import os\n", "import os\nˇ\nx = 1\n"),
    case(
        "declaration-above-comes-second",
        "cpp",
        "  int64_t num_rows() const;\n  ˇ\n\n  /// More.\n",
        "/// \\brief Rows.\n  int64_t num_rows() const;\n",
        "  int64_t num_rows() const;\n  /// \\brief Rows.ˇ\n\n  /// More.\n",
    ),
    case("row", "html", "<tr>ˇ\n  <td>total</td>\n</tr>\n", "<th>Sum</th><td>total</td>\n", "<tr><th>Sum</th>ˇ\n  <td>total</td>\n</tr>\n"),
    case("argument", "python", "f(\n    ˇ\n    value_two,\n)\n", "value_one, value_two,\n", "f(\n    value_one,ˇ\n    value_two,\n)\n"),
]  # fmt: skip

LEGITIMATE = [
    case("branch", "python", "if a:\n    ˇ\nelif b:\n    return foo(x, y)\n", "return foo(x, y)", "if a:\n    return foo(x, y)ˇ\nelif b:\n    return foo(x, y)\n"),
    case("elif-chain", "python", "if a:\n    return foo(x, y)\nˇ\n", "elif b:\n    return foo(x, y)\n", "if a:\n    return foo(x, y)\nelif b:\n    return foo(x, y)ˇ\n"),
    case("switch", "go", "switch a {\ncase 1:\n\tˇ\ncase 2:\n\tcompute(first, second, third)\n}\n", "compute(first, second, third)", "switch a {\ncase 1:\n\tcompute(first, second, third)ˇ\ncase 2:\n\tcompute(first, second, third)\n}\n"),
    case("return-none", "python", "    if a:\n        ˇ\n    if b:\n        return None\n", "return None", "    if a:\n        return Noneˇ\n    if b:\n        return None\n"),
    case("break", "c", "    if (a)\n        ˇ\n    x = 1;\n    if (b)\n        break;\n", "break;", "    if (a)\n        break;ˇ\n    x = 1;\n    if (b)\n        break;\n"),
    case("end", "ruby", "def f\n  if a\n    b\n  ˇ\n  if c\n    d\n  end\nend\n", "end\n", "def f\n  if a\n    b\n  endˇ\n  if c\n    d\n  end\nend\n"),
    case("call", "python", "x = 1\nˇ\ny = 2\ndb.commit()\n", "db.commit()", "x = 1\ndb.commit()ˇ\ny = 2\ndb.commit()\n"),
    case("called-again", "python", "print(x)\nˇ\n", "x += 1\nprint(x)\n", "print(x)\nx += 1\nprint(x)ˇ\n"),
    case("record-below", "json", '[\n  {\n    ˇ\n    "a": 1\n  },\n  {\n    "type": "string",\n', '"type": "string",', '[\n  {\n    "type": "string",ˇ\n    "a": 1\n  },\n  {\n    "type": "string",\n'),
    case("record-above", "yaml", "- name: a\n  type: string\nˇ\n", "- name: b\n  type: string\n", "- name: a\n  type: string\n- name: b\n  type: stringˇ\n"),
    case("field-below", "typescript", "interface A {\n  ˇ\n}\ninterface B {\n  name: string;\n}\n", "name: string;", "interface A {\n  name: string;ˇ\n}\ninterface B {\n  name: string;\n}\n"),
    case("section", "toml", "[a]\nˇ\n[b]\nenabled = true\n", "enabled = true", "[a]\nenabled = trueˇ\n[b]\nenabled = true\n"),
    case("bracket-of-the-comment-above", "cpp", "// Version 2.0 (the\nˇ\n// more.\n", '// "License"); you may', '// Version 2.0 (the\n// "License"); you mayˇ\n// more.\n'),
    case("bracket-in-the-comment", "python", "f()  # see g(ˇ\n", "a) and b", "f()  # see g(a) and bˇ\n"),
    case("closed-in-the-comment", "python", "f()  # see g(ˇ)\n", "a) and b", "f()  # see g(aˇ)\n"),
    case("word-in-a-string", "typescript", 'x = ˇled",\n', '"not instal', 'x = "not instalˇled",\n'),
    case("overload", "cpp", "ˇ\nR<int> Sum(const A& a);\n/// Sums up.\nARROW_EXPORT\nR<int> Sum(const B& b);\n", "/// Sums up.", "/// Sums up.ˇ\nR<int> Sum(const A& a);\n/// Sums up.\nARROW_EXPORT\nR<int> Sum(const B& b);\n"),
    case("decorator", "python", "class A:\n    ˇ\n    def f(x): ...\n    @staticmethod\n    def g(x): ...\n", "@staticmethod", "class A:\n    @staticmethodˇ\n    def f(x): ...\n    @staticmethod\n    def g(x): ...\n"),
    case("subheading", "markdown", "## v2\n\nˇ\n\n- a\n\n## v1\n\n### Commits\n", "### Commits", "## v2\n\n### Commitsˇ\n\n- a\n\n## v1\n\n### Commits\n"),
    case("cell", "html", "<tr>\n  <td>Yes</td>\n  ˇ\n  <td>No</td>\n  <td>Yes</td>\n", "<td>Yes</td>", "<tr>\n  <td>Yes</td>\n  <td>Yes</td>ˇ\n  <td>No</td>\n  <td>Yes</td>\n"),
    case("table-row", "markdown", "| a | b |\n|---|---|\n| 1 | yes |\nˇ\n| 3 | yes |\n", "| 2 | yes |\n", "| a | b |\n|---|---|\n| 1 | yes |\n| 2 | yes |ˇ\n| 3 | yes |\n"),
    case("numbers", "c", "  0.0, 0.0, 0.0,\n  ˇ\n  1.0, 1.0, 1.0,\n  0.0, 0.0, 0.0,\n", "0.0, 0.0, 0.0,", "  0.0, 0.0, 0.0,\n  0.0, 0.0, 0.0,ˇ\n  1.0, 1.0, 1.0,\n  0.0, 0.0, 0.0,\n"),
    case("called-below-as-well", "python", "value = ˇ\ncompute()\n", "compute()", "value = compute()ˇ\ncompute()\n"),
    case("typed-by-the-user", "python", "x = 1\nself.total = compute(ˇ\ny = 2\nself.total = compute(a)\n", "a)", "x = 1\nself.total = compute(a)ˇ\ny = 2\nself.total = compute(a)\n"),
]  # fmt: skip

BRACKET_ORDER = [
    case(
        "signature-over-two-lines",
        "cpp",
        "  R<X> Get(\n      const A& a) {\n    return Get({ˇ}\n  }\n",
        "}, descriptor);",
        "  R<X> Get(\n      const A& a) {\n    return Get({ˇ}\n  }\n",
    ),
    case("outer-first", "javascript", "x = (\n  [ˇ],\n", "1), 2]", "x = (\n  [1ˇ],\n"),
    case("inner-only", "javascript", "f({ a: [ˇ] })", "1] })", "f({ a: [1ˇ] })"),
    case("inner-is-open", "javascript", "f({ a: g(ˇ })", "1), b: 2 });", "f({ a: g(1), b: 2ˇ })"),
    case("two-of-three", "javascript", "f([g(ˇ)", "x)])", "f([g(x)]ˇ)"),
    case("one-of-three", "javascript", "f([g(ˇ)", "x)", "f([g(xˇ)"),
    case("hanging", "python", "f(\n    a, [ˇ\n    b])\n", "c,])", "f(\n    a, [c,ˇ\n    b])\n"),
    case(
        "block-below-two-line-signature",
        "typescript",
        "function f(\n    a: A) {\n  ˇ\n  more();\n}\n",
        "g();\n}\n",
        "function f(\n    a: A) {\n  g();ˇ\n  more();\n}\n",
    ),
    case(
        "bracket-in-comment",
        "typescript",
        "if (a) { // 1) :(\n    ˇ\n",
        "g();\n}",
        "if (a) { // 1) :(\n    g();\n}ˇ\n",
    ),
]

APOSTROPHES = [
    case("two-lifetimes", "rust", "fn f<'a>(x: &'a strˇ", ") -> &'a str {", "fn f<'a>(x: &'a str) -> &'a str {ˇ"),
    case("char", "rust", "f(ˇ)", "'(', b)", "f('(', bˇ)"),
    case("escaped-char", "rust", "f(ˇ)", r"'\'', ')')", r"f('\'', ')'ˇ)"),
    case("char-closed", "rust", "x = 'ˇ';", "a';", "x = 'aˇ';"),
    case("separators", "cpp", "f(1'000'000ˇ", ", 2);", "f(1'000'000, 2);ˇ"),
    case("contractions", "javascript", "// don't (it isn'tˇ", " good)", "// don't (it isn't good)ˇ"),
    case("prose", "markdown", "It's (isn'tˇ", " it?) so", "It's (isn't it?) soˇ"),
    case("prose-around", "markdown", "It's ˇ dog's life", "my friend's", "It's my friend'sˇ dog's life"),
    case("prefix", "python", "x(f'ˇ')", "ab')", "x(f'abˇ')"),
]  # fmt: skip

REPEATS_AFTER = [
    case(
        "line",
        "python",
        """
        def f(xs):
            ˇ
            return total
        """,
        "total = sum(xs)\n    return total\n",
        """
        def f(xs):
            total = sum(xs)ˇ
            return total
        """,
    ),
    case(
        "several-lines",
        "go",
        "func f() error {\n\tˇ\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}\n",
        "err := g()\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}",
        "func f() error {\n\terr := g()ˇ\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}\n",
    ),
    case("rest-of-line", "python", "f(ˇ, b)", "a, b)", "f(aˇ, b)"),
    case(
        "rest-other-spaces",
        "rust",
        "let x = ˇ + offset;",
        "base+offset;",
        "let x = baseˇ + offset;",
    ),
    case(
        "rest-inside-a-bracket",
        "markdown",
        "see ˇmmit/83cc)\n",
        "[`4e`](https://x/commit/",
        "see [`4e`](https://x/coˇmmit/83cc)\n",
    ),
    case("rest-of-an-outer-call", "python", "g(ˇ, b)", "f(a, b)", "g(f(a, b)ˇ, b)"),
    case("rest-behind-a-call", "python", "g(ˇ, b)", "f(a, b), b)", "g(f(a, b)ˇ, b)"),
    case("rest-cut-short", "typescript", "f(ˇ, second)", "first, sec", "f(firstˇ, second)"),
    case(
        "closing-brace",
        "rust",
        """
        fn main() {
            ˇ
        }
        """,
        'println!("hi");\n}\n',
        """
        fn main() {
            println!("hi");ˇ
        }
        """,
    ),
    case(
        "all-of-it",
        "lua",
        """
        local function f()
          ˇ
          return value
        end
        """,
        "return value\nend",
        """
        local function f()
          ˇ
          return value
        end
        """,
    ),
    case(
        "lua-end",
        "lua",
        """
        function M.run(x)
          ˇ
        end

        return M
        """,
        "print(x)\nend\n\nreturn M",
        """
        function M.run(x)
          print(x)ˇ
        end

        return M
        """,
    ),
    case(
        "list-items",
        "html",
        """
        <ul>
          <li>one</li>
          ˇ
          <li>three</li>
        </ul>
        """,
        "<li>two</li>\n  <li>three</li>\n</ul>",
        """
        <ul>
          <li>one</li>
          <li>two</li>ˇ
          <li>three</li>
        </ul>
        """,
    ),
    case(
        "heading",
        "markdown",
        """
        # Install
        ˇ
        ## Use it well
        """,
        "Run `make`.\n## Use it well\n",
        """
        # Install
        Run `make`.ˇ
        ## Use it well
        """,
    ),
    case(
        "return-in-a-deeper-block-stays",
        "python",
        """
        def f(xs):
            ˇ
            return found
        """,
        "if not xs:\n        return found\n    found = xs[0]\n    return found",
        """
        def f(xs):
            if not xs:
                return foundˇ
            return found
        """,
    ),
    case(
        "unclosed-block-gets-its-brace",
        "typescript",
        """
        function f() {
            if (a) {
                g();
                ˇ
        }
        """,
        "h();\n    }\n}",
        """
        function f() {
            if (a) {
                g();
                h();
            }ˇ
        }
        """,
    ),
]

REPEATS_BEFORE = [
    case("head-of-line", "python", "    return ˇ", "return x", "    return xˇ"),
    case("word", "python", "retuˇ", "return x", "return xˇ"),
    case("blank", "go", "x := ˇ", " 1", "x := 1ˇ"),
    case(
        "line-above",
        "python",
        """
        self.total = compute(items)
        ˇ
        """,
        "self.total = compute(items)\n",
        """
        self.total = compute(items)
        ˇ
        """,
    ),
    case(
        "two-lines-above",
        "lua",
        """
        local a = 1
        print(a)
        ˇ
        """,
        "local a = 1\nprint(a)\n",
        """
        local a = 1
        print(a)
        ˇ
        """,
    ),
    case(
        "loop",
        "typescript",
        "ˇ",
        "counter.increment();\n" * 6,
        "counter.increment();ˇ",
    ),
    case("loop-in-line", "python", "x = ˇ", "very, very, very, very, very, very, ", "x = very,ˇ"),
]

INDENTATION = [
    case(
        "tabs-kept",
        "go",
        "func f() {\n\tˇ\n}\n",
        "if x {\n        g()\n    }\n",
        "func f() {\n\tif x {\n\t\tg()\n\t}ˇ\n}\n",
    ),
    case(
        "two-tabs-deep",
        "typescript",
        "class A {\n\tf() {\n\t\tˇ\n\t}\n}\n",
        "if (x) {\n            g();\n        }\n",
        "class A {\n\tf() {\n\t\tif (x) {\n\t\t\tg();\n\t\t}ˇ\n\t}\n}\n",
    ),
    case(
        "spaces-kept",
        "python",
        "def f():\n    if a:\n        b()\n    ˇ\n",
        "for x in y:\n\t\tg(x)\n",
        "def f():\n    if a:\n        b()\n    for x in y:\n        g(x)ˇ\n",
    ),
    case(
        "zero-based-block",
        "python",
        "class A:\n    def f(self):\n        ˇ\n",
        "for x in y:\n    g(x)\n",
        "class A:\n    def f(self):\n        for x in y:\n            g(x)ˇ\n",
    ),
    case(
        "zero-based-at-column-zero",
        "python",
        "import a\nˇ\n",
        "def f():\n    return 1\n",
        "import a\ndef f():\n    return 1ˇ\n",
    ),
    case(
        "indented-again",
        "python",
        "def f():\n    x = 1\n    ˇ\n",
        "    return x\n",
        "def f():\n    x = 1\n    return xˇ\n",
    ),
    case(
        "indentation-completed",
        "python",
        "def f():\n    if a:\n    ˇ\n",
        "    return x\n",
        "def f():\n    if a:\n        return xˇ\n",
    ),
    case(
        "two-spaces-file",
        "lua",
        "local function f()\n  local a = 1\n  ˇ\nend\n",
        "if a then\n\t\tg()\n\tend\n",
        "local function f()\n  local a = 1\n  if a then\n    g()\n  endˇ\nend\n",
    ),
    case(
        "leading-newline-on-blank-line",
        "rust",
        "fn f() {\n    ˇ\n}\n",
        "\n    let x = 1;\n",
        "fn f() {\n    let x = 1;ˇ\n}\n",
    ),
]

BLOCKS = [
    case(
        "opened-block",
        "python",
        "ˇ",
        "def f():\n    return 1\n\ndef g():\n    return 2\n",
        "def f():\n    return 1ˇ",
    ),
    case(
        "else-belongs",
        "python",
        "ˇ",
        "if a:\n    b()\nelse:\n    c()\nd()\n",
        "if a:\n    b()\nelse:\n    c()ˇ",
    ),
    case(
        "else-brace-belongs",
        "go",
        "ˇ",
        "if a {\n\tb()\n} else {\n\tc()\n}\nd()\n",
        "if a {\n\tb()\n} else {\n\tc()\n}ˇ",
    ),
    case(
        "blank-inside-block",
        "python",
        "ˇ",
        "def f():\n    a = 1\n\n    return a\nx = 2\n",
        "def f():\n    a = 1\n\n    return aˇ",
    ),
    case("statements-until-blank", "lua", "ˇ", "a()\nb()\n\nc()\n", "a()\nb()ˇ"),
    case("rest-of-statement", "python", "x = ˇ", "f(1)\ny = 2\n", "x = f(1)ˇ"),
    case(
        "body-below-head",
        "python",
        "def f(a):ˇ\n",
        "\n    return a\n\nf(1)\n",
        "def f(a):\n    return aˇ\n",
    ),
    case(
        "comment-then-code",
        "rust",
        "// Sum them.ˇ\n",
        "\nlet s = a + b;\nlet t = s;\n\nlet u = 1;",
        "// Sum them.\nlet s = a + b;\nlet t = s;ˇ\n",
    ),
    case(
        "dedent-ends",
        "python",
        "def f():\n    ˇ\n",
        "return 1\nprint(2)\n",
        "def f():\n    return 1ˇ\n",
    ),
    case(
        "element",
        "html",
        "ˇ",
        "<ul>\n  <li>a</li>\n</ul>\n<p>more</p>\n",
        "<ul>\n  <li>a</li>\n</ul>ˇ",
    ),
    case("paragraph", "markdown", "ˇ", "One line.\nAnother.\n\nNext.\n", "One line.\nAnother.ˇ"),
]

STRUCTURE = [
    case("body-below", "python", "for a in b:\n    ˇ\n        c(a)\n", "if a:\n        d(a)\n        e(a)\n", "for a in b:\n    if a:ˇ\n        c(a)\n"),
    case("body-below", "go", "for a := range b {\n\tˇ\n\t\tc(a)\n\t}\n}\n", "if a {\n\t\td(a)\n\t\te(a)\n", "for a := range b {\n\tif a {ˇ\n\t\tc(a)\n\t}\n}\n"),
    case("body-below-two-heads", "python", "n = 0\nˇ\n        c(a)\n", "for a in b:\n    if a:\n        d(a)\n", "n = 0\nfor a in b:\n    if a:ˇ\n        c(a)\n"),
    case("no-body-below", "python", "if a:\n    ˇ\n    c(a)\n", "if b:\n        d(a)\n    e(a)\n", "if a:\n    if b:\n        d(a)ˇ\n    c(a)\n"),
    case("rest-of-the-block", "python", "def f(a):\n    ˇ\n\n\ndef g(): ...\n", "for x in a:\n        if x:\n            return False\n\n    return True\n    print(a)\n", "def f(a):\n    for x in a:\n        if x:\n            return False\n\n    return Trueˇ\n\n\ndef g(): ...\n"),
    case("rest-up-to-what-dedents", "python", "def f(a):\n    ˇ\n\nx = 1\n", "a += 1\n    b(a)\n\ndef g(b):\n    return b\n", "def f(a):\n    a += 1\n    b(a)ˇ\n\nx = 1\n"),
    case("rest-stands-below", "python", "def f(a):\n    ˇ\n    return c\n", "for x in a:\n        b(x)\n    print(a)\n", "def f(a):\n    for x in a:\n        b(x)ˇ\n    return c\n"),
    case("branch-below", "python", "n = 0\nˇ\nelif c:\n    c(n)\n", "for x in y:\n    n += x\nif n:\n    b(n)\nprint(n)\n", "n = 0\nfor x in y:\n    n += x\nif n:\n    b(n)ˇ\nelif c:\n    c(n)\n"),
    case("branch-of-what-stands-above", "python", "if a:\n    b()\n    ˇ\nelse:\n    c()\n", "if d:\n        e()\nf()\n", "if a:\n    b()\n    if d:\n        e()ˇ\nelse:\n    c()\n"),
    case("words-that-do-not-parse", "python", "x = f(ˇ)\n", "a b", "x = f(aˇ)\n"),
    case("lines-that-do-not-parse", "typescript", "f();\nˇ\ng();\n", "const a = 1;\nconst = ;\n", "f();\nconst a = 1;ˇ\ng();\n"),
    case("as-broken-as-before", "python", "x = = 1\ny = ˇ\n", "2", "x = = 1\ny = 2ˇ\n"),
]  # fmt: skip

FUNCTION_REST = [
    case("rest-after-a-branch", "python", "def f(a):\n    if a:\n        ˇ\n", "return 1\n    else:\n        return 2\n\n\ndef g():\n    return 3\n", "def f(a):\n    if a:\n        return 1\n    else:\n        return 2ˇ\n"),
    case("rest-after-a-loop", "python", "def f(a):\n    for x in a:\n        ˇ\n", "if x:\n            return 1\n    return 2\n    print(a)\n", "def f(a):\n    for x in a:\n        if x:\n            return 1\n    return 2ˇ\n"),
    case("rest-down-to-what-stands-below", "python", "def f(a):\n    def g(b):\n        for x in b:\n            ˇ\n    c = 0\n", "if x:\n                return 1\n\n        return 2\n    d = 0\n", "def f(a):\n    def g(b):\n        for x in b:\n            if x:\n                return 1\n\n        return 2ˇ\n    c = 0\n"),
    case("rest-of-the-method-alone", "python", "class A:\n    def f(\n        self,\n    ) -> int:\n        if a:\n            ˇ\n", "b()\n        c()\n\n    def g(self):\n        d()\n", "class A:\n    def f(\n        self,\n    ) -> int:\n        if a:\n            b()\n        c()ˇ\n"),
    case("no-rest-without-a-function", "python", "if a:\n    if b:\n        ˇ\n", "c()\n    d()\n", "if a:\n    if b:\n        c()ˇ\n"),
    case("the-rest-stands-below", "python", "def f(a):\n    if a:\n        ˇ\n    return 2\n", "b()\n    c()\n", "def f(a):\n    if a:\n        b()ˇ\n    return 2\n"),
    case("head-of-what-stands-below", "python", "def f(a):\n    if a:\n        ˇ\n        if x:\n            b()\n", "return 1\n    for x in a:\n        if x:\n            c()\n", "def f(a):\n    if a:\n        return 1\n    for x in a:ˇ\n        if x:\n            b()\n"),
    case("branch-of-what-stands-below", "python", "def f(a):\n    if a:\n        ˇ\n        b()\n", "c()\n    else:\n        d()\n        e()\n", "def f(a):\n    if a:\n        c()\n    else:ˇ\n        b()\n"),
    case("no-definition-of-what-stands-below", "python", "class A:\n    ˇ\n    def g(self): ...\n", "def f(self): ...\n\n\nclass B:\n    def g(self): ...\n", "class A:\n    def f(self): ...ˇ\n    def g(self): ...\n"),
    case("down-to-where-what-stands-below-belongs", "python", "def f(a):\n    b = 0\n    ˇ\n            d(x)\n", "c = 0\n\n    for x in a:\n        if x:\n            e(x)\n", "def f(a):\n    b = 0\n    c = 0\n\n    for x in a:\n        if x:ˇ\n            d(x)\n"),
    case("not-deep-enough-for-what-stands-below", "python", "def f(a):\n    b = 0\n    ˇ\n            d(x)\n", "c = 0\n\n    for x in a:\n        e(x)\n", "def f(a):\n    b = 0\n    c = 0ˇ\n            d(x)\n"),
    case("depth-in-brackets-is-no-syntax", "python", "f(\n    a,\n    ˇ\n        b)\n", "c,\n    d,\n\n        e,\n    g", "f(\n    a,\n    c,\n    d,ˇ\n        b)\n"),
    case("no-head-beside-what-stands-below", "python", "def f(a):\n    x = ˇ\n\nelse:\n    b()\n", "1\nif a:\n    c()\n", "def f(a):\n    x = 1ˇ\n\nelse:\n    b()\n"),
    case("no-head-for-a-deeper-line", "python", "def f(a):\n    b = 0\n    ˇ\n    c()\n", "b += 1\n\n    for x in a:\n        d()\n", "def f(a):\n    b = 0\n    b += 1ˇ\n    c()\n"),
]  # fmt: skip

MARKS = [
    case("fence-first", "python", "x = ˇ", "```python\n1\n```", "x = ˇ"),
    case("fence-later", "typescript", "ˇ", "f();\n```\nThat calls f.", "f();ˇ"),
    case("fence-is-text", "markdown", "```sh\nls\n```\nˇ", "```sh\npwd\n```", "```sh\nls\n```\n```sh\npwd\n```ˇ"),
    case("eos-tag-is-text", "html", "<s>ˇ", "old</s>", "<s>old</s>ˇ"),
    case("no-edits", "go", "ˇ", "NO_EDITS", "ˇ"),
    case("own-sentinel", "python", 'a = "<|fim_pad|>"\nb = ˇ', '"<|fim_pad|>"', 'a = "<|fim_pad|>"\nb = "<|fim_pad|>"ˇ'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("language", "before", "answer", "after"),
    AUTO_CLOSED
    + BRACKET_ORDER
    + REPEATS_NEAR
    + LEGITIMATE
    + APOSTROPHES
    + REPEATS_AFTER
    + REPEATS_BEFORE
    + INDENTATION
    + BLOCKS
    + STRUCTURE
    + FUNCTION_REST
    + MARKS,
)
@pytest.mark.parametrize("chunk_chars", [1, 5, 1000])
def test_accepted(language: str, before: str, answer: str, after: str, chunk_chars: int) -> None:
    document = drawn(before)
    expected = drawn(after)
    text = trimmed(document, answer, language_id=language, chunk_chars=chunk_chars)
    assert accept(document, text) == accept(expected, None)


@pytest.mark.parametrize("sentinel", ALL_SENTINELS)
def test_sentinels_of_every_model_end_the_answer(sentinel: str) -> None:
    assert trimmed(drawn("x = ˇ"), f"1{sentinel}\nmore") == "1"


@pytest.mark.parametrize("answer", ["", " ", "\n\n", "\t\n  ", "```", "<|endoftext|>"])
def test_nothing_worth_showing_is_none(answer: str) -> None:
    assert trimmed(drawn("def f():\n    ˇ\n"), answer) is None


def test_line_endings_of_the_file_are_kept() -> None:
    document = drawn("if a:\r\n    ˇ\r\n")
    text = trimmed(document, "for b in c:\n        d()\n        e()\n")
    assert text == "for b in c:\r\n        d()\r\n        e()"


def test_answer_with_crlf_in_a_file_without() -> None:
    assert trimmed(drawn("if a:\n    ˇ\n"), "b()\r\n    c()\r\n") == "b()\n    c()"


def test_mixed_file_follows_the_line_above() -> None:
    document = drawn("a = 1\nb = 2\r\nˇ\nc = 3\n")
    assert trimmed(document, "d = 4\ne = 5\n") == "d = 4\r\ne = 5"


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("a = 1\n    b = compu", "a = 1"),
        ("return self.comp", "return self"),
        ("comp", "comp"),
    ],
)
def test_answer_cut_by_the_token_limit_ends_whole(answer: str, kept: str) -> None:
    assert trimmed(drawn("def f():\n    ˇ\n"), answer, reason="length") == kept


@pytest.mark.parametrize(
    ("before", "answer"),
    [
        ("f(ˇ)", "a, b)\nprint(a)\nprint(b)\n"),
        ("x = ˇ + y", "1\nz = 2\nz = 3\n"),
        ("ˇ", "def f():\n    return 1\n\n\ndef g():\n    pass\n"),
        ("x = ˇ", "1<|endoftext|>more more more"),
        ("def f():\n    ˇ\n    return value\n", "value = 1\n    return value\n    x = 1\n"),
        ("ˇ", "push(item);\npush(item);\npush(item);\npush(item);\npush(item);\n"),
    ],
    ids=["closer", "single-line", "block", "sentinel", "line-after", "loop"],
)
def test_stream_is_ended_early(before: str, answer: str) -> None:
    document = drawn(before)
    trimmer = Trimmer(
        Surroundings.of(
            document.text, document.offset, language_id="python", num_indent_spaces=None
        )
    )
    num_fed = next(
        (index for index, char in enumerate(answer, start=1) if trimmer.feed(char)), None
    )
    assert num_fed is not None and num_fed < len(answer)


@pytest.mark.parametrize("text", ["x = f(ˇ)\n", "def f():\n    ˇ\n", "x = [1, ˇ"])
def test_nothing_is_left_of_what_parses_nowhere(text: str) -> None:
    assert trimmed(drawn(text), "?? ! ??") is None


def test_a_docstring_that_the_near_text_begins_in_is_read_as_one() -> None:
    method = 'def {}(self):\n        """Tells what `it` is."""\n        return self.it\n\n    '
    head = 'class A:\n    def f(self):\n        """' + "Long words.\n        " * 60 + '"""\n\n    '
    methods = "".join(method.format(f"f{number}") for number in range(49))
    document = drawn(f"{head}{methods}def last(self):\n        ˇ\n\n    def after(self): ...\n")
    begun = document.text[document.offset - 4000 : document.offset]
    assert begun.index("Long words") < begun.index('"""')
    around = Surroundings.of(
        document.text, document.offset, language_id="python", num_indent_spaces=None
    )
    assert ParsedWith(around).num_errors("return self.it") == 0
