DataFusion takes AND behind IS DISTINCT FROM for a part of its right side.

## AND beside IS DISTINCT FROM
SELECT id FROM t WHERE a IS DISTINCT FROM b AND c = 1
--
SELECT id FROM t WHERE (a IS DISTINCT FROM b) AND c = 1

## OR behind what is denied
SELECT NOT a IS NOT DISTINCT FROM b OR c AS x FROM t
--
SELECT NOT (a IS NOT DISTINCT FROM b) OR c AS x FROM t
