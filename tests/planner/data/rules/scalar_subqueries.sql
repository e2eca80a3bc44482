Tables: p (id BIGINT, .., n BIGINT), t (id BIGINT, i BIGINT, s TEXT).

## a constant
SELECT id FROM t WHERE (SELECT 5 FROM p WHERE n = 7) IS NULL
--
SELECT id FROM t WHERE nullif((SELECT 5 FROM p WHERE n = 7), NULL) IS NULL

## what may be NULL
SELECT id, (SELECT max(n) FROM p WHERE p.id = t.id) AS x FROM t
--
SELECT id, (SELECT max(n) FROM p WHERE p.id = t.id) AS x FROM t

## a count beside others
SELECT id, (SELECT 5 + 0 * count(*) FROM p WHERE p.n = t.id) AS x FROM t
--
SELECT id, nullif((SELECT CASE WHEN count(*) < 0 THEN NULL ELSE (5 + 0 * count(*)) END FROM p WHERE p.n = t.id), NULL) AS x FROM t

## a count alone
SELECT (SELECT count(*) FILTER(WHERE n > 1) FROM p) AS x, (SELECT count(*) FROM p GROUP BY n LIMIT 1) AS y
--
SELECT nullif((SELECT count(*) FILTER(WHERE n > 1) FROM p), NULL) AS x, nullif((SELECT CASE WHEN count(*) < 0 THEN NULL ELSE (count(*)) END FROM p GROUP BY n LIMIT 1), NULL) AS y

## HAVING of totals
SELECT coalesce((SELECT count(*) FROM p HAVING count(*) > 9), 0)
--
SELECT coalesce(nullif((SELECT CASE WHEN count(*) < 0 THEN NULL WHEN (count(*) > 9) THEN (count(*)) END FROM p HAVING count(*) >= 0 OR (count(*) > 9)), NULL), 0)

## EXISTS of totals
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM p WHERE p.n = t.id HAVING count(*) = 0) AND NOT EXISTS (SELECT max(n) FROM p)
--
SELECT id FROM t WHERE coalesce((SELECT CASE WHEN count(*) < 0 THEN NULL ELSE (count(*) = 0) END FROM p WHERE p.n = t.id), FALSE) AND NOT coalesce((SELECT CASE WHEN count(*) < 0 THEN NULL ELSE (TRUE) END FROM p), FALSE)

## one in another
SELECT (SELECT (SELECT max(i) FROM t WHERE t.id = p.id) + 1 FROM p LIMIT 1) AS x
--
SELECT nullif((SELECT (SELECT max(i) FROM t WHERE t.id = p.id) + 1 FROM p LIMIT 1), NULL) AS x

## rows
SELECT id FROM t WHERE EXISTS(SELECT 1 FROM p) AND id IN (SELECT n FROM p) AND i > ALL (SELECT n FROM p) AND id IN (SELECT x FROM (SELECT n FROM p) AS q(x))
--
SELECT id FROM t WHERE EXISTS(SELECT 1 FROM p) AND id IN (SELECT n FROM p) AND i > ALL (SELECT n FROM p) AND id IN (SELECT x FROM (SELECT n FROM p) AS q(x))
