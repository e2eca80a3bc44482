-- See tests/planner/workarounds.py.

## an expression that every text matches
SELECT s ~ '.*' FROM (VALUES (NULL), ('a')) AS t(s)
--
NULL
True

## the same without case
SELECT s ~* '.*' FROM (VALUES (NULL), ('a')) AS t(s)
--
NULL
True

## flags that are NULL
SELECT regexp_like(s, 'a', f) AS x, regexp_match(s, 'a', f) AS y FROM (VALUES ('a', NULL), ('a', 'i')) AS t(s, f)
--
NULL | NULL
True | ['a']

## no flags of a pattern
SELECT regexp_replace(s, 'a', 'b', f) AS x FROM (VALUES ('aA', ''), ('aA', 'gi')) AS t(s, f)
--
bA
bb
