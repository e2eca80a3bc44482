"""The gateway as a database of Superset: `lance_gateway://user:password@host:31337`.

==============  ===========================================================
module          what Superset asks it for
==============  ===========================================================
`engine_spec`   how time is cut, written and converted; names of functions
`dialect`       connections, and what tables and columns there are
`types`         SQLAlchemy's types of columns, from Arrow's
==============  ===========================================================
"""
