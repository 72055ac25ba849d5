"""By which key users know the daemon of a site: met for the first time, met again, and another one in its place."""

import signal

import pytest

from harness import sh  # first: it knows where the lab is
from etcd import Etcd
from master_site import STEPS, undisturbed
from users_site import DAEMON, ENDPOINT, UsersSite

FIRST = f"first time at {ENDPOINT}: its fingerprint is "


@pytest.fixture
def site(shells, scratch):
    return UsersSite(shells, scratch)


def serve(site, *more):
    """The daemon, and the fingerprint that it says."""
    daemon = site.serve(*more)
    return daemon, daemon.expect(r"its fingerprint is (SHA256:\S{43})\n")[0]


def end(daemon):
    daemon.signal(signal.SIGTERM)
    assert daemon.finish().code == 0


def good(results):
    assert [result.code for result in results] == [0, 0], results
    return "".join(result.errors for result in results)


def refused(results):
    """What is said by both, once each."""
    assert [result.code for result in results] == [1, 1], results
    for result in results:
        assert result.errors.count("has the fingerprint") == 1, result
    return results[0].errors


def test_a_daemon_that_is_started_again_is_the_one_that_was_met(site):
    key = site.folder / "keys/tls-key"
    daemon, fingerprint = serve(site, "--tls-key", key)
    assert key.stat().st_mode & 0o777 == 0o600
    said = good(site.run())
    # Of two nodes with one home one is the first.
    assert said.count(f"{FIRST}{fingerprint}, remembered in {site.known}\n") == said.count("fingerprint") == 1, said
    assert site.known.read_text() == f"{ENDPOINT} {fingerprint}\n"
    assert site.known.stat().st_mode & 0o777 == 0o600
    end(daemon)
    daemon, again = serve(site, "--tls-key", key)
    assert again == fingerprint
    assert "fingerprint" not in good(site.run()) + good(site.run(user="bob"))
    assert site.known.read_text() == f"{ENDPOINT} {fingerprint}\n"
    end(daemon)


def test_another_key_is_refused_with_what_to_do(site):
    key = site.folder / "tls-key"
    daemon, before = serve(site, "--tls-key", key)
    good(site.run())
    end(daemon)
    key.unlink()
    daemon, now = serve(site, "--tls-key", key)
    assert now != before
    said = refused(site.run())
    assert f"the daemon at {ENDPOINT} has the fingerprint {now}, but {site.known} line 1 remembers {before}: " in said
    assert "Ask who runs the daemon: if it has a new key, remove that line" in said
    daemon.expect("refused a connection from 10.77.0.2: it expects another fingerprint than ours", stream="err")
    assert site.known.read_text() == f"{ENDPOINT} {before}\n"
    site.known.write_text("# mended\n")
    assert f"{FIRST}{now}, remembered in {site.known}\n" in good(site.run())
    assert site.known.read_text() == f"# mended\n{ENDPOINT} {now}\n"
    end(daemon)


def test_a_fingerprint_that_is_typed_is_the_only_one(site):
    daemon, fingerprint = serve(site)
    wrong = "SHA256:" + "A" * 43
    said = refused(site.run("--rdzv-fingerprint", wrong))
    assert f"the daemon at {ENDPOINT} has the fingerprint {fingerprint}, but --rdzv-fingerprint {wrong} was given" in said
    assert "fingerprint" not in good(site.run("--rdzv-fingerprint", fingerprint))
    assert not site.known.exists()
    end(daemon)


def test_a_list_that_cannot_be_understood_is_no_list(site):
    daemon, fingerprint = serve(site)
    site.known.parent.mkdir(parents=True)
    site.known.write_text(f"{ENDPOINT}\n")
    site.known.chmod(0o600)
    said = refused(site.run())
    assert f"{site.known} line 1: want 'HOST:PORT SHA256:...', got '{ENDPOINT}': remove the line, or mend it" in said
    assert "fingerprint" not in good(site.run("--rdzv-fingerprint", fingerprint))
    end(daemon)


def test_a_daemon_without_a_key_of_its_own_needs_none(site):
    (site.folder / "site.yaml").write_text(f'listen: "{ENDPOINT}"\nsecret-file: {site.folder}/alice\n')
    daemon = site.serve()
    assert "fingerprint" not in good(site.run())
    assert "fingerprint" not in daemon.out.data.decode() and not site.known.exists()
    end(daemon)


def test_the_key_lies_in_the_journals_folder_and_workers_do_not_notice_a_restart(site):
    go, journal = site.folder / "go", site.folder / "journal"
    daemon, fingerprint = serve(site, "--journal", journal)
    assert (journal / "tls-key").exists()
    both = [site.job("alice", node, STEPS.replace("{go}", str(go))) for node in range(2)]
    for job in both:
        job.expect("step 5 ")
    daemon.signal(signal.SIGKILL)
    daemon.finish()
    daemon, again = serve(site, "--journal", journal)
    assert again == fingerprint
    daemon.expect("the nodes of round .* are back", stream="err")
    go.touch()
    undisturbed(both)
    end(daemon)


def test_one_that_takes_over_with_the_same_key_is_the_same(shells, site):
    etcd, key = Etcd(shells[2], site.folder), site.folder / "tls-key"
    places = [f"{shell.host.addr}:29400" for shell in shells[:2]]
    daemons = []
    for shell, place in zip(shells, places):
        words = ("--users", site.folder / "users", "--listen", place, "--rdzv-store", etcd.store, "--tls-key", key)
        daemons.append(shell.start(*words, program=DAEMON))
        daemons[-1].expect("leads, in epoch" if len(daemons) == 1 else "waits for the lead: ", stream="err")
    fingerprints = {daemon.expect(r"its fingerprint is (\S+)")[0] for daemon in daemons}
    assert len(fingerprints) == 1
    words = ["--nnodes", "2", "--rdzv-endpoint", ",".join(places), "--secret-file", site.folder / "alice"]
    script = STEPS.replace("{go}", str(site.folder / "go"))
    env = {"XDG_CONFIG_HOME": str(site.folder / "config")}
    typed = [*words, "--rdzv-fingerprint", *fingerprints, *sh(script)]
    both = [shells[i].start(*typed, env=env) for i in range(2)]
    for job in both:
        job.expect("step 5 ")
    daemons[0].signal(signal.SIGKILL)
    daemons[1].expect("the nodes of round .* are back", stream="err")
    (site.folder / "go").touch()
    undisturbed(both)
    assert not site.known.exists()


def test_a_key_that_is_none_or_not_private_is_refused(site):
    key = site.folder / "tls-key"
    words = ("--config", site.folder / "site.yaml", "--tls-key", key)
    for text, mode, why in (("ab\n", 0o600, "want 64 hex digits, got 2 of them"), ("a" * 64, 0o644, f"chmod 600 {key}")):
        key.write_text(text)
        key.chmod(mode)
        result = site.shells[0].run(*words, program=DAEMON)
        assert result.code == 1 and f"--tls-key: {key}" in result.errors and why in result.errors, result
