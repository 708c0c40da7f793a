"""The settings of a connected session by which zskip reads its queries, asked for once until a request may set one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from zskip.spark.connect.expressions import Dialect, Message

SETTING = "spark.zskip.enabled"
_CASE, ZONE = "spark.sql.caseSensitive", "spark.sql.session.timeZone"
_QUOTES, _ESCAPES = "spark.sql.ansi.doubleQuotedIdentifiers", "spark.sql.parser.escapedStringLiterals"
BY_ID, WAP = "spark.sql.parquet.fieldId.read.enabled", "spark.wap.branch"
_NAMES = (SETTING, _CASE, ZONE, _QUOTES, _ESCAPES, BY_ID, WAP)
_SETS = re.compile(r"\b(?:set|reset|function)\b", re.IGNORECASE)
_SETS_NOTHING = ("sql_command", "create_dataframe_view", "write_operation", "write_operation_v2")


class Settings:
    """The settings of one session."""

    def __init__(self, spark: Any, is_replaced: Callable[[str], bool]) -> None:
        """is_replaced: asks the session whether a function is its own."""
        self._spark = spark
        self._is_replaced = is_replaced
        self._values: dict[str, str] | None = None
        self._functions: dict[str, bool] = {}
        self.epoch = 0
        """The number of times that a request may have set one."""

    def notice(self, method: str, request: Message) -> None:
        """Forget what a request may change."""
        operation = request.operation if method == "Config" else None
        command = request.plan.command if method == "ExecutePlan" and request.plan.HasField("command") else None
        if operation is not None and operation.WhichOneof("op_type") in ("set", "unset"):
            self._forget()
        elif command is not None:
            text = command.sql_command.sql or str(command.sql_command)  # Before Spark 4 there is no `input`.
            if _SETS.search(text) or command.WhichOneof("command_type") not in _SETS_NOTHING:
                self._forget()

    def _forget(self) -> None:
        self._values, self._functions = None, {}
        self.epoch += 1

    def __getitem__(self, name: str) -> str:
        """The value of a setting; empty where it has none."""
        values = self._values
        if values is None:
            values = self._values = self._read()
        return values.get(name, "")

    def is_on(self, name: str) -> bool:
        """Whether a setting is true."""
        return self[name].lower() == "true"

    @property
    def case_sensitive(self) -> bool:
        """Whether names are told apart by case."""
        return self.is_on(_CASE)

    def dialect(self) -> Dialect:
        """How the session reads texts and functions."""
        return Dialect(
            double_quoted_identifiers=self.is_on(_QUOTES),
            escaped_string_literals=self.is_on(_ESCAPES),
            is_replaced=self._replaces,
        )

    def _replaces(self, function: str) -> bool:
        if function not in self._functions:
            self._functions[function] = self._is_replaced(function)
        return self._functions[function]

    def _read(self) -> dict[str, str]:
        from pyspark.sql.connect.proto import base_pb2

        option = base_pb2.ConfigRequest.GetOption(keys=_NAMES)
        operation = base_pb2.ConfigRequest.Operation(get_option=option)
        pairs = self._spark.client.config(operation).pairs
        return {key: value for key, value in pairs if value is not None}
