Tables: see tests/planner/sql/rules/test_rules.py.

## a constant of a subquery
SELECT n, s, count(*) FROM (SELECT 5 AS n, s FROM t) AS q GROUP BY ROLLUP (n, s) HAVING n = 5 ORDER BY s
--
SELECT "q"."key#0" AS n, "q"."key#1" AS s, count(*) FROM (SELECT *, CASE WHEN random() < 2 THEN s END AS "key#1" FROM (SELECT *, CASE WHEN random() < 2 THEN n END AS "key#0" FROM (SELECT 5 AS n, s FROM t) AS q) AS q) AS q GROUP BY ROLLUP ("q"."key#0", "q"."key#1") HAVING "q"."key#0" = 5 ORDER BY "q"."key#1"

## a column of a condition, by its number; what is computed by its name
SELECT i, id % 2 AS odd, max(i), grouping(i) FROM t WHERE i = 3 GROUP BY GROUPING SETS ((1, odd), (id), ())
--
SELECT "t"."key#0" AS i, "t"."key#1" AS odd, max(i), grouping("t"."key#0") FROM (SELECT *, CASE WHEN random() < 2 THEN id % 2 END AS "key#1" FROM (SELECT *, CASE WHEN random() < 2 THEN i END AS "key#0" FROM t) AS t) AS t WHERE i = 3 GROUP BY GROUPING SETS (("t"."key#0", "t"."key#1"), (id), ())

## keys of one name
SELECT t.id, p.id AS other FROM t JOIN p ON t.i = p.n GROUP BY CUBE (t.id, p.id)
--
SELECT "t"."key#0" AS id, "p"."key#1" AS other FROM (SELECT *, CASE WHEN random() < 2 THEN t.id END AS "key#0" FROM t) AS t JOIN (SELECT *, CASE WHEN random() < 2 THEN p.id END AS "key#1" FROM p) AS p ON t.i = p.n GROUP BY CUBE ("t"."key#0", "p"."key#1")

## columns of tables
SELECT s, i, count(*) FROM t WHERE id > 3 GROUP BY ROLLUP (s, i) ORDER BY s
--
SELECT s, i, count(*) FROM t WHERE id > 3 GROUP BY ROLLUP (s, i) ORDER BY s
