Forms are written before names are resolved.

## operators
SELECT j -> 'a' ->> 0, j->-1 AS x, j::json ->> k AS y FROM t WHERE (j ->> 'k') = 'v'
--
SELECT json_extract_string(json_extract(j, 'a'), '$[0]') AS "j -> 'a' ->> 0", json_extract(j, '$[#-1]') AS x, json_extract_string(j, k) AS y FROM t WHERE (json_extract_string(j, 'k')) = 'v'

## functions that read
SELECT json_value(j, '$.a') AS x, json_array_length(j) AS l, json_type(j, '$.b') AS y, json_object_keys(j) AS k FROM t
--
SELECT json_extract_string(j, '$.a') AS x, json_array_length(j) AS l, json_type(json_extract(j, '$.b')) AS y, unnest(json_keys(j)) AS k FROM t

## objects and arrays
SELECT json_object('id': id, KEY 'k' VALUE v FORMAT JSON), json_array(1, json_array(a) NULL ON NULL) AS x, json_build_object() AS y FROM t
--
SELECT concat('{', concat_ws(',', (json_key('id') || ':' || coalesce(to_json(id), 'null')), (json_key('k') || ':' || coalesce(json_cast(v), 'null'))), '}') AS "json_object", concat('[', concat_ws(',', coalesce(to_json(1), 'null'), coalesce(concat('[', concat_ws(',', to_json(a)), ']'), 'null')), ']') AS x, concat('{', '', '}') AS y FROM t

## aggregates
SELECT json_agg(v ORDER BY id) FILTER(WHERE v > 1), json_objectagg(k: v ABSENT ON NULL) OVER (PARTITION BY g) AS x, json_arrayagg(DISTINCT v NULL ON NULL) AS y FROM t
--
SELECT ('[' || CAST(string_agg(coalesce(to_json(v), 'null'), ',' ORDER BY id) FILTER(WHERE v > 1) AS VARCHAR) || ']') AS "json_agg", CASE WHEN count(*) OVER (PARTITION BY g) > 0 THEN concat('{', CAST(string_agg((json_key(k) || ':' || to_json(v)), ',') OVER (PARTITION BY g) AS VARCHAR), '}') END AS x, ('[' || CAST(string_agg(DISTINCT coalesce(to_json(v), 'null'), ',') AS VARCHAR) || ']') AS y FROM t

## changes
SELECT json_set(j, '$.a', 1, '$.b', j -> 'c') AS x, json_remove(j, '$.a', '$.b') AS y, jsonb_set(j, '{a}', '1') AS z FROM t
--
SELECT json_set(json_set(j, '$.a', coalesce(to_json(1), 'null')), '$.b', coalesce(json_extract(j, 'c'), 'null')) AS x, json_remove(json_remove(j, '$.a'), '$.b') AS y, jsonb_set(j, '{a}', json_cast('1'), TRUE) AS z FROM t

## casts and tests
SELECT CAST(l AS JSON), JSON '{}', TRY_CAST(j AS JSONB) AS x, j IS NOT JSON OBJECT, j || 'x' IS JSON AS y FROM t
--
SELECT json_cast(l) AS "l", json_cast('{}') AS "json", json_try_cast(j) AS x, NOT json_is(j, 'object') AS "j IS NOT JSON OBJECT", json_is(j || 'x', 'value') AS y FROM t
