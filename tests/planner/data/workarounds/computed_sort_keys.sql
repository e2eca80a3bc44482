Sort keys of several operations; see planner/sql/rules/keys.py.

## exp of a quotient
SELECT x, count(*) OVER (PARTITION BY exp(x / 10)) AS n FROM (VALUES (20.0)) AS t(x)
--
20.0 | 1

## a logarithm of a column
SELECT x, rank() OVER (ORDER BY ln(x)) AS n FROM (VALUES (20.0)) AS t(x)
--
20.0 | 1

## a function of a field of a column
SELECT abs(st['x']) AS x, count(*) OVER (PARTITION BY abs(st['x'])) AS n FROM (VALUES (struct(1 AS x))) AS t(st)
--
1 | 1

## a condition on a field of a column
SELECT y, count(*) OVER (PARTITION BY CASE WHEN -st['x'] = y THEN 1 ELSE 0 END) AS n FROM (VALUES (struct(1 AS x), 2)) AS t(st, y)
--
2 | 1

## a window by CASE
SELECT id, rank() OVER (ORDER BY CASE WHEN abs(a) > 3 THEN 1 ELSE 0 END) AS r FROM t WHERE id IN (2, 5)
--
2 | 1
5 | 2

## a window by what is never NULL
SELECT a, count(*) OVER (PARTITION BY -coalesce(a, CAST(1.1 AS DECIMAL(3, 1)))) AS n FROM t WHERE id = 2
--
2 | 1
