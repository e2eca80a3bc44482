Constants of comparisons are on the right.

## 1 < i
SELECT 1 < i AS x FROM t WHERE 1 < i
--
SELECT i > 1 AS x FROM t WHERE i > 1

## 1 <= i AND 2 > i OR '1' = s
SELECT 1 < i AS x FROM t WHERE 1 <= i AND 2 > i OR '1' = s
--
SELECT i > 1 AS x FROM t WHERE i >= 1 AND i < 2 OR s = '1'

## NOT 1 = i
SELECT 1 < i AS x FROM t WHERE NOT 1 = i
--
SELECT i > 1 AS x FROM t WHERE NOT i = 1

## (1 = i)
SELECT 1 < i AS x FROM t WHERE (1 = i)
--
SELECT i > 1 AS x FROM t WHERE (i = 1)

## TIMESTAMP '2024-01-01' < t.ts
SELECT 1 < i AS x FROM t WHERE TIMESTAMP '2024-01-01' < t.ts
--
SELECT i > 1 AS x FROM t WHERE t.ts > CAST('2024-01-01' AS TIMESTAMP)

## CAST('2024-01-01' AS TIMESTAMP) < date_trunc('day', ts)
SELECT 1 < i AS x FROM t WHERE CAST('2024-01-01' AS TIMESTAMP) < date_trunc('day', ts)
--
SELECT i > 1 AS x FROM t WHERE date_trunc('day', ts) > CAST('2024-01-01' AS TIMESTAMP)

## -1 + 2 < i + id * 2 AND s = ''
SELECT 1 < i AS x FROM t WHERE -1 + 2 < i + id * 2 AND s = ''
--
SELECT i > 1 AS x FROM t WHERE i + id * 2 > -1 + 2 AND s = ''

## CASE WHEN TRUE THEN 1 END = i::BIGINT
SELECT 1 < i AS x FROM t WHERE CASE WHEN TRUE THEN 1 END = i::BIGINT
--
SELECT i > 1 AS x FROM t WHERE CAST(i AS BIGINT) = CASE WHEN TRUE THEN 1 END

## i < 1 AND 1 = 1 AND id = i
SELECT 1 < i AS x FROM t WHERE i < 1 AND 1 = 1 AND id = i
--
SELECT i > 1 AS x FROM t WHERE i < 1 AND 1 = 1 AND id = i

## i BETWEEN 0 AND 1 AND 1 <> i
SELECT 1 < i AS x FROM t WHERE i BETWEEN 0 AND 1 AND 1 <> i
--
SELECT i > 1 AS x FROM t WHERE i BETWEEN 0 AND 1 AND 1 <> i

## (1 = i) IS TRUE
SELECT 1 < i AS x FROM t WHERE (1 = i) IS TRUE
--
SELECT i > 1 AS x FROM t WHERE (i = 1) IS TRUE

## 1 = i IS TRUE
SELECT 1 < i AS x FROM t WHERE 1 = i IS TRUE
--
SELECT i > 1 AS x FROM t WHERE (i = 1) IS TRUE

## 1 = (SELECT max(id) FROM t)
SELECT 1 < i AS x FROM t WHERE 1 = (SELECT max(id) FROM t)
--
SELECT i > 1 AS x FROM t WHERE 1 = (SELECT max(id) FROM t)

## 'x' LIKE s
SELECT 1 < i AS x FROM t WHERE 'x' LIKE s
--
SELECT i > 1 AS x FROM t WHERE 'x' LIKE s

## conditions of joins and groups
SELECT a.id FROM t AS a JOIN t AS b ON 1 < b.id AND a.id = b.id GROUP BY a.id HAVING 3 > sum(a.i)
--
SELECT a.id FROM t AS a JOIN t AS b ON b.id > 1 AND a.id = b.id GROUP BY a.id HAVING sum(a.i) < 3

## a column that becomes a condition
SELECT id FROM (SELECT id, (i = 1 AND 1 = i) AS c, 1 < i FROM t) AS q WHERE c
--
SELECT id FROM (SELECT id, (i = 1 AND i = 1) AS c, i > 1 FROM t) AS q WHERE c
