"""Emergency services: a person reports a crash, 911 (an agent) sends cops, ambulance and fire brigade, each reads only its own, and the
ambulance, whose radio is dead for a while, misses nothing.

    python examples/emergency.py [--store sqlite:FILE | nats://HOST:PORT]

It is an application of the package, `antiphon.apps.emergency`; `scene.py` in it is where to begin reading.
"""

from antiphon.apps.emergency import main

if __name__ == "__main__":
    main()
