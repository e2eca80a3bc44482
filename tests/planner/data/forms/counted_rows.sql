Rows of several values are counted as structs.

## values without NULL count
SELECT count(DISTINCT a, b + 1) FROM t
--
SELECT count(DISTINCT CASE WHEN a IS NOT NULL AND (b + 1) IS NOT NULL THEN struct(a, b + 1) END) FROM t

## one value stays
SELECT count(DISTINCT lower(a)), count(DISTINCT a, b) FILTER (WHERE a > 1) AS n FROM t
--
SELECT count(DISTINCT lower(a)), count(DISTINCT CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN struct(a, b) END) FILTER(WHERE a > 1) AS n FROM t
