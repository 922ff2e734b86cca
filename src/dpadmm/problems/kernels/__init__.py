"""Compiled loops over records. One pass over an agent's rows each; nothing here knows of agents' privacy or of ADMM.

Every kernel works on *chunks*: runs of at most `CHUNK` consecutive records of one agent. A chunk's sum is made by one
thread in a fixed order, and an agent's chunks are added in order, so a result depends on the agent's own records only:
not on the number of threads, and not on which other agents share the batch.
"""
