"""How far drafts are trusted: only observed, enforced, or enforced and audited; and on which share of the requests.

    trust.py        what is done with a query, by mode and rollout
    rollout.py      which requests are speculated on at all
    onlooker.py     observe: phases I to III beside the agent
    auditor.py      audit: some accepted queries also go to the agent
    budget.py       how many of them, and how often
    planning.py     what is audited, and where a gate stands at each level of it
    standing.py     the audit under way: what it has seen, and where the gate has to stand
    telling.py      what there is to tell of it: log, metrics
    keeping.py      its state on the disk; saving.py writes it while the gateway runs
    background.py   work beside the requests, bounded
    opening.py      from settings to all of this

What runs beside the requests has places, circuit breakers and failures of its own: none of them reaches a client.
"""

from speceyes.gateway.trust.opening import open_trust
from speceyes.gateway.trust.planning import check_trust
from speceyes.gateway.trust.trust import Trust

__all__ = ["Trust", "check_trust", "open_trust"]
