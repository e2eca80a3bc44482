Logarithms to a base; see planner/sql/rules/logarithms.py.

## a logarithm to a REAL
SELECT log(arrow_cast(42.0, 'Float32'), 1)
--
0.0
