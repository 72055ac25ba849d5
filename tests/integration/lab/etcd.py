"""Debian's etcd: three members on ports of one emulated host. They end with the Shell that starts them."""

import json
import signal
import subprocess

from lab import wait_for


class Etcd:
    """`shell` of the host that runs them; `folder` keeps their data (best where it costs no disk)."""

    def __init__(self, shell, folder):
        self.shell, self.folder = shell, folder
        self.ports = [2379, 2479, 2579]
        self.jobs = {}
        for member in range(3):
            self.start(member)

    def _url(self, member, peer=False):
        return f"http://{self.shell.host.addr}:{self.ports[member] + peer}"

    def start(self, member):
        cluster = ",".join(f"m{i}={self._url(i, peer=True)}" for i in range(3))
        self.jobs[member] = self.shell.start(
            "--pdeathsig", "KILL", "etcd", "--name", f"m{member}", "--data-dir", self.folder / f"etcd{member}",
            "--listen-client-urls", self._url(member), "--advertise-client-urls", self._url(member),
            "--listen-peer-urls", self._url(member, peer=True),
            "--initial-advertise-peer-urls", self._url(member, peer=True),
            "--initial-cluster", cluster, "--logger", "zap",
            program="setpriv",
        )

    def kill(self, member):
        job = self.jobs.pop(member)
        job.signal(signal.SIGKILL)
        job.finish()

    @property
    def store(self):
        """For --rdzv-store."""
        return "etcd://" + ",".join(f"{self.shell.host.addr}:{port}" for port in self.ports)

    def ctl(self, *words):
        """What etcdctl prints; None where it fails."""
        ends = ",".join(self._url(i) for i in self.jobs)
        done = self.shell.host.run(["env", "ETCDCTL_API=3", "etcdctl", "--endpoints", ends, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        return done.stdout if done.returncode == 0 else None

    def be_full(self):
        """Its NOSPACE alarm, until `ctl("alarm", "disarm")`."""
        member = json.loads(self.ctl("endpoint", "status", "-w", "json"))[0]["Status"]["header"]["member_id"]
        alarm = json.dumps({"action": "ACTIVATE", "memberID": str(member), "alarm": "NOSPACE"})
        words = ["curl", "-sS", "--fail", "-X", "POST", f"{self._url(0)}/v3/maintenance/alarm", "-d", alarm]
        assert self.shell.host.run(words, stdout=subprocess.DEVNULL).returncode == 0

    def leader(self):
        """The member that leads the others."""

        def look():
            text = self.ctl("endpoint", "status", "-w", "json")
            for one in json.loads(text) if text else []:
                if one["Status"]["leader"] == one["Status"]["header"]["member_id"]:
                    return [i for i in self.jobs if self._url(i) == one["Endpoint"]]
            return None

        return wait_for(look, what="etcd chooses a leader")[0]
