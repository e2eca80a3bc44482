Only the backslash escapes characters of patterns.

## a literal
SELECT id FROM t WHERE s LIKE 'a!_!!b\' ESCAPE '!'
--
SELECT id FROM t WHERE s LIKE 'a\_\!b\\'

## a computed pattern
SELECT id FROM t WHERE s NOT LIKE ($1 || '!%') ESCAPE '!'
--
SELECT id FROM t WHERE s NOT LIKE replace(replace(replace(replace(($1 || '!%'), '\', '\\'), '!!', chr(1)), '!', '\'), chr(1), '!')

## an empty character escapes nothing
SELECT id FROM t WHERE s ILIKE 'a\_' ESCAPE '' OR s LIKE k ESCAPE ''
--
SELECT id FROM t WHERE s ILIKE 'a\\_' OR s LIKE replace(k, '\', '\\')

## the backslash stays
SELECT id FROM t WHERE s LIKE 'a' ESCAPE '\' AND s LIKE 'b' ESCAPE '|'
--
SELECT id FROM t WHERE s LIKE 'a' ESCAPE '\' AND s LIKE 'b'
