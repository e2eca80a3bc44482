Tables: see tests/planner/sql/rules/test_rules.py.

## a relation with one row
SELECT s.n FROM (SELECT count(*) AS n FROM p) AS s WHERE s.n = 1 AND s.n = 2
--
SELECT s.n FROM (SELECT count(*) AS n FROM p LIMIT 1) AS s WHERE s.n = 1 AND s.n = 2

## a common table expression, and a join
WITH c AS (SELECT max(n) AS m FROM p) SELECT p.id FROM p LEFT JOIN c ON p.id = c.m AND FALSE
--
WITH c AS (SELECT max(n) AS m FROM p LIMIT 1) SELECT p.id FROM p LEFT JOIN c ON p.id = c.m AND FALSE

## groups, and subqueries that may read columns around them
SELECT id FROM (SELECT id, count(*) AS n FROM p GROUP BY id) AS o WHERE n = 1 AND EXISTS(SELECT 1 FROM (SELECT count(*) AS n FROM t WHERE t.id = o.id) AS q WHERE q.n = 1)
--
SELECT id FROM (SELECT id, count(*) AS n FROM p GROUP BY id) AS o WHERE n = 1 AND EXISTS(SELECT 1 FROM (SELECT count(*) AS n FROM t WHERE t.id = o.id) AS q WHERE q.n = 1)

## without a name, and as a side of a union
SELECT n FROM (SELECT count(*) AS n FROM p UNION ALL SELECT id FROM t) WHERE n = 1 AND n = 2
--
SELECT n FROM ((SELECT count(*) AS n FROM p LIMIT 1) UNION ALL SELECT id FROM t) WHERE n = 1 AND n = 2

## totals among groups
SELECT n FROM (SELECT i, count(*) AS n FROM t GROUP BY ROLLUP (i)) AS s WHERE 'a' = 'b'
--
SELECT n FROM (SELECT i, count(*) AS n FROM t GROUP BY ROLLUP (i) LIMIT 9223372036854775807) AS s WHERE 'a' = 'b'

## HAVING
SELECT max(i) AS m FROM t HAVING (SELECT max(id) FROM p) < 0 AND m IN (SELECT n FROM p)
--
SELECT * EXCLUDE ("having#") FROM (SELECT max(i) AS m, (SELECT max(id) FROM p) < 0 AS "having#" FROM t HAVING (max(i)) IN (SELECT n FROM p) LIMIT 1) AS "totals#" WHERE "having#"

## a list in a subquery that is a value
SELECT max(i) AS x FROM t HAVING (SELECT bool_or(n IN (1, id)) FROM p)
--
SELECT * EXCLUDE ("having#") FROM (SELECT max(i) AS x, (SELECT bool_or(n IN (1, id)) FROM p) AS "having#" FROM t LIMIT 1) AS "totals#" WHERE "having#"
