Forms are written before names are resolved.

## a key that repeats an output
SELECT DISTINCT id % 2, lower(s) AS x FROM t ORDER BY lower(s) DESC NULLS LAST, id % 2
--
SELECT DISTINCT id % 2, lower(s) AS x FROM t ORDER BY 2 DESC NULLS LAST, 1

## other keys stay
SELECT DISTINCT s, abs(d) AS a FROM t ORDER BY s, a, abs(e)
--
SELECT DISTINCT s, abs(d) AS a FROM t ORDER BY s, a, abs(e)
