-- See tests/planner/workarounds.py.

## NOT IN under OR ignores NULL
SELECT id FROM t WHERE id NOT IN (SELECT a FROM u) OR id = 1
--
1

## IS NULL of a membership is never true
SELECT id FROM t WHERE (a IN (SELECT a FROM u)) IS NULL AND id < 9
--
0
5
6

## ALL over the rows of the same table compares each row with itself
SELECT id FROM t WHERE id >= ALL (SELECT id FROM t)
--
39

## a count that matches no row is in no list
SELECT id FROM t WHERE a IN (SELECT count(*) FROM u WHERE u.id = t.id)
--
21
35
36
7
8

## what is NULL is in no list
SELECT id FROM t WHERE a + NULL NOT IN (SELECT id FROM u)
--
(no rows)
