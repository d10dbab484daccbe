"""The viewer, a page that shows maps, comparisons, answers and rankings.

It runs in HTML files, in notebook frames and widgets, and on the web server. Its source code is in
`web/` of the repository, and the built files are in `built/`.
"""
