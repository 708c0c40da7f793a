"""Random histories of a table: changes by its format's own writer, and between them what zskip does to it.

A history knows the rows that its table must have, and those of each earlier version. After each step they are read
with zskip and without, and random queries find with zskip what those rows give. `python3 dev.py fuzz --histories`
plays longer ones; `ZSKIP_HISTORY_STEPS` and `ZSKIP_HISTORY_SEEDS` (1,2,3) do so in pytest.
"""

from __future__ import annotations

import operator
import os
import random
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import query_fuzz
import random_queries
from nested_values import NESTED, terms_of
from query_fuzz import rows_of
from random_rows import POOLS, Table, pool_of
from table_versions import KINDS, NESTED_KINDS, WIDER, Column, Row, Version, literal, query_columns

import zskip
from zskip.errors import ZskipWarning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STEPS = int(os.environ.get("ZSKIP_HISTORY_STEPS", "5"))
SEEDS = [int(seed) for seed in os.environ.get("ZSKIP_HISTORY_SEEDS", "1").split(",")]
QUERIES = 3
"""After each step."""
MANY_STEPS = 30
"""In which some file is left out for sure."""
MOST_ROWS = 64
"""A table that has more loses some: joins of it with itself stay small."""
OPERATORS = {"=": operator.eq, "<": operator.lt, ">=": operator.ge}
KEYS = Table("keys", tuple((f"k{i}", kind) for i, kind in enumerate(POOLS)), (), None)
"""A few rows of all types, which queries join to the table."""


