Tables: p (id BIGINT, .., n BIGINT), t (id BIGINT, i BIGINT, s TEXT).

## = ANY is IN
SELECT id FROM t WHERE id = ANY (SELECT n FROM p)
--
SELECT id FROM t WHERE id IN (SELECT n FROM p)

## a denied conjunct
SELECT id FROM t WHERE i NOT IN (SELECT n FROM p) AND id > 1
--
SELECT id FROM t WHERE nullif(nullif(i, NULL), NULL) NOT IN (SELECT n FROM p) AND id > 1

## <> ALL is a denied conjunct
SELECT id FROM t WHERE i <> ALL (SELECT n FROM p)
--
SELECT id FROM t WHERE nullif(nullif(i, NULL), NULL) NOT IN (SELECT n FROM p)

## beside OR
SELECT id FROM t WHERE i NOT IN (SELECT n FROM p) OR id = 1
--
SELECT id FROM t WHERE NOT CASE WHEN i IN (SELECT member FROM (SELECT n FROM p) AS "membership"(member)) THEN TRUE ELSE CASE (SELECT CASE WHEN count(*) = 0 THEN 0 WHEN count(*) = count(member) THEN 1 ELSE 2 END FROM (SELECT n FROM p) AS "membership"(member)) WHEN 0 THEN FALSE WHEN 1 THEN CASE WHEN (i) IS NOT NULL THEN FALSE END END END OR id = 1

## of a value
SELECT id FROM t WHERE (i IN (SELECT n FROM p)) IS NULL
--
SELECT id FROM t WHERE (CASE WHEN i IN (SELECT member FROM (SELECT n FROM p) AS "membership"(member)) THEN TRUE ELSE CASE (SELECT CASE WHEN count(*) = 0 THEN 0 WHEN count(*) = count(member) THEN 1 ELSE 2 END FROM (SELECT n FROM p) AS "membership"(member)) WHEN 0 THEN FALSE WHEN 1 THEN CASE WHEN (i) IS NOT NULL THEN FALSE END END END) IS NULL

## where only true matters
SELECT id FROM t WHERE i IN (SELECT n FROM p) OR id = 1
--
SELECT id FROM t WHERE i IN (SELECT n FROM p) OR id = 1

## correlated, or with a choice
SELECT id FROM t WHERE i NOT IN (SELECT n FROM p WHERE p.id < t.id) AND NOT (i IN (SELECT n FROM p LIMIT 1) AND id = 1)
--
SELECT id FROM t WHERE (i <> ALL (SELECT n FROM p WHERE p.id < t.id)) AND NOT ((i = ANY(SELECT n FROM p LIMIT 1)) AND id = 1)

## totals are values
SELECT id FROM t WHERE i IN (SELECT count(*) FROM p WHERE p.n = t.id) OR i <= ALL (SELECT max(n) FROM p)
--
SELECT id FROM t WHERE i = (SELECT count(*) FROM p WHERE p.n = t.id) OR i <= (SELECT max(n) FROM p)

## the rows of the same table
SELECT id FROM t WHERE i >= ALL (SELECT i FROM t) AND i < ANY (SELECT n FROM p)
--
SELECT id FROM t WHERE i >= ALL (SELECT * FROM (SELECT i FROM t) AS "quantified#1") AND i < ANY (SELECT n FROM p)

## a constant
SELECT id FROM t WHERE 7 IN (SELECT n FROM p WHERE n = 7)
--
SELECT id FROM t WHERE CASE WHEN random() < 2 THEN 7 END IN (SELECT n FROM p WHERE n = 7)

## one in another
SELECT id FROM t WHERE i <> ALL (SELECT n FROM p WHERE n NOT IN (SELECT id FROM t))
--
SELECT id FROM t WHERE nullif(nullif(i, NULL), NULL) NOT IN (SELECT n FROM p WHERE nullif(nullif(n, NULL), NULL) NOT IN (SELECT id FROM t))

## lists
SELECT id FROM t WHERE i IN (1, 2) AND i = ANY(make_array(1))
--
SELECT id FROM t WHERE i IN (1, 2) AND i = ANY(make_array(1))

## what may be found to be NULL
SELECT id FROM t WHERE i + NULL NOT IN (SELECT n FROM p) AND CASE WHEN i IS NULL THEN 1 ELSE i END NOT IN (SELECT n FROM p)
--
SELECT id FROM t WHERE (i + NULL <> ALL (SELECT n FROM p)) AND nullif(nullif(CASE WHEN i IS NULL THEN 1 ELSE i END, NULL), NULL) NOT IN (SELECT n FROM p)
