Tables: lists (id BIGINT, st STRUCT<x BIGINT>).

## outputs have the name of the field
SELECT (st).x, (lists.st).x AS y FROM lists WHERE (st).x = 1
--
SELECT get_field(st, 'x') AS x, get_field(lists.st, 'x') AS y FROM lists WHERE get_field(st, 'x') = 1

## columns of relations
SELECT lists.id, st['x'] AS x FROM lists
--
SELECT lists.id, st['x'] AS x FROM lists
