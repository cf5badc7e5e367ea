import codecs
from collections.abc import Sequence
from itertools import cycle

import pytest

from composer_lsp.agent.edits.replace import Replacement, replace
from composer_lsp.agent.edits.text_file import TextError, TextFile

LATIN = "name = 'Zoë Müller'  # très élégant, façade, señor, straße\nprint(name)\n"
RUSSIAN = "имя = 'Достоевский'  # Преступление и наказание, роман в шести частях\nпечать(имя)\n"
GREEK = "όνομα = 'Οδυσσέας'  # Τραγούδησέ μου, θεά, τον άνδρα\n"
JAPANESE = "名前 = '吾輩は猫である'  # どこで生れたかとんと見当がつかぬ\n"
CHINESE = "姓名 = '曹雪芹'  # 红楼梦第一回 甄士隐梦幻识通灵\n"
TRADITIONAL = "姓名 = '曹雪芹'  # 紅樓夢第一回 甄士隱夢幻識通靈\n"
KOREAN = "이름 = '홍길동'  # 아버지를 아버지라 부르지 못하고\n"
HEBREW = "שם = 'משה'  # בראשית ברא אלהים את השמים ואת הארץ\n"
POLISH = "nazwa = 'Łódź'  # Zażółć gęślą jaźń\n"

ENCODED = [
    (text, encoding)
    for text, encodings in {
        LATIN: "utf-8 latin-1 cp1252 iso8859-15 mac-roman utf-16-le utf-16-be cp850",
        RUSSIAN: "utf-8 cp1251 koi8-r iso8859-5 cp866 mac-cyrillic",
        GREEK: "cp1253 iso8859-7",
        JAPANESE: "shift_jis euc-jp iso2022_jp utf-8",
        CHINESE: "gbk gb18030 gb2312 hz",
        TRADITIONAL: "big5",
        KOREAN: "euc-kr cp949",
        HEBREW: "cp1255 iso8859-8",
        POLISH: "cp1250 iso8859-2 cp852",
    }.items()
    for encoding in encodings.split()
]
MARKED = [
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
]
ENDS = {"lf": ["\n"], "crlf": ["\r\n"], "cr": ["\r"], "mixed": ["\r\n", "\n", "\n"]}


def ended(text: str, ends: Sequence[str]) -> str:
    """The lines with these ends, one after the other."""
    return "".join(line + end for line, end in zip(text.splitlines(), cycle(ends), strict=False))


def test_the_table_has_thirty_encodings() -> None:
    assert len({codecs.lookup(encoding).name for _, encoding in ENCODED}) >= 30


@pytest.mark.parametrize("last", ["", "\n", "\t"], ids=["no-end", "end", "tab"])
@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize(("text", "encoding"), ENCODED, ids=[f"{e}-{t[:3]}" for t, e in ENCODED])
def test_an_edit_keeps_the_bytes_around_it(
    text: str, encoding: str, ends: Sequence[str], last: str
) -> None:
    head = ended(text * 3, ends).encode(encoding)
    tail = (ended(text * 3, ends).rstrip("\r\n") + last).encode(encoding)
    end = ends[0]
    data = head + f"value = 1{end}".encode(encoding) + tail
    file = TextFile.decode(data)
    assert file.encode(file.text) == data
    changed = replace(file.text, [Replacement(old="value = 1", new="value = 23\nmore = 4")])
    middle = f"value = 23{end}more = 4{end}".encode(encoding)
    assert file.encode(changed) == head + middle + tail


@pytest.mark.parametrize(("bom", "encoding"), MARKED, ids=[each for _, each in MARKED])
def test_a_byte_order_mark_stays(bom: bytes, encoding: str) -> None:
    data = bom + "α = 1\r\nβ = 2".encode(encoding)
    file = TextFile.decode(data)
    assert file.text == "α = 1\r\nβ = 2"
    assert file.encode(file.text) == data


def test_a_declared_encoding_is_believed() -> None:
    data = "# -*- coding: cp1251 -*-\ns = 'я'\n".encode("cp1251")
    assert TextFile.decode(data).text.endswith("s = 'я'\n")


def test_wrong_bytes_of_utf_8_stay() -> None:
    data = "// naïve café, œuvre, 日本語\n".encode() * 20 + b"x = '\xff\xfe'\n"
    file = TextFile.decode(data)
    assert file.encode(file.text.replace("x =", "y =")) == data.replace(b"x =", b"y =")
    assert "\udcff" not in file.shown


def test_a_character_that_the_encoding_lacks_is_named() -> None:
    file = TextFile.decode("# coding: latin-1\né\n".encode("latin-1"))
    with pytest.raises(TextError, match=r"iso8859-1, lacks the character '→' \(U\+2192\)"):
        file.encode("→")


@pytest.mark.parametrize("data", [b"\x7fELF\x02\x01\x00\x00\x00\x03\x00\x01", b"a\0b", b"\0" * 9])
def test_binary_is_no_text(data: bytes) -> None:
    with pytest.raises(TextError, match="it is no text"):
        TextFile.decode(data)


def test_an_empty_file_is_a_text() -> None:
    assert TextFile.decode(b"").encode("") == b""
