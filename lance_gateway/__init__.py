"""Lance Gateway: the SQL front door to fresh Lance data.

The packages in this folder are links to the top-level folders of the repository: all of the product is
imported, and installed, under one name.
"""
