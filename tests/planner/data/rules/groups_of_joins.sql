Tables: see tests/planner/sql/rules/test_rules.py.

## DISTINCT
SELECT DISTINCT g.i FROM (SELECT q.i, p.n FROM (SELECT DISTINCT i FROM t) AS q CROSS JOIN p GROUP BY q.i, p.n) AS g
--
SELECT DISTINCT g.i FROM (SELECT * REPLACE (CASE WHEN random() < 2 THEN "i" END AS "i", CASE WHEN random() < 2 THEN "n" END AS "n") FROM (SELECT q.i, p.n FROM (SELECT DISTINCT i FROM t) AS q CROSS JOIN p GROUP BY q.i, p.n) AS g) AS g

## groups of a common table
WITH q AS (SELECT row_number() OVER (ORDER BY i) AS r FROM t), g AS (SELECT q.r, p.n FROM q, p GROUP BY q.r, p.n) SELECT count(*) FROM g GROUP BY r, n
--
WITH q AS (SELECT row_number() OVER (ORDER BY i) AS r FROM t), g AS (SELECT q.r, p.n FROM q, p GROUP BY q.r, p.n) SELECT count(*) FROM (SELECT * REPLACE (CASE WHEN random() < 2 THEN "r" END AS "r", CASE WHEN random() < 2 THEN "n" END AS "n") FROM g) AS g GROUP BY r, n

## one key is enough
SELECT count(*) FROM (SELECT q.i, p.n FROM (SELECT DISTINCT i FROM t) AS q CROSS JOIN p GROUP BY q.i, p.n) AS g GROUP BY i
--
SELECT count(*) FROM (SELECT q.i, p.n FROM (SELECT DISTINCT i FROM t) AS q CROSS JOIN p GROUP BY q.i, p.n) AS g GROUP BY i

## nothing is unique
SELECT DISTINCT g.i FROM (SELECT t.i, p.n FROM t CROSS JOIN p GROUP BY t.i, p.n) AS g
--
SELECT DISTINCT g.i FROM (SELECT t.i, p.n FROM t CROSS JOIN p GROUP BY t.i, p.n) AS g
