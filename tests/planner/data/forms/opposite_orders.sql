Aggregates with opposite orders.

## the falling key is hidden, and a distinct value with it
SELECT array_agg(DISTINCT a ORDER BY a) AS x, array_agg(DISTINCT a ORDER BY a DESC) AS y FROM t
--
SELECT array_agg(DISTINCT a ORDER BY a) AS x, array_agg(DISTINCT nullif(a, NULL) ORDER BY nullif(a, NULL) DESC) AS y FROM t

## results keep their names
SELECT array_agg(DISTINCT a ORDER BY a), string_agg(b, ',' ORDER BY c, a DESC) FILTER (WHERE a > 1) FROM t
--
SELECT array_agg(DISTINCT a ORDER BY a), string_agg(b, ',' ORDER BY c, nullif(a, NULL) DESC) FILTER(WHERE a > 1) AS "string_agg" FROM t
