"""The console in the browser, and the HTTP API behind it.

`app` has the paths, `sessions` says who asks, `statements` runs what they ask over the gateway's own Flight
SQL port, and `answers` writes rows as NDJSON, CSV, Parquet or Arrow. `static` holds the pages, and
`make console` makes `static/lib/codemirror.js` from `bundle`.
"""
