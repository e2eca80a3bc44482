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
