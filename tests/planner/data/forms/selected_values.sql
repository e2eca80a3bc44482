VALUES with subqueries are queries.

## one of the values
SELECT x FROM (VALUES ((SELECT max(id) FROM t)), (2)) AS v(x)
--
SELECT x FROM (SELECT (SELECT max(id) FROM t) AS column1 UNION ALL SELECT 2 AS column1) AS v(x)

## the statement itself
VALUES (1, (SELECT max(id) FROM t)) LIMIT 3
--
SELECT * FROM (SELECT 1 AS column1, (SELECT max(id) FROM t) AS column2) AS _values LIMIT 3

## no subquery
VALUES (1), (2) ORDER BY 1
--
SELECT * FROM (VALUES (1), (2)) AS _values ORDER BY 1
