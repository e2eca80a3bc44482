Tables: p (id, .., n BIGINT), t (id BIGINT, i BIGINT, s TEXT), lists (id, st STRUCT(x BIGINT)).

## a relation that is called as a column inside is
SELECT i.s FROM t AS i WHERE EXISTS (SELECT 1 FROM t AS o WHERE o.id = i.id)
--
SELECT i.s FROM t AS i WHERE EXISTS(SELECT 1 FROM t AS o WHERE o.id = "#".i.id)

## a field of a column
SELECT st.s FROM t AS st WHERE EXISTS(SELECT 1 FROM lists WHERE st.x = st.id)
--
SELECT st.s FROM t AS st WHERE EXISTS(SELECT 1 FROM lists WHERE st.x = "#".st.id)
