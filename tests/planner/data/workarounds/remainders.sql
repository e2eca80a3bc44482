Remainders of decimals; see planner/sql/rules/decimals.py.

## the remainder of a decimal that is never NULL
SELECT coalesce(x, 1) % 1 FROM (VALUES (CAST(1.5 AS DECIMAL(5, 2)))) AS q(x)
--
0.50
