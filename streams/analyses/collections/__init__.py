"""Find replicated collections: groups of linked pages that occur several times.

The problem and two of the rules are those of Cho, Shivakumar and Garcia-Molina, *Finding replicated web collections*
(2000). A collection is a set of linked pages on one host, such as the manual of one program. Collections with similar
pages form a class. `regions` is our own rule, and `published_rules` contains the two rules of the paper.
"""
