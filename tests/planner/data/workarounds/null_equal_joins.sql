-- See tests/planner/workarounds.py.

## NULL equals NULL for = beside IS NOT DISTINCT FROM
SELECT v.id, w.id AS i FROM v JOIN w ON v.n IS NOT DISTINCT FROM w.n WHERE v.s = w.s
--
1 | 1
4 | 4

## joins in another order lose rows of NULL
SELECT a.id, b.id AS i FROM v a JOIN v b ON a.n IS NOT DISTINCT FROM b.n JOIN w ON b.id = w.id
--
1 | 1
2 | 2
3 | 3
3 | 4
4 | 3
4 | 4
