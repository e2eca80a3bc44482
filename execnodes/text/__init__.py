"""Text queries: what they mean, how they score, and where their terms are found.

- `query`: the tree of a query, its syntax, its terms, and the tokenizer.
- `documents`: documents of one source, in memory or in a Lance index.
- `bm25`: the formula and what goes into it; sets of documents with scores.
- `scoring`: statistics of all sources, candidates and scores.
- `fts`: candidates of one source, among the rows that may be found. `global_bm25`: the best of all.
"""
