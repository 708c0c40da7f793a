"""Tokens of SQL text with their offsets, strings and quoted names as in Spark, and errors in Spark's words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from zskip.errors import PredicateError

_SPACE = re.compile(r"(?:\s+|--(?:\\\r?\n|[^\n])*)+")
_TOKEN = re.compile(
    r"""
    (?P<string>[rR]?(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"))
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w]))
  | (?P<word>\w+)
  | (?P<symbol>.)
    """,
    re.DOTALL | re.VERBOSE,
)
_COMMENT = re.compile(r"/\*|\*/")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)|(['\"])\2", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """A piece of SQL text."""

    kind: str
    """`word`, `quoted`, `string`, `number`, `symbol` or `end`."""
    text: str
    """As written."""
    start: int
    """Offset in the text."""

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.start + len(self.text)

    @property
    def upper(self) -> str:
        """A word as a keyword; empty for anything else."""
        return self.text.upper() if self.kind == "word" else ""


def tokens(sql: str, limit: int | None = None) -> list[Token]:
    """All tokens of a text, comments left out, the last of kind `end`.

    limit: at most this many. Raises PredicateError for strings, names and comments without an end.

    >>> [token.text for token in tokens("VERIFY `a b` -- why\\n WHERE x = 'it\\\\'s';")]
    ['VERIFY', '`a b`', 'WHERE', 'x', '=', "'it\\\\'s'", ';', '']
    """
    result: list[Token] = []
    offset = 0
    while limit is None or len(result) < limit:
        offset = _skip_space(sql, offset)
        match = _TOKEN.match(sql, offset)
        if match is None:
            result.append(Token(kind="end", text="", start=len(sql.rstrip())))
            break
        token = Token(kind=str(match.lastgroup), text=match[0], start=offset)
        if token.text in "'\"`":
            what = "name" if token.text == "`" else "string"
            raise syntax_error(sql, token, f"the {what} has no end; close it with {token.text}")
        result.append(token)
        offset = token.end
    return result


def _skip_space(sql: str, at: int) -> int:
    """Skip white space and comments, which nest; returns the offset behind them."""
    while True:
        match = _SPACE.match(sql, at)
        at = match.end() if match else at
        if not sql.startswith("/*", at):
            return at
        depth, start = 0, at
        while True:
            mark = _COMMENT.search(sql, at)
            if mark is None:
                raise syntax_error(sql, Token(kind="symbol", text="/*", start=start), "the comment has no end")
            depth += 1 if mark[0] == "/*" else -1
            at = mark.end()
            if not depth:
                break


def syntax_error(sql: str, token: Token, expected: str) -> PredicateError:
    """The error for a text that does not parse at a token, in the words of Spark's parser.

    >>> print(syntax_error("VERIFY 3", tokens("VERIFY 3")[1], "expected a table"))
    [PARSE_SYNTAX_ERROR] Syntax error at or near '3': expected a table. SQLSTATE: 42601 (line 1, pos 7)
    <BLANKLINE>
    == SQL ==
    VERIFY 3
    -------^^^
    """
    line_start = sql.rfind("\n", 0, token.start) + 1
    line, position = sql.count("\n", 0, token.start), token.start - line_start
    near = "end of input" if token.kind == "end" else f"'{token.text[:100]}'"
    message = f"[PARSE_SYNTAX_ERROR] Syntax error at or near {near}: {expected}. SQLSTATE: 42601"
    return marked_error(sql, message, line + 1, position)


def marked_error(sql: str, message: str, line: int, position: int) -> PredicateError:
    """An error with the text and a mark under a position in it.

    line: counted from 1; position: in the line, counted from 0.
    """
    lines = sql.split("\n")
    lines.insert(line, "-" * position + "^^^")
    return PredicateError(f"{message} (line {line}, pos {position})\n\n== SQL ==\n" + "\n".join(lines))


def string_of(literal: str) -> str:
    r"""The value of a string literal, its escapes read as Spark reads them.

    >>> string_of(r"'a\tb\'\q\%'"), string_of(r"r'a\tb'"), string_of("'it''s'")
    ("a\tb'q\\%", 'a\\tb', "it's")
    """
    if literal[0] in "rR":
        return literal[2:-1]
    return _ESCAPE.sub(_unescape, literal[1:-1])


def _unescape(match: re.Match[str]) -> str:
    if match[2]:
        return match[2]
    code = match[1]
    if code[0] in "uU" and len(code) > 1:
        return chr(int(code[1:], 16)) if int(code[1:], 16) <= 0x10FFFF else "\ufffd"
    return chr(int(code, 8)) if len(code) == 3 else _ESCAPED.get(code, code)


def name_of(token: Token) -> str:
    """A name without its backticks.

    >>> name_of(Token(kind="quoted", text="`a``b`", start=0))
    'a`b'
    """
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
