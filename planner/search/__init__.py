"""Search functions of the SQL surface, and ORDER BY distance, from the statement to a tree of exec nodes.

===================  =====================================================================================
`search_call`        a call of a search function, read from the text of a statement
`search_request`     what a search asks for: its `arguments`, checked
`search_scan`        a search of a running statement, and statements that are but a search
`nearest`            ORDER BY distance LIMIT k, recognised in a plan; `nearest_leaf` plans it as a search
`conditions`         which conditions apply before ranking, and which rows they admit
`plan_search`        trees of exec nodes for vectors, for texts, and both fused
`sources`            what is searched: by an index where one has the rows
===================  =====================================================================================
"""
