Decimals that are rounded; see planner/sql/rules/decimals.py.

## a join of rounded decimals
SELECT count(*) FROM (SELECT CAST(1.25 AS DECIMAL(4, 2)) AS d) t JOIN (SELECT round(CAST(d AS DECIMAL(4, 2)), 1) AS v FROM (VALUES (1.25), (1.26)) AS u(d)) q ON round(t.d, 1) + 0 = q.v
--
2
