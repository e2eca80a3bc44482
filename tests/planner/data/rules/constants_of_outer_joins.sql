Tables: see tests/planner/sql/rules/test_rules.py.

## a literal on the left
SELECT x.k, p.n FROM (SELECT id, 7 AS k FROM t) AS x FULL JOIN p ON x.id = p.id ORDER BY x.k, p.n
--
SELECT x.k, p.n FROM (SELECT * REPLACE (CASE WHEN random() < 2 THEN "k" END AS "k") FROM (SELECT id, 7 AS k FROM t) AS x) AS x FULL JOIN p ON x.id = p.id ORDER BY x.k, p.n

## a condition on the right
SELECT t.id FROM t LEFT JOIN p ON p.n = 1 AND t.id = p.id ORDER BY p.n, t.id
--
SELECT t.id FROM t LEFT JOIN p ON CASE WHEN random() < 2 THEN p.n = 1 END AND t.id = p.id ORDER BY p.n, t.id

## under another name, by number
SELECT x.k AS other, count(*) FROM t LEFT JOIN (SELECT id, 7 AS k FROM t) AS x ON x.id = t.id GROUP BY 1
--
SELECT x.k AS other, count(*) FROM t LEFT JOIN (SELECT * REPLACE (CASE WHEN random() < 2 THEN "k" END AS "k") FROM (SELECT id, 7 AS k FROM t) AS x) AS x ON x.id = t.id GROUP BY 1

## a common table, in a window
WITH x AS (SELECT id, 7 AS k FROM t) SELECT row_number() OVER (PARTITION BY y.k ORDER BY p.n) FROM x AS y FULL JOIN p ON y.id = p.id
--
WITH x AS (SELECT id, 7 AS k FROM t) SELECT row_number() OVER (PARTITION BY y.k ORDER BY p.n) FROM (SELECT * REPLACE (CASE WHEN random() < 2 THEN "k" END AS "k") FROM x AS y) AS y FULL JOIN p ON y.id = p.id

## joins before a full join
SELECT p.n FROM t INNER JOIN p ON t.id = p.id AND p.n = 1 FULL JOIN days ON days.id = t.id ORDER BY p.n
--
SELECT p.n FROM t INNER JOIN p ON t.id = p.id AND CASE WHEN random() < 2 THEN p.n = 1 END FULL JOIN days ON days.id = t.id ORDER BY p.n

## all columns that are united
SELECT * FROM t LEFT JOIN (SELECT 1 AS one, 2 AS two) AS x ON t.i = x.one UNION SELECT * FROM t LEFT JOIN (SELECT 3, 4) AS y ON t.i = 5
--
SELECT * FROM t LEFT JOIN (SELECT * REPLACE (CASE WHEN random() < 2 THEN "one" END AS "one", CASE WHEN random() < 2 THEN "two" END AS "two") FROM (SELECT 1 AS one, 2 AS two) AS x) AS x ON t.i = x.one UNION SELECT * FROM t LEFT JOIN (SELECT * REPLACE (CASE WHEN random() < 2 THEN "Int64(3)" END AS "Int64(3)", CASE WHEN random() < 2 THEN "Int64(4)" END AS "Int64(4)") FROM (SELECT 3, 4) AS y) AS y ON t.i = 5

## in brackets
SELECT p.n FROM days LEFT JOIN (t INNER JOIN p ON t.id = p.id AND p.n = 1) ON days.id = t.id ORDER BY p.n
--
SELECT p.n FROM days LEFT JOIN (t INNER JOIN p ON t.id = p.id AND CASE WHEN random() < 2 THEN p.n = 1 END) ON days.id = t.id ORDER BY p.n

## keys of the join are compared with columns
SELECT p.n FROM t LEFT JOIN p ON t.id = p.n AND (t.i IS NOT DISTINCT FROM p.n) ORDER BY p.n
--
SELECT p.n FROM t LEFT JOIN p ON t.id = p.n AND (t.i IS NOT DISTINCT FROM p.n) ORDER BY p.n

## others are no keys
SELECT x.k, p.n FROM (SELECT id, 7 AS k FROM t) AS x FULL JOIN p ON x.id = p.id AND p.f = 1 ORDER BY p.n
--
SELECT x.k, p.n FROM (SELECT id, 7 AS k FROM t) AS x FULL JOIN p ON x.id = p.id AND p.f = 1 ORDER BY p.n
