Tables: u (ref UUID, v TEXT).

## literals and parameters beside a UUID
SELECT v FROM u WHERE '550E8400-E29B-41D4-A716-446655440000' = u.ref
--
SELECT v FROM u WHERE '550e8400-e29b-41d4-a716-446655440000' = u.ref

## lists, under another name
SELECT * FROM (SELECT ref AS k FROM u) AS x WHERE k NOT IN ('550E8400-E29B-41D4-A716-446655440000', 'x')
--
SELECT * FROM (SELECT ref AS k FROM u) AS x WHERE k NOT IN ('550e8400-e29b-41d4-a716-446655440000', 'x')

## texts
SELECT v FROM u WHERE v = '550E8400-E29B-41D4-A716-446655440000'
--
SELECT v FROM u WHERE v = '550E8400-E29B-41D4-A716-446655440000'

## computed UUIDs
SELECT v FROM u WHERE greatest(ref, '550E8400-E29B-41D4-A716-446655440000') = 'A' OR CASE WHEN v IS NULL THEN ref END <> 'B'
--
SELECT v FROM u WHERE greatest(ref, '550e8400-e29b-41d4-a716-446655440000') = 'a' OR CASE WHEN v IS NULL THEN ref END <> 'b'

## other queries
SELECT ref FROM u JOIN (VALUES ('550E8400-E29B-41D4-A716-446655440000')) AS w(k) ON ref = k WHERE ref IN (SELECT 'A') UNION SELECT 'B'
--
SELECT ref FROM u JOIN (VALUES ('550E8400-E29B-41D4-A716-446655440000')) AS w(k) ON ref = lower(k) WHERE ref IN (SELECT 'a' AS "Utf8(""A"")") UNION SELECT 'b' AS "Utf8(""B"")"

## beside texts of columns
SELECT v FROM u WHERE v BETWEEN ref AND 'A' OR nullif(v, ref) = 'A' OR coalesce(v, ref) IN ('A', v)
--
SELECT v FROM u WHERE v BETWEEN ref AND 'A' OR nullif(v, ref) = 'A' OR coalesce(v, ref) IN ('A', v)
