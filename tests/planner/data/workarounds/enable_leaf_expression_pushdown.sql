Fields of structs in keys of joins; see planner/plans/contexts.py.

## a function of a field is a key of a join
SELECT t.id FROM (SELECT 1 AS id, named_struct('b', 'x') AS st) AS t JOIN (SELECT 'X' AS s) AS u ON upper(t.st['b']) = u.s
--
1
