"""Discovery: which groups there are, without a server.

Theory of operation. A node that comes, or comes back, broadcasts an advertisement. Every node, that one too, answers to all with the
groups it is a member of, so everybody hears of everything that somebody in reach belongs to. Groups whose members are all away are not
heard of, and are again as soon as one of them returns and advertises.

    advertise   forget what was rejected, broadcast, and answer like everybody else; who advertised is answered by name as well
    repeat      broadcast again, with growing pauses and the groups that are known, which need not be told: others may come into reach
    asked       wait a random time; leave out every group that another has told meanwhile in the same view or a newer one
    heard       a group that is not known goes to the application, once: join it, or reject it
    rejected    not told again and not passed on, until this node's own next `advertise` (a repetition does not count)
    ended       the last member has left: forgotten, and old hints do not bring it back

What is heard are hints for outsiders; who is a member only views say. Any node can also be asked alone, as a name server, and then
tells what it has heard as well; it may refuse to be one.

`directory` is where to begin reading; `advertisement_timer` says when to repeat an advertisement, `hints` holds what was heard, `questions`
what name servers were asked, `allowance` how often strangers are answered, `group_list` cuts a list of groups into frames.
"""
