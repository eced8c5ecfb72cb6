"""The cures: one small object for each class of faults of the library.

A cure is composed into a replica and sees what comes in, what goes out, and each step. The
product composes all of them (`coordinator.consensus.node.CURES`); tests compose fewer to show
what each one is for.
"""
