Tables: t (id BIGINT, i BIGINT, s TEXT).

## where NULL is not FALSE, lists are kept apart
SELECT NOT (i IN (1) AND i IN (2)) AS a, i NOT IN (1) OR i NOT IN (2) AS b FROM t
--
SELECT NOT (nullif(i IN (1), NULL) AND nullif(i IN (2), NULL)) AS a, nullif(i NOT IN (1), NULL) OR nullif(i NOT IN (2), NULL) AS b FROM t

## rows for which a condition is NULL are left out as those for which it is FALSE
SELECT id FROM t WHERE i IN (1) AND i NOT IN (2) AND t.i IN (3)
--
SELECT id FROM t WHERE i IN (1) AND i NOT IN (2) AND t.i IN (3)

## but not if it becomes TRUE
SELECT id FROM t WHERE i NOT IN (1) OR t.i NOT IN (2)
--
SELECT id FROM t WHERE nullif(i NOT IN (1), NULL) OR nullif(t.i NOT IN (2), NULL)

## lists of other values
SELECT id FROM t WHERE i NOT IN (1) OR s NOT IN ('a')
--
SELECT id FROM t WHERE i NOT IN (1) OR s NOT IN ('a')

## equal to one of several is a list
SELECT id FROM t WHERE NOT ((i = 1 OR 2 = i) AND (i = 3 OR i = 4))
--
SELECT id FROM t WHERE NOT ((nullif(i = 1 OR 2 = i, NULL)) AND (nullif(i = 3 OR i = 4, NULL)))

## lists of expressions
SELECT NOT (i + 1 IN (1) AND t.i + 1 IN (2)) AS a FROM t
--
SELECT NOT (nullif(i + 1 IN (1), NULL) AND nullif(t.i + 1 IN (2), NULL)) AS a FROM t

## columns of derived tables may be any list, and have other names
SELECT id FROM (SELECT id, i AS j, i IN (1) AS a FROM t) AS x WHERE NOT (a AND j IN (2))
--
SELECT id FROM (SELECT id, i AS j, nullif(i IN (1), NULL) AS a FROM t) AS x WHERE NOT (a AND nullif(j IN (2), NULL))

## the rows of a subquery are no list of constants
SELECT NOT (i IN (SELECT id FROM t) AND i IN (2)) AS a FROM t
--
SELECT NOT (i IN (SELECT id FROM t) AND i IN (2)) AS a FROM t

## conditions of joins and of aggregates leave rows out
SELECT count(*) FILTER(WHERE a.i IN (1) AND a.i IN (2)) FROM t AS a LEFT JOIN t AS b ON a.i IN (1) AND b.i IN (3)
--
SELECT count(*) FILTER(WHERE a.i IN (1) AND a.i IN (2)) FROM t AS a LEFT JOIN t AS b ON a.i IN (1) AND b.i IN (3)
