Tables: see tests/planner/sql/rules/test_rules.py.

## a constant of a subquery
SELECT count(DISTINCT x), count(*) FROM (SELECT CAST(NULL AS TEXT) AS x FROM (VALUES (1))) AS q
--
SELECT count(DISTINCT CASE WHEN random() < 2 THEN x END), count(*) FROM (SELECT CAST(NULL AS TEXT) AS x FROM (VALUES (1))) AS q

## a table
SELECT count(DISTINCT 5), count(DISTINCT i), count(*) FROM t
--
SELECT count(DISTINCT CASE WHEN random() < 2 THEN 5 END), count(DISTINCT i), count(*) FROM t
