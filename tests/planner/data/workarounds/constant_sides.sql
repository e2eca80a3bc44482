-- See tests/planner/workarounds.py.

## 1 = x beside x = 1 is false
SELECT count(*) AS n FROM t JOIN u ON 2 = u.id AND u.id = 2
--
40

## x = 1 AND 1 IN (SELECT x ..) is false
SELECT id FROM v WHERE 2 IN (SELECT id FROM u WHERE id = 2)
--
1
2
3
4
