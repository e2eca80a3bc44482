-- See tests/planner/workarounds.py.

## a relation around a subquery is taken for a column in it
SELECT id FROM t AS a WHERE EXISTS (SELECT 1 FROM u WHERE u.a = a.id)
--
0
1
2
3
4
