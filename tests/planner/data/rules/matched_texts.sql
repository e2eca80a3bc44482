Tables: t (id BIGINT, s TEXT).

## an expression that every text matches
SELECT s ~ '.*' AS a, s !~* '.*' AS b, regexp_like(s, '.*') AS c FROM t
--
SELECT s ~ '(.*)' AS a, s !~* '(.*)' AS b, regexp_like(s, '(.*)') AS c FROM t

## other expressions
SELECT s ~ '^a.*' AS a, s ~ '.+' AS b FROM t
--
SELECT s ~ '^a.*' AS a, s ~ '.+' AS b FROM t

## constants that are computed
SELECT s ~ ('.' || '*') AS a FROM t
--
SELECT s ~ ('(' || (('.' || '*')) || ')') AS a FROM t

## expressions of rows
SELECT s ~ t.s AS a FROM t
--
SELECT s ~ t.s AS a FROM t

## flags
SELECT regexp_match(s, 'a', s), regexp_like(s, 'a', 'i') AS l, regexp_like(s, 'a') AS m FROM t
--
SELECT CASE WHEN s IS NOT NULL THEN regexp_match(s, 'a', CASE WHEN s = '' THEN 'u' ELSE s END) END, regexp_like(s, 'a', 'i') AS l, regexp_like(s, 'a') AS m FROM t

## no flags
SELECT regexp_replace(s, 'a', 'b', '') AS r, regexp_match(s, 'a', '') AS m, regexp_replace(s, 'a', 'b', 'g') AS g FROM t
--
SELECT regexp_replace(s, 'a', 'b', 'u') AS r, regexp_match(s, 'a', 'u') AS m, regexp_replace(s, 'a', 'b', 'g') AS g FROM t
