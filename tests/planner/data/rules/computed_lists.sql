Tables: t (id BIGINT, i BIGINT).

## CASE beside literals
SELECT id FROM t WHERE i IN (COALESCE(id, 1), 5, CASE WHEN id > 1 THEN 2 END)
--
SELECT id FROM t WHERE (i IN (5) OR i = COALESCE(id, 1) OR i = CASE WHEN id > 1 THEN 2 END)

## negated, with a subquery
SELECT id FROM t WHERE i NOT IN (7, (SELECT MAX(n) FROM p))
--
SELECT id FROM t WHERE NOT (i IN (7) OR i = (SELECT MAX(n) FROM p))

## one element, and constants
SELECT id FROM t WHERE i IN (COALESCE(id, 1)) AND id IN (COALESCE(NULL, 1), 5)
--
SELECT id FROM t WHERE i IN (COALESCE(id, 1)) AND id IN (COALESCE(NULL, 1), 5)
