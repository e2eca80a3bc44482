Texts of digits beside numbers; see planner/sql/rules/numbers.py.

## a branch of CASE
SELECT sum(CASE WHEN x = 1 THEN '4' ELSE x END) FROM (VALUES (1)) AS t(x)
--
4

## a comparison of a decimal
SELECT x = '1.1' FROM (VALUES (CAST(1 AS DECIMAL(2, 0)))) AS t(x)
--
False
