"""Rules and taps: drop, hold, delay, duplicate and reorder frames while a group runs. Used by both drivers.

A rule is one line of words, the same in scenario files, in the simulator and beside a running node:

    drop data from a to b first 1       delay 50ms data to c           duplicate frames with 10%
    hold record from a                  reorder data from a to b       drop nack in every 2nd

A `Tap` stands where frames pass, applies its rules to each, and keeps what they hold until it is released. Nothing here reads a
clock or draws a random number: delays are handed back to the driver, chance is an argument.
"""
