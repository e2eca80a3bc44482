Forms are written before names are resolved.

## both orders of the bounds
SELECT id FROM t WHERE n BETWEEN SYMMETRIC $1 AND $2
--
SELECT id FROM t WHERE (n BETWEEN $1 AND $2 OR n BETWEEN $2 AND $1)

## ASYMMETRIC is the default
SELECT n BETWEEN ASYMMETRIC 3 AND 0 AS x FROM t
--
SELECT n BETWEEN 3 AND 0 AS x FROM t
