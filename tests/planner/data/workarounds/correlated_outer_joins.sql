-- See tests/planner/workarounds.py.

## the condition of an outer join in a subquery that is a value
WITH o(k) AS (VALUES (1)), a(id) AS (VALUES (1), (2)), b(id, y) AS (VALUES (1, 1), (2, 2))
SELECT (SELECT count(*) FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k) FROM o
--
2

## a derived table that an outer join fills up
WITH o(k) AS (VALUES (1), (5)), a(id) AS (VALUES (1), (2)), b(id, y) AS (VALUES (1, 1), (2, 2))
SELECT k FROM o WHERE EXISTS (SELECT 1 FROM a LEFT JOIN (SELECT * FROM b WHERE b.y = o.k) AS b ON a.id = b.id) ORDER BY k
--
1
5

## an outer join in a subquery beside TRIM
WITH o(k) AS (VALUES (1), (5)), a(id) AS (VALUES (1), (2)), b(id, y) AS (VALUES (1, 1), (2, 2))
SELECT k, trim(BOTH 'x' FROM 'xax') AS s FROM o WHERE EXISTS (SELECT 1 FROM a LEFT JOIN (SELECT * FROM b WHERE b.y = o.k) AS b ON a.id = b.id) ORDER BY k
--
1 | a
5 | a

## an outer join in a subquery beside fields of a struct
WITH o(k) AS (VALUES (1), (5)), a(id) AS (VALUES (1), (2)), b(id, y) AS (VALUES (1, 1), (2, 2))
SELECT k, {'a': k}['a'] AS e FROM o WHERE EXISTS (SELECT 1 FROM a LEFT JOIN (SELECT * FROM b WHERE b.y = o.k) AS b ON a.id = b.id) ORDER BY k
--
1 | 1
5 | 5
