Tables: see tests/planner/sql/rules/test_rules.py.

## a constant of a subquery
SELECT n, s, count(*) FROM (SELECT 5 AS n, s FROM t) AS q GROUP BY ROLLUP (n, s) HAVING n = 5 ORDER BY s
--
SELECT CASE WHEN random() < 2 THEN n END AS n, CASE WHEN random() < 2 THEN s END AS s, count(*) FROM (SELECT 5 AS n, s FROM t) AS q GROUP BY ROLLUP (CASE WHEN random() < 2 THEN n END, CASE WHEN random() < 2 THEN s END) HAVING CASE WHEN random() < 2 THEN n END = 5 ORDER BY CASE WHEN random() < 2 THEN s END

## a column of a condition, by its number; what is computed by its name
SELECT i, id % 2 AS odd, max(i), grouping(i) FROM t WHERE i = 3 GROUP BY GROUPING SETS ((1, odd), (id), ())
--
SELECT CASE WHEN random() < 2 THEN i END AS i, CASE WHEN random() < 2 THEN id % 2 END AS odd, max(i), grouping(CASE WHEN random() < 2 THEN i END) FROM t WHERE i = 3 GROUP BY GROUPING SETS ((CASE WHEN random() < 2 THEN i END, CASE WHEN random() < 2 THEN id % 2 END), (id), ())

## keys of one name
SELECT t.id, p.id AS other FROM t JOIN p ON t.i = p.n GROUP BY CUBE (t.id, p.id)
--
SELECT CASE WHEN random() < 2 THEN t.id END AS id, CASE WHEN random() < 2 THEN p.id END AS other FROM t JOIN p ON t.i = p.n GROUP BY CUBE (CASE WHEN random() < 2 THEN t.id END, CASE WHEN random() < 2 THEN p.id END)

## columns of tables
SELECT s, i, count(*) FROM t WHERE id > 3 GROUP BY ROLLUP (s, i) ORDER BY s
--
SELECT s, i, count(*) FROM t WHERE id > 3 GROUP BY ROLLUP (s, i) ORDER BY s
