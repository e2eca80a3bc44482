-- Statements with literals in braces: they mean the same with a parameter in the place of each literal, bound as
-- drivers bind its value (an int as BIGINT, a float as DOUBLE, a time as TIMESTAMP(6)).
SELECT id, d * {2} AS x FROM a
SELECT id, d / {3} AS x FROM a
SELECT id, d + {1} AS x FROM a
SELECT id, {1} - d AS x FROM a
SELECT id, d % {2} AS x FROM a
SELECT id, n * {1.5} AS x FROM a
SELECT id, n / {2} AS x FROM a
SELECT id, n / {2.0} AS x FROM a
SELECT id, n % {3} AS x FROM a
SELECT id, f * {2} AS x FROM a
SELECT id, f / {3} AS x FROM a
SELECT id, -f + {1} AS x FROM a
SELECT id, sm + {100000} AS x FROM a
SELECT id, sm * {3} AS x FROM a
SELECT id, r * {2} AS x FROM a
SELECT id, r + {0.1} AS x FROM a
SELECT round(d, 1) AS x, round(d) AS y FROM a WHERE id >= {0}
SELECT id FROM a WHERE d = {4}
SELECT id FROM a WHERE d = {3.5}
SELECT id FROM a WHERE d > {3}
SELECT id FROM a WHERE d IN ({3}, {4})
SELECT id FROM a WHERE d IN ({3.5}, {4})
SELECT id FROM a WHERE d BETWEEN {3} AND {4}
SELECT id FROM a WHERE d BETWEEN {3.1} AND {3.9}
SELECT id FROM a WHERE d <> {3.5}
SELECT id FROM a WHERE d > {100000000000}
SELECT id FROM a WHERE d < {1e300}
SELECT id FROM a WHERE n = {2.0}
SELECT id FROM a WHERE n = {2.5}
SELECT id FROM a WHERE n < {2.5}
SELECT id FROM a WHERE n < {99999999999}
SELECT id FROM a WHERE sm < {99999}
SELECT id FROM a WHERE f = {1.5}
SELECT id FROM a WHERE f > {1}
SELECT id FROM a WHERE r = {0.1}
SELECT id FROM a WHERE r < {1}
SELECT id FROM a WHERE s = {'x'}
SELECT id FROM a WHERE s LIKE {'x%'}
SELECT id FROM a WHERE s LIKE '%' || {'x'} || '%'
SELECT id FROM a WHERE s ILIKE {'X%'}
SELECT id FROM a WHERE s ~ {'^x'}
SELECT id FROM a WHERE s IN ({'x'}, {'y'})
SELECT id FROM a WHERE s NOT IN ({'x'})
SELECT id FROM a WHERE lower(s) = lower({'X'})
SELECT id FROM a WHERE length(s) > {0}
SELECT id FROM a WHERE ts = {2024-01-01 00:00:00}
SELECT id FROM a WHERE ts > {'2023-12-31'}
SELECT id FROM a WHERE ts > {2023-12-31}
SELECT id FROM a WHERE ts BETWEEN {2023-12-31} AND {2024-01-02}
SELECT id FROM a WHERE ts < {'2024-01-01 00:00:00.5'}
SELECT id FROM a WHERE tz > {2023-12-31 00:00:00}
SELECT id FROM a WHERE tz > {'2023-12-31T00:00:00Z'}
SELECT id FROM a WHERE tz = {2024-01-01 00:00:00+00}
SELECT id FROM a WHERE dy = {2024-01-01}
SELECT id FROM a WHERE dy = {'2024-01-01'}
SELECT id FROM a WHERE dy >= {2024-01-01 00:00:00}
SELECT id FROM a WHERE CAST(ts AS DATE) = {2024-01-01}
SELECT id FROM a WHERE ts::date = {'2024-01-01'}
SELECT id FROM a WHERE date_trunc('day', ts) = {2024-01-01}
SELECT id FROM a WHERE date_trunc({'day'}, ts) = ts
SELECT id FROM a WHERE extract(year FROM ts) = {2024}
SELECT id FROM a WHERE tm > {'00:00:00'}
SELECT id FROM a WHERE ts > TIMESTAMP '2024-01-03' - INTERVAL '1 day' * {5}
SELECT id, ts + INTERVAL '1 hour' * {2} AS x FROM a
SELECT id, ts + {2} * INTERVAL '1 hour' AS x FROM a
SELECT id, ts - {2024-01-01 00:00:00} AS x FROM a
SELECT id, dy + {3} AS x FROM a
SELECT id, dy - {2024-01-01} AS x FROM a
SELECT id, ts + CAST({'1 day'} AS INTERVAL) AS x FROM a
SELECT id FROM a WHERE ts > {2024-01-02 00:00:00} - INTERVAL '2 days'
SELECT id FROM a WHERE b = {True}
SELECT id FROM a WHERE b IS NOT DISTINCT FROM {True}
SELECT id FROM a WHERE u = {'00000000-0000-0000-0000-000000000001'}
SELECT id FROM a WHERE u IN ({'00000000-0000-0000-0000-000000000001'})
SELECT id FROM a WHERE id = ANY({[1, 2]})
SELECT id FROM a WHERE s = ANY({['x', 'q']})
SELECT id FROM a WHERE {1} = ANY(l)
SELECT id FROM a WHERE array_has(l, {1})
SELECT id, array_append(l, {9}) AS x FROM a
SELECT id, l[{1}] AS x FROM a
SELECT id, round(d, {1}) AS x FROM a
SELECT id, round(f, {1}) AS x FROM a
SELECT id, trunc(f, {1}) AS x FROM a
SELECT id, trunc(d, {1}) AS x FROM a
SELECT id, power(f, {2}) AS x FROM a
SELECT id, power(n, {2}) AS x FROM a
SELECT id, mod(n, {2}) AS x FROM a
SELECT id, greatest(n, {7}) AS x FROM a
SELECT id, greatest(d, {7}) AS x FROM a
SELECT id, least(f, {1}) AS x FROM a
SELECT id, coalesce(n, {7}) AS x FROM a
SELECT id, coalesce(d, {0}) AS x FROM a
SELECT id, coalesce(f, {0}) AS x FROM a
SELECT id, coalesce(s, {'-'}) AS x FROM a
SELECT id, coalesce(ts, {2024-05-05 00:00:00}) AS x FROM a
SELECT id, coalesce(dy, {2024-05-05}) AS x FROM a
SELECT id, nullif(n, {2}) AS x FROM a
SELECT id, nullif(s, {'x'}) AS x FROM a
SELECT id, CASE WHEN n > {1} THEN {'big'} ELSE {'small'} END AS x FROM a
SELECT id, CASE WHEN n > {1} THEN d ELSE {0} END AS x FROM a
SELECT id, CASE n WHEN {2} THEN {10} ELSE {20} END AS x FROM a
SELECT id, CASE s WHEN {'x'} THEN {1} ELSE NULL END AS x FROM a
SELECT id, substr(s, {1}, {1}) AS x FROM a
SELECT id, left(s, {1}) AS x FROM a
SELECT id, right(s, {1}) AS x FROM a
SELECT id, lpad(s, {5}, {'-'}) AS x FROM a
SELECT id, repeat(s, {3}) AS x FROM a
SELECT id, replace(s, {'x'}, {'yy'}) AS x FROM a
SELECT id, split_part(s, {'x'}, {1}) AS x FROM a
SELECT id, concat(s, {'-'}, {1}) AS x FROM a
SELECT id, s || {'!'} AS x FROM a
SELECT id, {'!'} || s || {1} AS x FROM a
SELECT id, strpos(s, {'x'}) AS x FROM a
SELECT id, starts_with(s, {'x'}) AS x FROM a
SELECT id, regexp_replace(s, {'x'}, {'z'}) AS x FROM a
SELECT id, to_char(ts, {'YYYY-MM'}) AS x FROM a
SELECT id, date_bin(INTERVAL '1 hour', ts, {2024-01-01 00:00:00}) AS x FROM a
SELECT id, json_extract(j, {'$.a'}) AS x FROM a
SELECT id, j ->> {'a'} AS x FROM a
SELECT id, CAST({5} AS TEXT) AS x FROM a
SELECT id, CAST({'5'} AS INT) + n AS x FROM a
SELECT id, CAST({5} AS DECIMAL(10, 2)) AS x FROM a
SELECT id, {5}::int AS x FROM a
SELECT {1} AS x
SELECT {1.5} AS x, {'t'} AS y, {True} AS z
SELECT {1} + {2} AS x
SELECT {1} + {2.5} AS x
SELECT {'a'} || {'b'} AS x
SELECT upper({'a'}) AS x
SELECT abs({-5}) AS x
SELECT * FROM (VALUES ({1}, {'a'}), ({2}, {'b'})) AS v(x, y)
SELECT id FROM a JOIN (VALUES ({1}), ({2})) AS v(x) ON a.id = v.x
SELECT id FROM a JOIN (VALUES ({'x'}), ({'q'})) AS v(x) ON a.s = v.x
SELECT id FROM a WHERE d IN (SELECT x FROM (VALUES ({3.5}), ({4})) AS v(x))
SELECT id FROM a ORDER BY id LIMIT {1}
SELECT id FROM a ORDER BY id LIMIT {1} OFFSET {1}
SELECT id FROM a ORDER BY abs(n - {2}), id
SELECT n, count(*) AS c FROM a GROUP BY n HAVING count(*) > {0}
SELECT sum(d) AS x FROM a HAVING sum(d) > {1}
SELECT sum(d * {2}) AS x FROM a
SELECT sum(n) FILTER (WHERE n > {1}) AS x FROM a
SELECT sum(CASE WHEN n > {1} THEN {1} ELSE {0} END) AS x FROM a
SELECT count(*) AS x FROM a WHERE d * {2} > {5}
SELECT avg(d) > {3} AS x FROM a
SELECT string_agg(s, {','}) AS x FROM a
SELECT id, lag(n, {1}) OVER (ORDER BY id) AS x FROM a
SELECT id, lag(n, {1}, {0}) OVER (ORDER BY id) AS x FROM a
SELECT id, ntile({2}) OVER (ORDER BY id) AS x FROM a
SELECT id, sum(n + {1}) OVER (ORDER BY id) AS x FROM a
SELECT id FROM a WHERE EXISTS (SELECT 1 FROM a AS o WHERE o.id = a.id AND o.n > {1})
SELECT id FROM a WHERE n = (SELECT max(n) FROM a WHERE n < {100})
SELECT id, (SELECT count(*) FROM a AS o WHERE o.n > {1}) AS x FROM a
SELECT id FROM a WHERE id IN (SELECT id FROM a WHERE d > {3})
WITH q AS (SELECT id, n + {1} AS m FROM a) SELECT * FROM q WHERE m > {2}
SELECT id, n FROM a WHERE n > {1} UNION ALL SELECT {999}, {5}
SELECT {999} AS id, {'q'} AS s UNION ALL SELECT id, s FROM a
SELECT id FROM a EXCEPT SELECT {1}
SELECT id FROM a WHERE ({None} IS NULL OR n = {2})
SELECT id FROM a WHERE n = {None}
SELECT id FROM a WHERE n IS NOT DISTINCT FROM {None}
SELECT id FROM a WHERE (id, n) = ({1}, {2})
SELECT id FROM a WHERE (id, n) IN (({1}, {2}), ({5}, {6}))
SELECT id FROM a WHERE NOT (n > {1} AND d < {4})
SELECT id FROM a WHERE by = {b'ab'}
SELECT id, encode(by, {'hex'}) AS x FROM a
SELECT id FROM a WHERE coalesce(s, {''}) = {''}
SELECT id FROM a WHERE md = {2024-01-01 00:00:00.500}
SELECT id FROM a WHERE md > {2023-01-01}
SELECT id FROM a WHERE md >= {2024-01-01 00:00:00}
SELECT id FROM a WHERE d = {D4.44} OR d = {D3.50}
SELECT id, d + {D1.005} AS x FROM a
SELECT id FROM a WHERE n = {D2}
SELECT id FROM a WHERE f = {D1.5}
UPDATE a SET d = d * {2}
UPDATE a SET d = {4}
UPDATE a SET d = {4.44}
UPDATE a SET d = {'4.44'}
UPDATE a SET n = {'7'}
UPDATE a SET n = {7.0}
UPDATE a SET f = {1}
UPDATE a SET r = {0.1}
UPDATE a SET s = {5}
UPDATE a SET sm = {5}
UPDATE a SET ts = {2024-05-05}
UPDATE a SET ts = {'2024-05-05 10:00'}
UPDATE a SET tz = {2024-05-05 10:00:00}
UPDATE a SET tz = {'2024-05-05 10:00:00+02'}
UPDATE a SET dy = {'2024-05-05'}
UPDATE a SET tm = {'10:30'}
UPDATE a SET b = {False}
UPDATE a SET u = {'00000000-0000-0000-0000-000000000002'}
UPDATE a SET l = {[4, 5]}
UPDATE a SET j = {'{"b": 2}'}
UPDATE a SET d = d / {3}
UPDATE a SET d = CASE WHEN n > {1} THEN {9.99} ELSE d END
UPDATE a SET n = coalesce({None}, n)
UPDATE a SET ts = ts + INTERVAL '1 day' * {2}
UPDATE a SET d = round(d * {1.19}, {2})
UPDATE a SET s = CASE WHEN {True} THEN {'t'} ELSE s END
DELETE FROM a WHERE d = {3.5}
DELETE FROM a WHERE d * {2} > {7}
DELETE FROM a WHERE ts < {2024-01-02}
INSERT INTO a (id, d) VALUES ({50}, {4})
INSERT INTO a (id, d, n) SELECT id + {100}, d * {2}, n + {1} FROM a
INSERT INTO a (id, n) VALUES ({1}, {9}) ON CONFLICT (id) DO UPDATE SET n = a.n + {5}
MERGE INTO a USING (SELECT {1} AS id, {3} AS n) s ON a.id = s.id WHEN MATCHED THEN UPDATE SET n = a.n + s.n, d = d + {1}
UPDATE a SET d = d + {D1.005}
UPDATE a SET d = d * {D1.005}
UPDATE a SET d = d + {100}
UPDATE a SET d = {1000} - d WHERE d < {4}
UPDATE a SET d = greatest(d, {4})
UPDATE a SET d = coalesce(d, {0})
UPDATE a SET d = coalesce(d, {D0.50})
UPDATE a SET n = round(n * {1.5}, {0})
UPDATE a SET n = n / {2}
UPDATE a SET n = n % {2}
UPDATE a SET sm = sm + {1}
UPDATE a SET r = r * {2}
UPDATE a SET s = upper({'q'}) || s
UPDATE a SET s = concat({'q'}, s, {1})
UPDATE a SET s = substr(s, {1}, {1})
UPDATE a SET s = replace(s, {'x'}, {'zz'})
UPDATE a SET s = to_char(ts, {'YYYY'})
UPDATE a SET ts = {2024-05-05 10:00:00} + INTERVAL '1 day'
UPDATE a SET ts = {2024-05-05 10:00:00} - INTERVAL '1 day' * {2}
UPDATE a SET ts = date_trunc({'month'}, ts)
UPDATE a SET dy = dy + {7}
UPDATE a SET dy = dy - INTERVAL '1 day' * {2}
UPDATE a SET l = array_append(l, {9})
UPDATE a SET b = n > {1}
UPDATE a SET b = {True} AND b
UPDATE a SET d = (SELECT max(d) FROM a AS x WHERE x.n > {1})
UPDATE a SET d = d * {2} WHERE id IN (SELECT id FROM a WHERE n > {1})
UPDATE a SET d = v.x FROM (VALUES ({1}, {9.25})) AS v(i, x) WHERE a.id = v.i
UPDATE a SET j = json_set(j, {'$.a'}, {'5'})
INSERT INTO a (id, d, f, s) VALUES ({51}, {D1.5}, {2}, {'t'}), ({52}, {2}, {2.5}, {'u'})
INSERT INTO a (id, ts, dy) VALUES ({51}, {2024-05-05 10:00:00}, {2024-05-05})
INSERT INTO a (id, ts) VALUES ({51}, {2024-05-05 10:00:00} + INTERVAL '1 hour')
INSERT INTO a (id, d) VALUES ({51}, {3} * {2.5})
INSERT INTO a (id, d) VALUES ({51}, round({3.14159}, {2}))
INSERT INTO a (id, d) SELECT {51}, {D2.25}
INSERT INTO a (id, s) SELECT {51}, {'x'} WHERE NOT EXISTS (SELECT 1 FROM a WHERE id = {51})
INSERT INTO a (id, d) VALUES ({1}, {2}) ON CONFLICT (id) DO UPDATE SET d = a.d * {2} + excluded.d
DELETE FROM a WHERE ts < {2024-06-01 00:00:00} - INTERVAL '1 day' * {3}
DELETE FROM a WHERE d + {1} > {5}
DELETE FROM a WHERE id = {1} RETURNING d * {2} AS x
SELECT id, d * n * {2} AS x FROM a
SELECT id, (d + {1}) * {2} AS x FROM a
SELECT id, d * ({1} + {2}) AS x FROM a
SELECT id, d * {D0.19} + d AS x FROM a
SELECT id, round(d * {D0.19}, {2}) AS x FROM a
SELECT id, round(d / {3}, {2}) AS x FROM a
SELECT id, ceil(d * {2}) AS x FROM a
SELECT id, abs(d - {5}) AS x FROM a
SELECT id, d > {4} AS x FROM a
SELECT id, d BETWEEN {3} AND {4} AS x FROM a
SELECT id, d IN ({3.5}) AS x FROM a
SELECT id, cast({'2024-01-01'} AS DATE) = dy AS x FROM a
SELECT id, ts::date - {2024-01-01} AS x FROM a
SELECT id, ts - INTERVAL '1 day' * {2} > {2023-01-01} AS x FROM a
SELECT id FROM a WHERE ts >= {2024-01-01} AND ts < {2024-01-01} + INTERVAL '1 day'
SELECT id FROM a WHERE ts >= {2024-01-01 00:00:00} AND ts < {2024-01-01 00:00:00} + INTERVAL '1 month'
SELECT id FROM a WHERE dy > {2024-02-01} - INTERVAL '2 months'
SELECT id FROM a WHERE tz > {2024-01-01 00:00:00+00} - INTERVAL '1 hour'
SELECT id FROM a WHERE tz BETWEEN {2023-01-01 00:00:00+00} AND {2025-01-01 00:00:00+00}
SELECT id FROM a WHERE d = ANY(ARRAY[{3.5}, {4}])
SELECT id FROM a WHERE n = ANY(ARRAY[{2}, {4}])
SELECT id FROM a WHERE regexp_like(s, {'^x'})
SELECT id FROM a WHERE position({'x'} IN s) > {1}
SELECT id FROM a WHERE substring(s FROM {1} FOR {1}) = {'x'}
SELECT id FROM a WHERE trim({'x'} FROM s) = {''}
SELECT id FROM a WHERE s > {'a'} AND s < {'z'}
SELECT id FROM a WHERE s || {'a'} = {'xa'}
SELECT id FROM a WHERE (s = {'x'} OR {None} IS NOT NULL)
SELECT id FROM a WHERE f BETWEEN {1} AND {2}
SELECT id FROM a WHERE f * {2} = {3}
SELECT id FROM a WHERE n + {1} = {3}
SELECT id FROM a WHERE n * {2} > id + {1}
SELECT id FROM a WHERE -n = {-2}
SELECT id FROM a WHERE CASE WHEN {True} THEN n = {2} ELSE n = {5} END
SELECT id FROM a WHERE n > (SELECT avg(n) * {0.5} FROM a)
SELECT id FROM a WHERE n > ALL(SELECT n FROM a WHERE n < {3})
SELECT id FROM a WHERE n IN (SELECT n + {0} FROM a)
SELECT a.id FROM a JOIN a AS o ON a.id = o.id AND o.n > {1}
SELECT a.id FROM a LEFT JOIN a AS o ON a.id = o.id + {1} WHERE o.d > {3}
SELECT id, x FROM a CROSS JOIN (SELECT {1} AS x) AS q
SELECT id, unnest(l) + {1} AS x FROM a
SELECT date_trunc('month', ts) AS m, count(*) AS c FROM a WHERE ts > {2023-01-01} GROUP BY 1
SELECT CASE WHEN n > {2} THEN {'big'} ELSE {'small'} END AS g, sum(d) AS x FROM a GROUP BY 1
SELECT sum(d) * {2} AS x FROM a
SELECT sum(d) / {3} AS x FROM a
SELECT avg(n) + {1} AS x FROM a
SELECT max(d) - {1} AS x FROM a
SELECT count(DISTINCT n + {1}) AS x FROM a
SELECT array_agg(n + {1} ORDER BY id) AS x FROM a
SELECT percentile_cont({0.5}) WITHIN GROUP (ORDER BY f) AS x FROM a
SELECT approx_percentile_cont(f, {0.5}) AS x FROM a
SELECT id, rank() OVER (PARTITION BY n > {1} ORDER BY id) AS x FROM a
SELECT id, first_value(d + {1}) OVER (ORDER BY id) AS x FROM a
SELECT id, nth_value(n, {1}) OVER (ORDER BY id) AS x FROM a
SELECT id, n FROM a ORDER BY CASE WHEN n = {5} THEN {0} ELSE {1} END, id
SELECT DISTINCT {1} AS x, b FROM a
SELECT id, ARRAY[n, {3}] AS x FROM a
SELECT id, array_position(l, {2}) AS x FROM a
SELECT id, array_to_string(l, {','}) AS x FROM a
SELECT id, json_build_object({'k'}, n) AS x FROM a
SELECT id, j -> {'a'} AS x FROM a
SELECT id, j ->> {'$.a'} AS x FROM a
SELECT id, md5({'a'} || s) AS x FROM a
SELECT id, coalesce(s, {'a'}) || {'b'} AS x FROM a
SELECT id, nullif(s, {''}) AS x FROM a
SELECT id, extract(day FROM ts) + {1} AS x FROM a
SELECT id, make_date({2024}, {1}, {2}) AS x FROM a
SELECT id, to_timestamp({1700000000}) AS x FROM a
SELECT id, to_date({'2024-01-01'}) AS x FROM a
SELECT id, date_part('year', ts) = {2024} AS x FROM a
SELECT id, ({1}, n) = (n, {1}) AS x FROM a
SELECT id, {1} IN (n, sm) AS x FROM a
SELECT id, {2} BETWEEN n AND sm AS x FROM a
SELECT id, {3.5} = d AS x FROM a
SELECT id, {'x'} = s AS x FROM a
SELECT id, {2024-01-01} <= dy AS x FROM a
SELECT id FROM a WHERE sm = {3} AND r < {1} AND f > {-5}
SELECT id FROM a WHERE id > {0} ORDER BY d DESC NULLS LAST LIMIT {2}
SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id) AS k FROM a) AS q WHERE k <= {2}
WITH p AS (SELECT {2} AS v) SELECT a.id FROM a, p WHERE a.n = p.v
WITH p(v) AS (VALUES ({2}), ({5})) SELECT a.id FROM a JOIN p ON a.n = p.v
SELECT id FROM a WHERE ts > {2023-01-01} UNION SELECT id FROM a WHERE d > {4}
SELECT id, d FROM a INTERSECT SELECT {1}, {D3.50}
SELECT id FROM a WHERE id = {1} OR id = {2.0}
SELECT id FROM a WHERE cast(n AS text) = {'2'}
SELECT id FROM a WHERE cast({'2'} AS int) = n
SELECT id FROM a WHERE cast({2} AS bigint) = n
SELECT id FROM a WHERE n::text LIKE {'2%'}
SELECT id FROM a WHERE d::text = {'3.50'}
SELECT id FROM a WHERE cast(d AS INT) = {4}
SELECT id FROM a WHERE u = cast({'00000000-0000-0000-0000-000000000001'} AS uuid)
SELECT id FROM a WHERE dy < {2024-01-01 02:30:00}
SELECT id FROM a WHERE dy = {2024-01-01 02:30:00}
SELECT id FROM a WHERE dy >= {2024-01-01 02:30:00}
SELECT id FROM a WHERE dy <> {2024-01-01 02:30:00}
SELECT id FROM a WHERE dy IN ({2024-01-01 02:30:00}, {2025-02-02 00:00:00})
SELECT id FROM a WHERE dy NOT IN ({2024-01-01 02:30:00}, {2025-02-02 00:00:00})
SELECT id FROM a WHERE dy BETWEEN {2023-12-31 12:00:00} AND {2024-01-01 00:00:00.5}
SELECT id FROM a WHERE dy IS DISTINCT FROM {2024-01-01 02:30:00}
SELECT id FROM a WHERE dy < {2024-01-01 02:30:00+00:00}
SELECT id FROM a WHERE dy = {2024-01-01 00:00:00+00:00}
SELECT id FROM a WHERE ts IN (coalesce({2024-01-01 00:00:00}, dy), dy)
SELECT id, dy < {2024-01-01 02:30:00} AS x FROM a
SELECT id, CASE dy WHEN {2024-01-01 02:30:00} THEN 1 ELSE 2 END AS x FROM a
SELECT x.id FROM a AS x JOIN a AS y ON x.dy < {2024-01-01 02:30:00} AND x.id = y.id
# What DataFusion takes as literals only
SELECT id, date_part({'year'}, ts) FROM a
SELECT id, lag(n, {1}) OVER (ORDER BY id), lead(n, {1}, {9}) OVER (ORDER BY id) FROM a
SELECT id, nth_value(n, {2}) OVER (ORDER BY id) FROM a
SELECT id, ts AT TIME ZONE {'Europe/Berlin'} FROM a
SELECT value FROM generate_series({1}, {7}, {2})
SELECT a.id, g.value FROM a, range({1}, {3}) AS g
SELECT * FROM (VALUES ({1}, {'a'}), ({2}, {'b'})) AS v(x, y)
SELECT id, ts + {90 minutes} AS x FROM a
SELECT id, ts - {90 minutes} AS x FROM a
SELECT id, {90 minutes} + ts AS x FROM a
SELECT id, tz + {90 minutes} AS x FROM a
SELECT id, tz - {90 minutes} AS x FROM a
SELECT id, md - {90 minutes} AS x FROM a
SELECT max(ts + {90 minutes}) AS x FROM a
SELECT id, ts - {2023-01-01 00:00:00} > {90 minutes} AS x FROM a
SELECT id FROM a WHERE id IN (SELECT id FROM a WHERE ts + {90 minutes} > {2024-01-01 01:00:00})
SELECT q.x FROM a, LATERAL (SELECT a.ts + {90 minutes} AS x) q
SELECT id FROM a WHERE ts + {90 minutes} > {2024-01-01 01:00:00}
SELECT id FROM a WHERE ts > {2024-01-01 01:00:00} - {90 minutes}
SELECT id FROM a WHERE tz < now() - {90 minutes}
SELECT id FROM a WHERE tz BETWEEN {2024-01-01 00:00:00+00:00} - {90 minutes} AND {2024-01-01 00:00:00+00:00} + {90 minutes}
SELECT id FROM a ORDER BY ts + {90 minutes} DESC NULLS LAST, id
SELECT id, CASE WHEN ts > {2024-06-01 00:00:00} THEN ts + {90 minutes} ELSE ts END AS x FROM a
SELECT id, coalesce(ts + {90 minutes}, {2024-01-01 00:00:00}) AS x FROM a
