Forms are written before names are resolved.

## casts
SELECT id::uuid, TRY_CAST(a || b AS UUID) AS x FROM t
--
SELECT CASE WHEN CAST(CASE WHEN NOT regexp_like(lower(CAST(id AS VARCHAR)), '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$') THEN concat('no UUID, which is written xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx: ', CAST(id AS VARCHAR)) END AS BIGINT) IS NULL THEN lower(CAST(id AS VARCHAR)) END AS "id", CASE WHEN regexp_like(lower(CAST(a || b AS VARCHAR)), '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$') THEN lower(CAST(a || b AS VARCHAR)) END AS x FROM t

## literals
SELECT UUID '{550E8400-E29B-41D4-A716-446655440000}', TRY_CAST('x' AS UUID) AS x
--
SELECT '550e8400-e29b-41d4-a716-446655440000' AS "uuid", CAST(NULL AS VARCHAR) AS x

## texts beside literals
SELECT UUID '550e8400-e29b-41d4-a716-446655440000' IN ('550E8400-E29B-41D4-A716-446655440000', 'A', a) AS x
--
SELECT '550e8400-e29b-41d4-a716-446655440000' IN ('550e8400-e29b-41d4-a716-446655440000', 'A', a) AS x

## texts of other queries
SELECT UUID '550e8400-e29b-41d4-a716-446655440000' AS x UNION SELECT '550E8400-E29B-41D4-A716-446655440000'
--
SELECT '550e8400-e29b-41d4-a716-446655440000' AS x UNION SELECT '550e8400-e29b-41d4-a716-446655440000' AS "uuid"

## the text of a subquery
SELECT TRY_CAST(id AS UUID) IN (SELECT '550E8400-E29B-41D4-A716-446655440000' FROM u) AS x FROM t
--
SELECT CASE WHEN regexp_like(lower(CAST(id AS VARCHAR)), '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$') THEN lower(CAST(id AS VARCHAR)) END IN (SELECT '550e8400-e29b-41d4-a716-446655440000' AS "uuid" FROM u) AS x FROM t

## texts of VALUES
SELECT id FROM t JOIN (VALUES ('550E8400-E29B-41D4-A716-446655440000')) AS v(x) ON TRY_CAST(id AS UUID) = x AND TRY_CAST(y AS UUID) = z
--
SELECT id FROM t JOIN (VALUES ('550E8400-E29B-41D4-A716-446655440000')) AS v(x) ON CASE WHEN regexp_like(lower(CAST(id AS VARCHAR)), '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$') THEN lower(CAST(id AS VARCHAR)) END = lower(x) AND CASE WHEN regexp_like(lower(CAST(y AS VARCHAR)), '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$') THEN lower(CAST(y AS VARCHAR)) END = z
