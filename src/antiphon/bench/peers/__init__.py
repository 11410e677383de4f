"""The same work through other systems, each as its own documentation would have it used from Python, in one small file.

None of them is asked for more than it promises, and each is given what helps it: local delivery where it has one, back-pressure instead of
drops where it offers that, pipelining where it answers, and a window of its own messages where it has no bound.
"""
