-- See tests/planner/workarounds.py.

## two lists of one value without a common member
SELECT NOT (i IN (1) AND i IN (2)) FROM (VALUES (NULL), (1)) AS t(i)
--
NULL
True

## none of two lists
SELECT i NOT IN (1) OR i NOT IN (2) FROM (VALUES (NULL), (1)) AS t(i)
--
NULL
True

## a list and what is not in it
SELECT i IN (1, 2) AND i NOT IN (1, 2) FROM (VALUES (NULL), (1)) AS t(i)
--
False
NULL

## equal to one of several
SELECT (i = 1 OR i = 2) AND (i = 3 OR i = 4) FROM (VALUES (NULL), (1)) AS t(i)
--
False
NULL
