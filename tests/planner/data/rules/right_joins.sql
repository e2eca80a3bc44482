Tables: see tests/planner/sql/rules/test_rules.py.

## two tables
SELECT t.i, p.n FROM t RIGHT JOIN p ON t.id = p.id WHERE t.s IS NULL
--
SELECT t.i, p.n FROM p LEFT JOIN t ON t.id = p.id WHERE t.s IS NULL

## all columns, which stay in their order
SELECT *, 1 AS x FROM t AS a RIGHT JOIN (SELECT id, n FROM p) ON a.i = n CROSS JOIN days
--
SELECT a.*, "side#1".*, days.*, 1 AS x FROM (SELECT id, n FROM p) AS "side#1" LEFT JOIN t AS a ON a.i = n CROSS JOIN days

## joins on the left, behind a comma
SELECT * FROM u, t INNER JOIN p ON t.id = p.id RIGHT JOIN days ON days.id = t.id, w
--
SELECT u.*, t.*, p.*, days.*, w.* FROM u, days LEFT JOIN (t INNER JOIN p ON t.id = p.id) ON days.id = t.id, w

## two in a row
SELECT t.id FROM t RIGHT JOIN p ON t.id = p.id RIGHT JOIN days ON days.id = p.id
--
SELECT t.id FROM days LEFT JOIN (p LEFT JOIN t ON t.id = p.id) ON days.id = p.id

## in brackets
SELECT * FROM t LEFT JOIN (p RIGHT JOIN days ON p.id = days.id INNER JOIN lists ON TRUE) ON t.id = p.id
--
SELECT t.*, p.*, days.*, lists.* FROM t LEFT JOIN (days LEFT JOIN p ON p.id = days.id INNER JOIN lists ON TRUE) ON t.id = p.id

## columns of USING
SELECT n FROM t RIGHT JOIN p USING (id)
--
SELECT n FROM p LEFT JOIN t USING (id)

## semi joins have columns of one side
SELECT * FROM t RIGHT SEMI JOIN p ON t.id = p.id RIGHT JOIN days ON p.id = days.id
--
SELECT p.*, days.* FROM days LEFT JOIN (t RIGHT SEMI JOIN p ON t.id = p.id) ON p.id = days.id