class Sides(query_fuzz.Sides):
    """A session that answers queries about a table of its catalog, and one that has the rows that must be there."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self.views: dict[str, str] = {}
        """What stands for which table in the other session."""

    def expect(self, tables: Mapping[str, Version]) -> None:
        """Take the rows of these tables for those that queries must find."""
        self.views = {}
        for i, (name, state) in enumerate(tables.items()):
            self.views[name] = f"expected_{i}"
            rows = [[row[c.number] for c in state.columns] for row in state.rows.values()]
            make_view(self.whole, self.views[name], [(c.name, c.kind) for c in state.columns], rows)

    def quickly(self, query: random_queries.Query) -> query_fuzz.Answer:
        """All rows of the answer, from those that must be there."""
        text = query.unlimited().sql()
        for name in sorted(self.views, key=len, reverse=True):  # Of two versions one may be part of the other's name.
            text = text.replace(name, self.views[name])
        return rows_of(self.whole.sql(text))


def make_view(spark: SparkSession, name: str, columns: Sequence[tuple[str, str]], rows: list[list[Any]]) -> None:
    """Give rows a name in a session."""
    kinds = [kind for _, kind in columns]
    texts = [f"({', '.join(map(literal, row, kinds))})" for row in rows or [[None] * len(kinds)]]
    text = f"SELECT * FROM VALUES {', '.join(texts)} AS s({', '.join(name for name, _ in columns)})"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {text}{'' if rows else ' WHERE false'}")


def _nested_condition(rng: random.Random, column: Column) -> tuple[str, Callable[[Row], bool]]:
    """A test of what a column holds, as SQL and in Python."""
    name, number = column.name, column.number
    texts = [key for pairs in NESTED["map<string,int>"].pool for key, _ in pairs]
    text, value = rng.choice(texts), rng.choice(POOLS["int"])
    quoted = literal(text, "string")
    if column.kind.startswith("struct"):
        return f"{name}.a = {value}", lambda row: row[number] is not None and row[number][0] == value
    if column.kind.startswith("array"):
        return f"array_contains({name}, {quoted})", lambda row: row[number] is not None and text in row[number]
    return f"map_contains_key({name}, {quoted})", lambda row: row[number] is not None and text in dict(row[number])


class History:
    """A table, the rows that it must have, and the steps that may come next.

    A format says how a table is made (`create`), what its versions are called (`version`), and which further steps its
    tables have.
    """

    columns: ClassVar[tuple[tuple[str, str], ...]] = (
        ("id", "bigint"), ("i", "int"), ("s", "string"), ("d", "date"), ("f", "float"), ("m", "decimal(9,2)"),
        *zip(("st", "tags", "kv"), NESTED_KINDS, strict=True), ("p", "int"),
    )  # fmt: skip
    """Of the nested ones a table has some: zskip writes tables without lists and maps by more ways."""
    names: ClassVar[tuple[str, ...]] = ("i", "s", "d", "x", "Y", "`a b`", "`é`")
    """Which added and renamed columns get, so that names return; a format may have fewer."""
    kinds: ClassVar[tuple[str, ...]] = (*KINDS, *NESTED_KINDS)
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = query_fuzz.CHOICES
    """Settings that are drawn for each query."""
    matches: ClassVar[tuple[str, ...]] = "", " AND t.p = s.p"
    """Which conditions besides that of the key its MERGE may have."""
    merge_deletes: ClassVar[bool] = True
    """Whether its MERGE deletes some of the matched rows and changes others."""
    by_source: ClassVar[bool] = True
    """Whether its MERGE knows WHEN NOT MATCHED BY SOURCE."""

    def __init__(self, spark: SparkSession, name: str, seed: int) -> None:
        self.spark, self.name, self.rng = spark, name, random.Random(f"{name} {seed}")
        self.sides = Sides(spark)
        self.fixed: dict[str, Callable[[int], Any]] = {"id": lambda key: key, "p": lambda key: key % 2}
        """Columns that no step changes, with their values by the key."""
        self.log: list[str] = []
        self.by: list[str] = []
        """What the table was clustered by."""
        self.next_key = self.next_number = self.next_batch = 0
        columns = (pair for pair in self.columns if pair[1] not in NESTED or self.rng.random() < 0.6)
        self.now = Version(tuple(self._column(*pair) for pair in columns), {})
        self.past: dict[Any, Version] = {}
        self._make_keys()
        self.run(self.create())
        for _ in range(3):
            self.insert()
        self.table = self.open()
        self.steps: list[Callable[[], object]] = [
            *4 * [self.insert], *3 * [self.update], *3 * [self.delete], *3 * [self.merge],
            *2 * [self.index], *2 * [self.optimize], self.compact, *2 * [self.maintain],
        ]  # fmt: skip
        self.changes_of_columns = [self.add, self.rename, self.drop, self.widen, self.replace_column, self.move]
        """What formats add to the steps that can do all of it."""

    # What a format says.

    def create(self) -> str:
        """The statement that makes the empty table with the columns `ddl`."""
        raise NotImplementedError

    def open(self) -> zskip.Table:
        """zskip's table."""
        return zskip.table(self.spark, self.name)

    def version(self) -> Any:
        """What `as_of` calls the current version; None where the format has none."""
        return None

    def as_of(self, version: Any) -> str:
        """The table at an earlier version, as SQL."""
        return f"{self.name} VERSION AS OF {version}"

    def lineage(self) -> dict[int, tuple[Any, ...]]:
        """What a rewrite keeps of each row beside its values, by `id`."""
        return {}

    # Steps of the format's writer.

    def insert(self, count: int = 8) -> None:
        """Add rows, of which some columns have values that are close to each other."""
        if len(self.now.rows) > MOST_ROWS:
            return self.delete()
        rows = self._new_rows(count)
        self.run(f"INSERT INTO {self.name} VALUES {self._values(rows)}")
        self._set_rows({**self.now.rows, **rows})

    def update(self) -> None:
        """Change one or two columns of some rows."""
        columns = self.changeable()
        columns = self.rng.sample(columns, min(len(columns), self.rng.choice([1, 1, 2])))
        if not columns:
            return
        (where, test), values = self.condition(), {c.number: self._value(pool_of(c.pool)) for c in columns}
        changes = ", ".join(f"{c.name} = {literal(values[c.number], c.kind)}" for c in columns)
        self.run(f"UPDATE {self.name} SET {changes} WHERE {where}")
        self._set_rows({key: {**row, **values} if test(row) else row for key, row in self.now.rows.items()})

    def delete(self) -> None:
        """Delete some rows."""
        where, test = self.condition()
        self.run(f"DELETE FROM {self.name} WHERE {where}")
        self._set_rows({key: row for key, row in self.now.rows.items() if not test(row)})

    def merge(self) -> None:
        """Change or delete some rows, and add others."""
        old = self.rng.sample(sorted(self.now.rows), min(3, len(self.now.rows)))
        rows = self._new_rows(2, old)
        names = ", ".join(column.name for column in self.now.columns)
        text = f"MERGE INTO {self.name} t USING (SELECT * FROM VALUES {self._values(rows)} AS s({names})) s "
        text += f"ON t.id = s.id{self.rng.choice(self.matches)} "
        gone: set[int] = set()
        if self.merge_deletes and self.rng.random() < 0.4:
            text += "WHEN MATCHED AND s.id % 3 = 0 THEN DELETE "
            gone = {key for key in old if key % 3 == 0}
        text += "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        if self.by_source and self.rng.random() < 0.3:
            text += " WHEN NOT MATCHED BY SOURCE AND t.id % 11 = 4 THEN DELETE"
            gone |= {key for key in self.now.rows if key % 11 == 4 and key not in rows}
        self.run(text)
        merged = {**self.now.rows, **rows}
        self._set_rows({key: row for key, row in merged.items() if key not in gone})

    def add(self) -> None:
        """Add a column."""
        name = self._free_name()
        if name:
            self._add(name, self.rng.choice(self.kinds))

    def rename(self) -> None:
        """Rename a column."""
        name, column = self._free_name(), self._choose()
        if name and column:
            self.run(f"ALTER TABLE {self.name} RENAME COLUMN {column.name} TO {name}")
            self._replace(column, replace(column, name=name))

    def drop(self) -> None:
        """Drop a column."""
        column = self._choose()
        if column and len(self.changeable()) > 2:
            self._drop(column)

    def replace_column(self) -> None:
        """Drop a column, and add another one of the same name, at times with rows between."""
        column = self._choose()
        if column and len(self.changeable()) > 2:
            self._drop(column)
            if self.rng.random() < 0.3:
                self.insert(2)
                self.remember()
            self._add(column.name, self.rng.choice([column.kind, *self.kinds]))

    def widen(self) -> None:
        """Give a column a wider type."""
        column = self._choose(*WIDER)
        if column:
            self.run(f"ALTER TABLE {self.name} ALTER COLUMN {column.name} TYPE {WIDER[column.kind]}")
            self._replace(column, replace(column, kind=WIDER[column.kind]))

    def move(self) -> None:
        """Put a column first."""
        column = self._choose()
        if column:
            self.run(f"ALTER TABLE {self.name} ALTER COLUMN {column.name} FIRST")
            others = (other for other in self.now.columns if other != column)
            self.now = replace(self.now, columns=(column, *others))

    # Steps of zskip.

    def append(self) -> None:
        """Add rows through zskip, at times as a batch, which may come twice."""
        if len(self.now.rows) > MOST_ROWS:
            return self.delete()
        rows, batch = self._new_rows(self.rng.choice([1, 8])), None
        if self.rng.random() < 0.5:
            batch = ("history", self.next_batch)
            self.next_batch += 1
        assert self._append(rows, batch=batch) == len(rows)
        if batch is not None and self.rng.random() < 0.5:
            assert self._append(rows, batch=batch) == 0, "a batch came twice"
        self._set_rows({**self.now.rows, **rows})

    def _append(self, rows: Mapping[int, Row], **options: Any) -> int:
        """Append rows through zskip, columns in another order than the table's; returns how many it wrote."""
        names = [column.name for column in self.now.columns]
        text = f"SELECT * FROM VALUES {self._values(rows)} AS s({', '.join(names)})"
        self.rng.shuffle(names)
        frame = self.spark.sql(text).select(*names)
        self.note("append", df=text, **options)
        return self.table.append(frame, **options).rows

    def index(self) -> None:
        """Refresh the index, at times with a sketch more."""
        column = self.rng.choice(self.changeable() or self.now.columns)
        specs = ["values:{}", "bloom(0.01):{}", "ranges:{}"]
        specs += ["values:hash({})"] if column.kind in ("int", "bigint", "float", "double", "date") else []
        spec = self.rng.choice(["", *(NESTED[column.kind].sketches if column.kind in NESTED else specs)])
        sketches = [spec.format(column.name)] if spec else []
        self.note("index", sketches=sketches)
        self.table.index(sketches=sketches)

    def optimize(self) -> None:
        """Cluster the table anew."""
        self.by = self._by()
        self.rewrite("optimize", by=self.by, files=self.rng.choice([1, 3]), curve=self._curve())

    def compact(self) -> None:
        """Merge small files."""
        self.rewrite("compact")

    def maintain(self) -> None:
        """Rewrite what is worth it."""
        if self.rng.random() < 0.5 or not self.by or not set(self._keys()).issuperset(self.by):
            self.by = self._by()
        self.rewrite("maintain", by=self.by, target_file_size=self.rng.choice(["1kB", "3kB", "1MB"]))

    def rewrite(self, verb: str, **arguments: Any) -> None:
        """Call a verb that leaves the rows as they are."""
        self.note(verb, **arguments)
        before = self.lineage()
        getattr(self.table, verb)(**arguments)
        assert self.lineage() == before, f"{verb} has changed the ids of rows"

    # What is true after each step.

    def remember(self) -> None:
        """Take down the current version, if it is new."""
        version = self.version()
        if version is not None:
            self.past.setdefault(version, self.now)

    def check(self) -> None:
        """Compare the table and an older version of it with the rows that they must have, and random queries."""
        self.remember()
        versions = {self.name: self.now}
        if self.past:
            old = self.rng.choice(list(self.past))
            versions[self.as_of(old)] = self.past[old]
        for name, state in versions.items():
            names = ", ".join(column.name for column in state.columns)
            for answer in (self.sides.plain, self.sides.pruned):
                self.compare(answer(f"SELECT {names} FROM {name}"), state, f"{name} by {answer.__name__}")
        if self.rng.random() < 0.3:
            names = [column.name for column in self.now.columns]
            self.compare(rows_of(self.frame().selectExpr(*names)), self.now, "df()")
        self.sides.expect(versions)
        tables = [KEYS, *(Table(name, query_columns(state), (), None) for name, state in versions.items())]
        for _ in range(QUERIES):
            self.ask(random_queries.query(self.rng, tables))

    def frame(self) -> DataFrame:
        """What `Table.df()` gives."""
        return self.table.df()

    def compare(self, found: query_fuzz.Answer, state: Version, what: str) -> None:
        """Hold rows against those that must be there."""
        position = next(i for i, column in enumerate(state.columns) if column.name == "id")
        expected = state.expected()
        rows, missing = Counter(found), Counter(expected.values())
        if rows != missing:
            keys = sorted({row[position] for row in (rows - missing) + (missing - rows)})
            first = keys[0]
            has = [row for row in found if row[position] == first]
            raise AssertionError(
                f"{what} has {len(found)} rows, {len(expected)} are expected; rows {keys[:20]} differ, the first is "
                f"{has} instead of {expected.get(first)} in {[(c.name, c.kind) for c in state.columns]}"
            )

    def ask(self, query: random_queries.Query) -> None:
        """Compare the answers with zskip and without."""
        for name, values in self.choices.items():
            self.spark.conf.set(name, self.rng.choice(values))
        if query_fuzz.wrong(query, self.sides) is not None:
            smallest = query_fuzz.smallest(query, self.sides)
            settings = {name: self.spark.conf.get(name) for name in self.choices}
            raise AssertionError(f"{smallest.sql()}\n{query_fuzz.wrong(smallest, self.sides)}\nunder {settings}")

    def play(self, steps: int) -> None:
        """Take some random steps; raises AssertionError with all that was done until something was wrong."""
        for number in range(steps + 1):
            try:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always", ZskipWarning)
                    if number:
                        self.rng.choice(self.steps)()
                    self.check()
                # Else a query that zskip leaves as it is would look well; a key may be null in all rows that there are.
                told = [str(warning.message) for warning in caught if issubclass(warning.category, ZskipWarning)]
                told = [text for text in told if "hardly tells rows apart" not in text]
                assert not told, told
            except Exception as error:
                done = "\n".join(self.log)
                raise AssertionError(f"after {number} steps {type(error).__name__}: {error}\nof\n{done}") from error

        if steps >= MANY_STEPS:
            # Else nothing was tested.
            assert self.sides.kinds["read"] < self.sides.kinds["files"], self.sides.kinds

    # How steps are put together.

    def run(self, sql: str) -> DataFrame:
        """Run a statement, with zskip or without."""
        enabled = self.rng.choice(["true", "false"])
        self.log.append(f"{sql}  -- enabled: {enabled}")
        self.spark.conf.set("spark.zskip.enabled", enabled)
        try:
            return self.spark.sql(sql)
        finally:
            self.spark.conf.set("spark.zskip.enabled", "true")

    def note(self, verb: str, **arguments: Any) -> None:
        """Take down a call of zskip."""
        self.log.append(f"table.{verb}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})")

    @property
    def ddl(self) -> str:
        """The columns, as SQL."""
        return ", ".join(f"{column.name} {column.kind}" for column in self.now.columns)

    def changeable(self, *kinds: str) -> list[Column]:
        """The columns that steps may change, of these types or of any."""
        columns = (column for column in self.now.columns if column.name not in self.fixed)
        return [column for column in columns if not kinds or column.kind in kinds]

    def condition(self) -> tuple[str, Callable[[Row], bool]]:
        """A test of rows, as SQL and in Python."""
        rng, key = self.rng, next(column.number for column in self.now.columns if column.name == "id")
        form = rng.random()
        if form < 0.4:
            divisor = rng.choice([3, 5, 7, 11])
            rest = rng.randrange(divisor)
            return f"id % {divisor} = {rest}", lambda row: bool(row[key] % divisor == rest)
        # NaN compares otherwise. Iceberg's reader of Parquet takes the default of a column that a file lacks for null.
        columns = [column for column in self.changeable() if column.pool != "double" and column.default is None]
        if form < 0.6 or not columns:
            first = rng.randrange(self.next_key)
            return f"id BETWEEN {first} AND {first + 9}", lambda row: first <= row[key] <= first + 9
        column = rng.choice(columns)
        number = column.number
        if form < 0.7:
            return f"{column.name} IS NULL", lambda row: row[number] is None
        if column.kind in NESTED:
            return _nested_condition(rng, column)
        sign, value = rng.choice(list(OPERATORS)), rng.choice(POOLS[column.pool])
        text = f"{column.name} {sign} {literal(value, column.kind)}"
        return text, lambda row: row[number] is not None and bool(OPERATORS[sign](row[number], value))

    def _set_rows(self, rows: Mapping[int, Row]) -> None:
        defaults = {column.number: column.default for column in self.now.columns}
        self.now = replace(self.now, rows={key: {**defaults, **row} for key, row in rows.items()})

    def _new_rows(self, count: int, keys: Sequence[int] = ()) -> dict[int, Row]:
        """Rows of some keys and of so many new ones."""
        windows = {column.number: self._window(pool_of(column.pool)) for column in self.changeable()}
        rows: dict[int, Row] = {}
        for key in (*keys, *range(self.next_key, self.next_key + count)):
            values = {number: self._value(window) for number, window in windows.items()}
            fixed = {c.number: self.fixed[c.name](key) for c in self.now.columns if c.name in self.fixed}
            rows[key] = {**fixed, **values}
        self.next_key += count
        return rows

    def _window(self, pool: list[Any]) -> list[Any]:
        """Values that one INSERT takes: a few neighbors or all."""
        first = self.rng.randrange(len(pool))
        return pool[first : first + 3] if self.rng.random() < 0.6 else pool

    def _value(self, pool: list[Any]) -> Any:
        return None if self.rng.random() < 0.1 else self.rng.choice(pool)

    def _values(self, rows: Mapping[int, Row]) -> str:
        """Rows as SQL, in the order of the table's columns."""
        return ", ".join(
            f"({', '.join(literal(row[c.number], c.kind) for c in self.now.columns)})" for row in rows.values()
        )

    def _column(self, name: str, kind: str) -> Column:
        self.next_number += 1
        return Column(self.next_number, name, kind)

    def _free_name(self) -> str | None:
        used = {column.name.lower() for column in self.now.columns}
        names = [name for name in self.names if name.lower() not in used]
        return self.rng.choice(names) if names else None

    def _choose(self, *kinds: str) -> Column | None:
        columns = self.changeable(*kinds)
        return self.rng.choice(columns) if columns else None

    def _add(self, name: str, kind: str) -> None:
        self.run(f"ALTER TABLE {self.name} ADD COLUMN {name} {kind}")
        self._add_column(self._column(name, kind))

    def _add_column(self, column: Column) -> None:
        self.now = replace(self.now, columns=(*self.now.columns, column))
        self._set_rows(self.now.rows)

    def _drop(self, column: Column) -> None:
        self.run(f"ALTER TABLE {self.name} DROP COLUMN {column.name}")
        self.now = replace(self.now, columns=tuple(other for other in self.now.columns if other != column))

    def _replace(self, old: Column, new: Column) -> None:
        columns = tuple(new if column == old else column for column in self.now.columns)
        self.now = replace(self.now, columns=columns)

    def _by(self) -> list[str]:
        """Columns to cluster by, and fields and expressions of them."""
        keys = self._keys()
        return self.rng.sample(keys, min(2, len(keys)))

    def _keys(self) -> list[str]:
        flat = [column for column in self.now.columns if column.kind not in NESTED and column.name != "p"]
        taken = [name for column in self.now.columns for name, _ in terms_of(column.name, column.kind)]
        lowered = [f"lower({column.name})" for column in flat if column.kind == "string"]
        return [*(column.plain_name for column in flat), *taken, *lowered]

    def _curve(self) -> str:
        return self.rng.choice(["zorder", "hilbert", "linear"])

    def _make_keys(self) -> None:
        rows = [[self._value(POOLS[kind]) for _, kind in KEYS.columns] for _ in range(4)]
        for spark in (self.spark, self.sides.whole):
            make_view(spark, KEYS.name, KEYS.columns, rows)
