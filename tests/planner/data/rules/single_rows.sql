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
SELECT id FROM (SELECT id, count(*) AS n FROM p GROUP BY id) AS s WHERE n = 1 AND EXISTS(SELECT 1 FROM (SELECT count(*) AS n FROM t WHERE t.id = s.id) AS q WHERE q.n = 1)
--
SELECT id FROM (SELECT id, count(*) AS n FROM p GROUP BY id) AS s WHERE n = 1 AND EXISTS(SELECT 1 FROM (SELECT count(*) AS n FROM t WHERE t.id = s.id) AS q WHERE q.n = 1)
