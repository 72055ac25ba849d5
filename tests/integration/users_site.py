"""A muster-rendezvous with users, and what a user types on a node."""

from harness import BIN, sh

DAEMON = BIN / "muster-rendezvous"
ENDPOINT = "10.77.0.1:29400"
SECRETS = {name: f"{name}'s secret, {'x' * 32}\n" for name in ("alice", "bob", "carl")}


class UsersSite:
    """The daemon on node0 with two users, and jobs on the two others, whose users have one home."""

    def __init__(self, shells, folder):
        self.shells, self.folder, self.known = shells, folder, folder / "config/muster/known_masters"
        (folder / "users").mkdir(mode=0o700)
        for name in SECRETS:
            self.secret(folder / name, SECRETS[name])
        for name in ("alice", "bob"):
            self.secret(folder / "users" / name, SECRETS[name])
        (folder / "site.yaml").write_text(f'listen: "{ENDPOINT}"\nusers: {folder}/users\n')

    def secret(self, path, text):
        path.write_text(text)
        path.chmod(0o600)

    def serve(self, *more, within=(), **env):
        """`within`: words of a program that becomes the one named behind them."""
        env = {"XDG_CONFIG_HOME": str(self.folder / "daemon"), **env}
        program, *words = [*within, DAEMON, "--config", self.folder / "site.yaml", *more]
        daemon = self.shells[0].start(*words, program=program, env=env)
        daemon.expect(f"listens on {ENDPOINT}")
        return daemon

    def job(self, user, node, script, *more):
        words = ["--nnodes", "2", "--rdzv-endpoint", ENDPOINT, "--rdzv-id", "job", "--node-rank", str(node)]
        env = {"XDG_CONFIG_HOME": str(self.folder / "config")}
        return self.shells[node + 1].start(*words, *more, "--secret-file", self.folder / user, *sh(script), env=env)

    def run(self, *more, user="alice"):
        """The results of a job on both nodes."""
        return [job.finish() for job in [self.job(user, node, "true", *more) for node in range(2)]]
