"""Statements are read as they are written, and what does not parse is refused in Spark's words."""

from __future__ import annotations

import pytest

from zskip.errors import PredicateError
from zskip.spark.jvm.catalog import quote_name
from zskip.sql.statements.parser import Target
from zskip.sql.statements.skipping_index import DescribeIndex
from zskip.sql.statements.statement import (
    ExplainSkipping,
    Maintain,
    Optimize,
    Query,
    Statement,
    Verify,
    read_statement,
)
from zskip.sql.statements.text import string_of, tokens
from zskip.sql.statements.write import CreateTable, Insert

T = Target(parts=("t",))
READ: list[tuple[str, Statement]] = [
    ("OPTIMIZE t", Optimize(target=T)),
    ("  optimize\tt ;;\n", Optimize(target=T)),
    ("-- why\nOPTIMIZE /* /* deep */ too */ t", Optimize(target=T)),
    ("OPTIMIZE '/a b/t'", Optimize(target=Target(path="/a b/t"))),
    ('OPTIMIZE "/a\'b"', Optimize(target=Target(path="/a'b"))),
    ("OPTIMIZE r'C:\\new'", Optimize(target=Target(path="C:\\new"))),
    ("OPTIMIZE parquet.`/a.b/c``d`", Optimize(target=Target(parts=("parquet", "/a.b/c`d")))),
    ("OPTIMIZE `ä b`.`c.d`.select", Optimize(target=Target(parts=("ä b", "c.d", "select")))),
    ("OPTIMIZE zorder ZORDER BY a, b", Optimize(target=Target(parts=("zorder",)), curve="zorder", by=("a", "b"))),
    ("OPTIMIZE t ZORDER BY (a, `b;c`)", Optimize(target=T, curve="zorder", by=("a", "b;c"))),
    ("OPTIMIZE t hilbert by s.x, `s`.`y z`", Optimize(target=T, curve="hilbert", by=("s.x", "s.`y z`"))),
    ("OPTIMIZE t AUTO", Optimize(target=T, curve="auto", by=None)),
    ("OPTIMIZE t AUTO BY (a, b)", Optimize(target=T, curve="auto", by=("a", "b"))),
    ("OPTIMIZE t FITTED BY (a, b)", Optimize(target=T, curve="fitted", by=("a", "b"))),
    (
        "OPTIMIZE t FITTED BY (a, b) WITH (unseen = 0.3)",
        Optimize(target=T, curve="fitted", by=("a", "b"), options=(("unseen", 0.3),)),
    ),
    (
        "OPTIMIZE t INCREMENTAL WITH (unseen = 1, refit = true)",
        Maintain(target=T, options=(("unseen", 1.0), ("refit", True))),
    ),
    ("OPTIMIZE t LINEAR BY (1st)", Optimize(target=T, curve="linear", by=("1st",))),
    ("OPTIMIZE t WHERE p = 1", Optimize(target=T, where="p = 1")),
    (
        "OPTIMIZE t WHERE p = 'x) ZORDER BY (' AND (q IN (1, 2)) ZORDER BY (a, b) WITH (files = 3)",
        Optimize(
            target=T,
            where="p = 'x) ZORDER BY (' AND (q IN (1, 2))",
            curve="zorder",
            by=("a", "b"),
            options=(("files", 3),),
        ),
    ),
    ("OPTIMIZE t WHERE zorder = 1 AND `with` > 2", Optimize(target=T, where="zorder = 1 AND `with` > 2")),
    ("OPTIMIZE t WHERE p = 1 -- ; ZORDER BY x", Optimize(target=T, where="p = 1")),
    ("OPTIMIZE t WHERE p = ';' ;", Optimize(target=T, where="p = ';'")),
    (
        "OPTIMIZE t WITH (Files=8, target_file_size='1\\'MB', exclusive=FALSE, seed=-3)",
        Optimize(
            target=T,
            options=(("files", 8), ("target_file_size", "1'MB"), ("exclusive", False), ("seed", -3)),
        ),
    ),
    ("OPTIMIZE t INCREMENTAL", Maintain(target=T)),
    (
        "optimize t incremental zorder by (a, b) with (budget = '1GB', seconds = 5, dry_run = true);",
        Maintain(target=T, by=("a", "b"), options=(("budget", "1GB"), ("seconds", 5), ("dry_run", True))),
    ),
    ("OPTIMIZE incremental", Optimize(target=Target(parts=("incremental",)))),
    ("VERIFY t", Verify(target=T)),
    ("verify `t` where a = 'it\\'s' OR b LIKE '%;%';", Verify(target=T, where="a = 'it\\'s' OR b LIKE '%;%'")),
    ("DESCRIBE SKIPPING INDEX ON t", DescribeIndex(target=T)),
    ("desc skipping index on t;", DescribeIndex(target=T)),
    ("create table t cluster by (a, b) as select 1;", CreateTable(target=T, query="select 1", by=("a", "b"))),
    (
        "CREATE TABLE '/d/t' USING delta PARTITIONED BY (p) CLUSTER BY a WITH (files = 3) AS "
        "WITH x AS (SELECT 1) SELECT 2",
        CreateTable(
            target=Target(path="/d/t"),
            query="WITH x AS (SELECT 1) SELECT 2",
            by=("a",),
            format_name="delta",
            partition_by=("p",),
            options=(("files", 3),),
        ),
    ),
    (
        "CREATE TABLE t USING iceberg PARTITIONED BY (days(`a b`), bucket( 4, n.q ), p) CLUSTER BY (a, b) AS SELECT 1",
        CreateTable(
            target=T,
            query="SELECT 1",
            by=("a", "b"),
            format_name="iceberg",
            partition_by=("days(`a b`)", "bucket( 4, n.q )", "p"),
        ),
    ),
    ("INSERT INTO TABLE t SELECT ';' ;", Insert(target=T, query="SELECT ';' ")),
    ("insert into t (a, b) values (1, 2)", Insert(target=T, query="(a, b) values (1, 2)")),
    ("EXPLAIN SKIPPING SELECT 1;", ExplainSkipping(query=" " * 16 + " SELECT 1;")),
]


