"""Two muster-rendezvous that share an etcd of three members, and a job that meets at the one that leads."""

from master_site import Site  # first: it knows where the lab is
from etcd import Etcd

PORT = 29400


class Masters(Site):
    """Daemons on node0 and node1, which run the jobs as well; etcd on node2."""

    def __init__(self, shells, folder):
        self.etcd = Etcd(shells[2], folder)
        self.places = [f"{shell.host.addr}:{PORT}" for shell in shells[:2]]
        super().__init__(shells, folder, ["--rdzv-store", self.etcd.store])

    def pair(self, envs=(None, None)):
        """(the one that leads, the one that waits)"""
        first = self.serve(0, self.places[0], env=envs[0])
        first.expect("leads, in epoch", stream="err")
        second = self.serve(1, self.places[1], env=envs[1])
        second.expect(f"waits for the lead: {self.places[0]} leads", stream="err")
        return first, second

    def job(self, script, *more):
        # The one that waits comes first: it says who leads.
        return [self.node(i, script, *more, host=i, endpoint=",".join(self.places[::-1])) for i in range(2)]
