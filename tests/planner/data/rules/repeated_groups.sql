Tables: t (id BIGINT, i BIGINT, s TEXT).

## a key with and without its relation
SELECT a.i FROM t AS a GROUP BY i, a.i
--
SELECT a.i FROM t AS a GROUP BY a.i

## expressions
SELECT a.i + 1 AS x FROM t AS a GROUP BY i + 1, s, a.i + 1
--
SELECT a.i + 1 AS x FROM t AS a GROUP BY a.i + 1, s

## columns of two relations
SELECT a.i, b.i FROM t AS a JOIN t AS b ON a.id = b.id GROUP BY a.i, b.i
--
SELECT a.i, b.i FROM t AS a JOIN t AS b ON a.id = b.id GROUP BY a.i, b.i

## a column that USING merges
SELECT id, count(*) FROM t AS a FULL JOIN t AS b USING (id) GROUP BY id, a.id
--
SELECT id, count(*) FROM t AS a FULL JOIN t AS b USING (id) GROUP BY id, a.id

## an output of that name
SELECT upper(s) AS i FROM t AS a GROUP BY i, a.i, s
--
SELECT upper(s) AS i FROM t AS a GROUP BY i, a.i, s

## numbers of equal outputs, and quoted names
SELECT k."id", id AS other, abs(id) AS a, count(*) FROM t AS k GROUP BY 1, 2, abs("id"), 3
--
SELECT k."id", id AS other, abs(id) AS a, count(*) FROM t AS k GROUP BY 1, 2, abs("id")
