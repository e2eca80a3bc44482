The next integer to a decimal; see planner/sql/rules/decimals.py.

## ceil of the largest decimal
SELECT ceil(x) FROM (VALUES (CAST('99.99' AS DECIMAL(4, 2)))) AS t(x)
--
100.00
