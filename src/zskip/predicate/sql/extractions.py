"""Paths into variants as people write them, `v:a.b[0]`, as the calls that Catalyst makes of them."""

from __future__ import annotations

from sqlglot import TokenType

from zskip.predicate.sql.tokens import Token, tokens_of

_OPEN, _CLOSE = (TokenType.L_PAREN, TokenType.L_BRACKET), (TokenType.R_PAREN, TokenType.R_BRACKET)


def call_extractions(sql: str) -> str:
    """Write each path as a call of `variant_get`; a text without a path stays as it is.

    Raises PredicateError for text that is not SQL.

    >>> call_extractions("lower(st.v:a.`b c`[0]::string) = 'x:y'")
    "lower(variant_get(st.v, '$.a[\\\\'b c\\\\'][0]')::string) = 'x:y'"
    """
    if ":" not in sql:
        return sql
    tokens = tokens_of(sql)
    parts, written = [], 0
    for i, token in enumerate(tokens):
        if token.token_type is not TokenType.COLON or token.start < written:
            continue
        first, end = _start_of_name(tokens, i), i + 1
        steps = []
        while end < len(tokens) and (step := _step(tokens, end, is_first=end == i + 1)) is not None:
            steps.append(step[0])
            end += step[1]
        if first is None or not steps:
            continue
        name = sql[tokens[first].start : tokens[i - 1].end + 1]
        path = "".join(steps).replace("\\", "\\\\").replace("'", "\\'")
        parts += [sql[written : tokens[first].start], f"variant_get({name}, '${path}')"]
        written = tokens[end - 1].end + 1
    return "".join([*parts, sql[written:]])


def _start_of_name(tokens: list[Token], colon: int) -> int | None:
    """The first token of the name, or the call, that ends before a colon; None without one."""
    first = colon
    while first > 0:
        while first > 0 and tokens[first - 1].token_type in _CLOSE:
            first = _opening(tokens, first - 1)
        if first > 0 and _is_name(tokens[first - 1]):
            first -= 1
        if first < 2 or tokens[first - 1].token_type is not TokenType.DOT:
            break
        first -= 1
    return first if first < colon else None


def _opening(tokens: list[Token], closing: int) -> int:
    """The token that opens what another one closes, the first of all if there is none."""
    depth = 0
    for i in range(closing, -1, -1):
        depth += (tokens[i].token_type in _CLOSE) - (tokens[i].token_type in _OPEN)
        if not depth:
            return i
    return 0


def _step(tokens: list[Token], at: int, *, is_first: bool) -> tuple[str, int] | None:
    """A step of a path, and the number of its tokens; None where the path has ended."""
    kinds = [token.token_type for token in tokens[at : at + 3]]
    if kinds[:1] == [TokenType.L_BRACKET] and kinds[2:] == [TokenType.R_BRACKET]:
        inner = tokens[at + 1]
        if inner.token_type is TokenType.NUMBER:
            return f"[{inner.text}]", 3
        return (f"['{inner.text}']", 3) if inner.token_type is TokenType.STRING else None
    name = at if is_first else at + 1 if kinds[:1] == [TokenType.DOT] else None
    if name is None or name >= len(tokens) or not _is_name(tokens[name]):
        return None
    text = tokens[name].text
    return f".{text}" if text.isidentifier() and text.isascii() else f"['{text}']", name + 1 - at


def _is_name(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER or token.text.isidentifier()
