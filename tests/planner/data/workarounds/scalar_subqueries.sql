-- See tests/planner/workarounds.py.

## a subquery of a constant is never NULL
SELECT id FROM v WHERE (SELECT 5 FROM u WHERE id = 7) IS NULL
--
1
2
3
4

## a count that is simplified is NULL where no row matches
SELECT id, (SELECT 5 + 0 * count(*) FROM u WHERE u.id = v.id) AS x FROM v
--
1 | 5
2 | 5
3 | 5
4 | 5

## HAVING that is true of no rows is forgotten
SELECT id FROM v WHERE EXISTS (SELECT 1 FROM u WHERE u.id = v.id HAVING count(*) = 0)
--
1
3
