Operators, casts and text of pgvector, and what DataFusion gets instead. The table items has the columns id, vec,
other and n, of which vec and other are vectors.

## all operators, with text
SELECT vec <-> '[1,2]', vec <=> '[1,2]', vec <#> '[1,2]', vec<+>'[1,2]', vec <~> '[1,2]' FROM items
--
SELECT l2_distance(vec, [1.0, 2.0]), cosine_distance(vec, [1.0, 2.0]), negative_inner_product(vec, [1.0, 2.0]), l1_distance(vec, [1.0, 2.0]), hamming_distance(vec, [1.0, 2.0]) FROM "items#1" AS "items"

## operands of every kind
SELECT i.vec <-> main.items.other, (vec) <-> f(other, 1), other[1:2] <-> ARRAY[1], [1] <-> vec::FLOAT[1] FROM items
--
SELECT l2_distance(i.vec, items.other), l2_distance((vec), f(other, 1)), l2_distance(other[1:2], [1]), l2_distance([1], CAST(vec AS REAL[1])) FROM "items#1" AS "items"

## quoted names
SELECT "i"."vec"<->"vec" FROM items AS "i"
--
SELECT l2_distance("i"."vec", "vec") FROM "items#1" AS "i"

## operators within operands
SELECT (a <-> b) <=> [1], f(vec <-> other) <-> (SELECT vec <-> other FROM items) FROM items
--
SELECT cosine_distance((l2_distance(a, b)), [1]), l2_distance(f(l2_distance(vec, other)), (SELECT l2_distance(vec, other) FROM "items#1" AS "items")) FROM "items#2" AS "items"

## what stands around a distance
SELECT 1 - (vec <=> other) FROM items WHERE NOT vec <-> other < 5 AND other <-> vec BETWEEN 1 AND 2 ORDER BY vec <-> other DESC
--
SELECT 1 - (cosine_distance(vec, other)) FROM "items#1" AS "items" WHERE NOT l2_distance(vec, other) < 5 AND l2_distance(other, vec) BETWEEN 1 AND 2 ORDER BY l2_distance(vec, other) DESC

## parameters are vectors where only vectors can stand
SELECT vec <-> $1, $2::vector <-> other, l2_distance(vec, $3), $4 FROM items
--
SELECT l2_distance(vec, CAST($1 AS DOUBLE[])), l2_distance(CAST($2 AS DOUBLE[]), other), l2_distance(vec, CAST($3 AS DOUBLE[])), $4 FROM "items#1" AS "items"

## casts to pgvector's types
SELECT '[1, 2]'::vector(2), vec::vector <-> '[3]'::halfvec FROM items
--
SELECT [1.0, 2.0], l2_distance(vec, [3.0]) FROM "items#1" AS "items"

## text in calls
SELECT cosine_distance('[1]', vec), list_distance(vec, '[2]'::vector), upper('[3]') FROM items
--
SELECT cosine_distance([1.0], vec), list_distance(vec, [2.0]), upper('[3]') FROM "items#1" AS "items"

## the null-safe comparison of anything but vectors
SELECT n <=> 1, n <=> $1, id + 1 <=> n, 'a' <=> 'b' FROM items
--
SELECT n <=> 1, n <=> $1, id + 1 <=> n, 'a' <=> 'b' FROM "items#1" AS "items"

## names that stand for vectors
WITH c AS (SELECT vec AS v FROM items) SELECT v <=> $1 FROM c
--
WITH c AS (SELECT vec AS v FROM "items#1" AS "items") SELECT cosine_distance(v, CAST($1 AS DOUBLE[])) FROM c

## comparisons that look similar
SELECT id < -1, id<-1, '<->', "<=>", id -- <->
FROM items
--
SELECT id < -1, id < -1, '<->', "<=>", id FROM "items#1" AS "items"

## a search function keeps its arguments
SELECT vec <-> '[1]' FROM lance_vector_search('items', 'vec', '[1]'::vector, k => 3)
--
SELECT l2_distance(vec, [1.0]) FROM "items#1" AS "lance_vector_search"
