"""The stack in one command: the three servers that Fanfold stands on, and the processes of Fanfold itself.

`account`, `place`, `ports` and `program` are the ground; `postgres`, `valkey` and `objectstore` each turn a data
folder into a program to run; `supervisor` runs programs in order, keeps them up and stops them; `up` says which
programs a stack consists of.
"""