@pytest.mark.parametrize(("sql", "expected"), READ, ids=[sql for sql, _ in READ])
def test_statements(sql: str, expected: Statement) -> None:
    assert read_statement(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "",
        "-- nothing",
        "SELECT 'OPTIMIZE t'",
        "EXPLAIN SELECT 1",
        "EXPLAIN EXTENDED SELECT 1",
        "DESCRIBE t",
        "DESCRIBE skipping index",
        "DESC skipping index;",
        "DESC skipping index -- of a table of that name",
        "OPTIMIZER t",
        "`OPTIMIZE` t",
        "CREATE TABLE t CLUSTER BY (a, b)",
        "CREATE TABLE t USING orc CLUSTER BY (a) AS SELECT 1",
        "CREATE TABLE t AS SELECT 1 AS a CLUSTER BY a",
        "CREATE TABLE t (a INT)",
        "INSERT INTO t VALUES ('no end",
        "INSERT OVERWRITE t SELECT 1",
        "SELECT 'no end",
        "/* no end",
    ],
)
def test_anything_else_is_for_spark(sql: str) -> None:
    assert read_statement(sql) == Query(text=sql)


BAD = [
    ("OPTIMIZE", "end of input", 1, 8, "expected a table"),
    ("OPTIMIZE ;", "';'", 1, 9, "expected a table"),
    ("OPTIMIZE t.", "end of input", 1, 11, "expected the rest of a table"),
    ("OPTIMIZE ``", "'``'", 1, 9, "expected a table"),
    ("OPTIMIZE t u", "'u'", 1, 11, "expected WHERE, ZORDER BY, HILBERT BY, LINEAR BY, WITH or the end"),
    ("OPTIMIZE t\n  WHERE", "end of input", 2, 7, "expected a predicate"),
    ("OPTIMIZE t WHERE ZORDER BY a", "'ZORDER'", 1, 17, "expected a predicate"),
    ("OPTIMIZE t ZORDER (a, b)", "'('", 1, 18, "expected BY"),
    ("OPTIMIZE t ZORDER BY", "end of input", 1, 20, "expected a column"),
    ("OPTIMIZE t ZORDER BY ()", "')'", 1, 22, "expected a column"),
    ("OPTIMIZE t ZORDER BY (a b)", "'b'", 1, 24, "expected a comma and a column, or )"),
    ("OPTIMIZE t ZORDER BY (a, 'b')", "''b''", 1, 25, "expected a column"),
    ("OPTIMIZE t ZORDER BY a, b c", "'c'", 1, 26, "expected WITH or the end"),
    ("OPTIMIZE t ZORDER BY a WHERE p = 1", "'WHERE'", 1, 23, "expected WITH or the end"),
    ("OPTIMIZE t ZORDER BY a HILBERT BY b", "'HILBERT'", 1, 23, "expected WITH or the end"),
    ("OPTIMIZE t WITH (fils = 3)", "'fils'", 1, 17, 'no option "fils"; did you mean "files"?'),
    ("OPTIMIZE t WITH (curve = 'hilbert')", "'curve'", 1, 17, "write it as a clause"),
    ("OPTIMIZE t WITH (files = '3')", "''3''", 1, 25, 'the option "files" is a whole number'),
    ("OPTIMIZE t WITH (files = true)", "'true'", 1, 25, 'the option "files" is a whole number'),
    ("OPTIMIZE t WITH (exclusive = 1)", "'1'", 1, 29, "is true or false"),
    ("OPTIMIZE t WITH (files = 3.5)", "'3.5'", 1, 25, 'the option "files" is a whole number'),
    ("OPTIMIZE t WITH (files 3)", "'3'", 1, 23, "expected ="),
    ("OPTIMIZE t WITH (files = 3, files = 4)", "'files'", 1, 28, "given twice"),
    ("OPTIMIZE t WITH ()", "')'", 1, 17, "expected an option"),
    ("OPTIMIZE t; SELECT 1", "'SELECT'", 1, 12, "or the end of the statement"),
    ("OPTIMIZE t WHERE p = 1; SELECT 1", "'SELECT'", 1, 24, "or the end of the statement"),
    ("OPTIMIZE 'no end", "'''", 1, 9, "the string has no end"),
    ("OPTIMIZE t WHERE `no end", "'`'", 1, 17, "the name has no end"),
    ("OPTIMIZE t /* no end", "'/*'", 1, 11, "the comment has no end"),
    ("VERIFY", "end of input", 1, 6, "expected a table"),
    ("VERIFY t, u", "','", 1, 8, "expected WHERE or the end"),
    ("DESCRIBE SKIPPING INDEX t", "'t'", 1, 24, "expected ON"),
    ("DESC SKIPPING INDEX ON", "end of input", 1, 22, "expected a table"),
    ("DESCRIBE SKIPPING INDEX ON t (a)", "'('", 1, 29, "expected a semicolon or the end"),
    ("EXPLAIN SKIPPING", "end of input", 1, 16, "expected a query"),
    ("EXPLAIN SKIPPING ;", "';'", 1, 17, "expected a query"),
]


