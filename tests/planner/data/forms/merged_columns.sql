Columns of USING come from the side that has a row.

## both sides
SELECT id, n FROM t FULL JOIN u USING (id) WHERE id > 1 ORDER BY id
--
SELECT coalesce("t"."id", "u"."id") AS "id", n FROM t FULL JOIN u USING (id) WHERE coalesce("t"."id", "u"."id") > 1 ORDER BY id

## the right side
SELECT * FROM t RIGHT JOIN u USING (id)
--
SELECT "t".* REPLACE ("u"."id" AS "id"), "u".* EXCLUDE ("id") FROM t RIGHT JOIN u USING (id)

## the left side is first
SELECT * FROM t LEFT JOIN u USING (id) WHERE id > 1
--
SELECT "t".*, "u".* EXCLUDE ("id") FROM t LEFT JOIN u USING (id) WHERE "t"."id" > 1

## columns that are left out
SELECT * EXCLUDE (k) FROM t AS a FULL JOIN u AS b USING (id, k)
--
SELECT * EXCLUDE (k) REPLACE (coalesce("a"."id", "b"."id") AS "id") FROM t AS a FULL JOIN u AS b USING (id, k)

## subqueries have columns of their own
SELECT sum(id), (SELECT max(id) FROM u) FROM t AS b FULL JOIN u AS a USING (id) GROUP BY k, id + 1
--
SELECT sum(coalesce("b"."id", "a"."id")), (SELECT max(id) FROM u) FROM t AS b FULL JOIN u AS a USING (id) GROUP BY k, coalesce("b"."id", "a"."id") + 1
