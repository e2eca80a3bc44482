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

## a column 1 = x AND x = 1 that is a condition is false
SELECT id FROM (SELECT id, id = CAST(2 AS BIGINT) AND CAST(2 AS BIGINT) = id AS c FROM v) WHERE c
--
2