@pytest.mark.parametrize(("sql", "near", "line", "position", "says"), BAD, ids=[sql for sql, *_ in BAD])
def test_syntax_errors_say_where_and_what(sql: str, near: str, line: int, position: int, says: str) -> None:
    with pytest.raises(PredicateError) as raised:
        read_statement(sql)
    text = str(raised.value)
    first, _, rest = text.partition("\n\n== SQL ==\n")
    assert first.startswith(f"[PARSE_SYNTAX_ERROR] Syntax error at or near {near}: ")
    assert first.endswith(f" (line {line}, pos {position})")
    assert says in first
    assert rest.split("\n")[line] == "-" * position + "^^^"
    assert [part for i, part in enumerate(rest.split("\n")) if i != line] == sql.split("\n")


def test_names_are_quoted_so_that_they_stay_names() -> None:
    for parts in [("a",), ("a.b", "c`d"), ("x; DROP TABLE y --",), ("'", '"'), ("ä\u2028\n",)]:
        found = tokens(quote_name(parts))
        assert [token.kind for token in found if token.text != "."] == ["quoted"] * len(parts) + ["end"]
        assert read_statement(f"VERIFY {quote_name(parts)}") == Verify(target=Target(parts=parts))


@pytest.mark.spark
@pytest.mark.parametrize(
    "literal",
    [
        r"'a\tb'",
        r"'\\'",
        r"'\''",
        r'"a\"b"',
        r"'\%\_'",
        r"r'\n'",
        r'R"\\"',
        r"'ä'",
        r"'\101'",
        r"'\x'",
        r"'\Z\0'",
        "'a\nb'",
    ],
)
def test_strings_are_as_spark_reads_them(spark: object, literal: str) -> None:
    assert spark.sql(f"SELECT {literal}").first()[0] == string_of(literal)  # type: ignore[attr-defined]
