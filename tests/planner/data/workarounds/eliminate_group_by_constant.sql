-- See tests/planner/workarounds.py.

## a column and its cast are not two keys
SELECT count(*) AS c FROM m GROUP BY g, CAST(g AS BIGINT)
--
1
1
2
3
3
