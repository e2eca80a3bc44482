"""Searching fresh data: operators over candidates, which are rows by their place and how well they match.

Vectors:

=====================  ===================================================================================
`KnnExec`              the k nearest live rows of one source for every query, by its index or by all distances
`ConcurrentUnionExec`  candidates of all sources, which are searched side by side
`FilterStaleExec`      those that nothing newer supersedes: known by masks, or found by key
=====================  ===================================================================================

Every search:

=====================  ===================================================================================
`SortExec`             candidates query by query, best first
`LimitExec`            the first k of every query
`HybridExec`           a vector ranking and a text ranking, fused
`TakeRowsExec`         the columns of the rows that were found, from wherever these lie
`FallbackExec`         few rows where they are enough, everything otherwise
`EmptyExec`            what a search of nothing finds
=====================  ===================================================================================

`candidates` has those without a module of their own. `vector_search` finds the nearest rows of one source by
`distances`; `vector_blocks` and `take_rows` read rows; `source` is what is searched, and what is asked for.
"""
