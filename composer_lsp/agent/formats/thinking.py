"""Thoughts at the beginning of an answer, `<think>…</think>`, which are hidden."""

from composer_lsp.agent.formats.cursor import Cursor, Hidden, More, Offered


def read(cursor: Cursor, offered: Offered) -> Hidden:
    cursor.take("<think>")
    if cursor.is_whole and cursor.text.find("</think>", cursor.at) < 0:
        cursor.at = len(cursor.text)
    else:
        cursor.until("</think>")
    cursor.skip_space()
    if cursor.at == len(cursor.text) and not cursor.is_whole:
        raise More
    return Hidden()
