Forms are written before names are resolved.

## both orders of the bounds
SELECT id FROM t WHERE n BETWEEN SYMMETRIC $1 AND $2
--
SELECT id FROM t WHERE (n BETWEEN $1 AND $2 OR n BETWEEN $2 AND $1)

## ASYMMETRIC is the default
SELECT n BETWEEN ASYMMETRIC 3 AND 0 AS x FROM t
--
SELECT n BETWEEN 3 AND 0 AS x FROM t

## distances and lists stay as they are
SELECT id, vec <=> [1.0, 2.0] AS d FROM t WHERE n BETWEEN SYMMETRIC 3 AND 0 ORDER BY vec <#> '[1, 2]', vec <+> $1, vec <-> ARRAY[1]
--
SELECT id, vec <=> [1.0, 2.0] AS d FROM t WHERE (n BETWEEN 3 AND 0 OR n BETWEEN 0 AND 3) ORDER BY vec <#> '[1, 2]', vec <+> $1, vec <-> [1]
