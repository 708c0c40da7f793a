"""The queries of the demo: those of TPC-H that filter on the clustered columns, and look-ups as in applications."""

from __future__ import annotations

QUERIES: dict[str, str] = {
    "Q3 shipping priority": """
        SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate
        FROM orders JOIN lineitem ON l_orderkey = o_orderkey
        WHERE o_orderdate BETWEEN DATE '1995-03-01' AND DATE '1995-03-15'
          AND l_shipdate BETWEEN DATE '1995-03-16' AND DATE '1995-04-15'
        GROUP BY l_orderkey, o_orderdate""",
    "Q6 revenue forecast": """
        SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
          AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    "Q12 shipping modes": """
        SELECT l_shipmode, count(*) AS lines FROM lineitem
        WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
          AND l_shipdate >= DATE '1993-11-01' AND l_shipdate < DATE '1994-01-01'
        GROUP BY l_shipmode""",
    "Q14 promotion effect": """
        SELECT count(*) AS lines, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem
        WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'""",
    "Q15 top supplier": """
        SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem
        WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01' AND l_suppkey < 500
        GROUP BY l_suppkey""",
    "Q17 small quantities": """
        SELECT avg(l_quantity) AS quantity, sum(l_extendedprice) / 7.0 AS yearly FROM lineitem
        WHERE l_partkey IN (177, 1823, 4410)""",
    "Q19 discounted revenue": """
        SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lineitem
        WHERE l_partkey BETWEEN 2000 AND 2400 AND l_quantity BETWEEN 1 AND 11
          AND l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON'""",
    "Q20 part promotion": """
        SELECT l_partkey, l_suppkey, 0.5 * sum(l_quantity) AS half FROM lineitem
        WHERE l_partkey < 1500 AND l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
        GROUP BY l_partkey, l_suppkey""",
    "one part": "SELECT * FROM lineitem WHERE l_partkey = 12345",
    "one supplier in a month": """
        SELECT * FROM lineitem
        WHERE l_suppkey = 77 AND l_shipdate BETWEEN DATE '1997-05-01' AND DATE '1997-05-31'""",
    "one customer": "SELECT * FROM orders WHERE o_custkey = 4321",
}
"""Text by name; the tables are views with their TPC-H names."""
