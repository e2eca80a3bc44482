"""Search operators over candidates: row addresses with a distance or a score.

Vectors:

=====================  ===================================================================================
`KnnExec`              the k nearest live rows of one source for every query, by its index or by all distances
`ConcurrentUnionExec`  candidates of all sources, which are searched concurrently
`FilterStaleExec`      candidates that no newer row supersedes, by masks or by key
=====================  ===================================================================================

Every search:

=====================  ===================================================================================
`SortExec`             candidates by query, best first
`LimitExec`            the first k of every query
`HybridExec`           a vector ranking and a text ranking, fused
`TakeRowsExec`         the columns of the candidates
`FallbackExec`         few rows if there are enough, all rows otherwise
`EmptyExec`            no rows
=====================  ===================================================================================

`vector_search` finds the nearest rows of one source by `distances`; `vector_blocks` and `take_rows` read
rows; `source` has requests and sources. The other operators are in `candidates`.
"""
