Casts in outputs have names of their own.

## another output has the name of what is cast
SELECT max(i) AS s, CAST(s AS TEXT) AS k FROM t GROUP BY CAST(s AS TEXT) ORDER BY max(i)
--
SELECT max(i) AS s, nullif(CAST(s AS TEXT), NULL) AS k FROM t GROUP BY CAST(s AS TEXT) ORDER BY max(i)

## a column of that name
SELECT i, (t.i)::TEXT, id::TEXT FROM t GROUP BY i, id
--
SELECT i, nullif(CAST((t.i) AS TEXT), NULL), CAST(id AS TEXT) FROM t GROUP BY i, id

## an alias of the cast itself
SELECT CAST(id AS TEXT) AS id, max(i) AS n FROM t GROUP BY CAST(id AS TEXT)
--
SELECT CAST(id AS TEXT) AS id, max(i) AS n FROM t GROUP BY CAST(id AS TEXT)
