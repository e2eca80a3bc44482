WITHIN GROUP is an ORDER BY in the brackets.

## a separator
SELECT listagg(DISTINCT s, ',') WITHIN GROUP (ORDER BY s) FROM t
--
SELECT string_agg(DISTINCT s, ',' ORDER BY s) FROM t

## listagg has none by default
SELECT LISTAGG(upper(s)) WITHIN GROUP (ORDER BY id DESC) AS x FROM t
--
SELECT string_agg(upper(s), '' ORDER BY id DESC) AS x FROM t

## other aggregates keep theirs
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n), string_agg(s, ',') WITHIN GROUP (ORDER BY n) FROM t
--
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n), string_agg(s, ',' ORDER BY n) FROM t
