Logarithms to a base; see planner/sql/rules/numbers.py.

## a logarithm to a REAL
SELECT log(arrow_cast(42.0, 'Float32'), 1)
--
0.0

## a logarithm of a decimal below 10
SELECT log(x) FROM (VALUES (CAST('1.0' AS DECIMAL(5, 4)))) AS t(x)
--
0.0
