"""The report: what all jobs found, as one page that needs nothing else.

`gather` asks the jobs and takes a bounded part of their tables out of Spark (`findings`), `page` arranges it (`page`, `sections`), and
`pictures` draws. Only `gather` runs Spark: a page can be made, looked at and tested from plain rows.
"""
