Tables: t (id BIGINT, i BIGINT).

## NULL in one of two lists
SELECT id FROM t WHERE i IN (1, 2) AND i NOT IN (NULL, 2)
--
SELECT id FROM t WHERE i IN (1, 2) AND nullif(i, NULL) NOT IN (NULL, 2)

## lists of columns, and equal ones
SELECT i IN (1, id) AS a, i IN (1, 2) AS b FROM t WHERE i IN (id) GROUP BY id, i, i IN (1, id)
--
SELECT nullif(i, NULL) IN (1, id) AS a, i IN (1, 2) AS b FROM t WHERE nullif(nullif(i, NULL), NULL) IN (id) GROUP BY id, i, nullif(i, NULL) IN (1, id)

## equalities that become lists
SELECT id FROM t WHERE (i = 1 OR 2 = i) AND i NOT IN (2, NULL)
--
SELECT id FROM t WHERE (i = 1 OR 2 = i) AND nullif(i, NULL) NOT IN (2, NULL)

## lists of literals, and of other operands
SELECT id FROM t WHERE i IN (1, -2, CAST(3 AS INT)) AND i NOT IN (7) AND id IN (NULL, 2)
--
SELECT id FROM t WHERE i IN (1, -2, CAST(3 AS INT)) AND i NOT IN (7) AND id IN (NULL, 2)
