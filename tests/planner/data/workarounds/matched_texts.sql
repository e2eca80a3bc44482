Statements that DataFusion answers wrongly, and the right rows.

## an expression that every text matches
SELECT s ~ '.*' FROM (VALUES (NULL), ('a')) AS t(s)
--
NULL
true

## the same without case
SELECT s ~* '.*' FROM (VALUES (NULL), ('a')) AS t(s)
--
NULL
true
