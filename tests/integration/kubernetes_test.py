"""Pods of an Indexed Job: what deploy/kubernetes says, run on emulated hosts as kubelet would: launch is PID 1, each pod
knows its index and its own name, and the name of the first may come later than the pod."""

import contextlib
import os
import signal
import subprocess

import pytest
import yaml

from harness import LAUNCH, PATIENCE, ROOT, sh, wait_for

SAYS = "echo rank $RANK of $WORLD_SIZE on node $GROUP_RANK, start $TORCHELASTIC_RESTART_COUNT"


@pytest.fixture(scope="module")
def manifest():
    built = subprocess.run(["kubectl", "kustomize", ROOT / "deploy/kubernetes"], check=True, capture_output=True, text=True).stdout
    return {part["kind"]: part for part in yaml.safe_load_all(built)}


def template(manifest):
    return manifest["Job"]["spec"]["template"]["spec"]


class Pods:
    """Two pods on two hosts; `args` are those of the manifest."""

    def __init__(self, shells, folder, args):
        self.shells, self.folder, self.args = shells, folder, args
        secret = folder / "secret"
        secret.write_text("0123456789abcdef0123456789abcdef\n")
        secret.chmod(0o400)
        self.names(0, 1)

    def names(self, *known):
        """What the cluster's name service knows now."""
        for own in range(2):
            lines = [f"10.77.0.{i + 1} train-{i}.train.default.svc.cluster.local" for i in known if i != own]
            own_line = f"10.77.0.{own + 1} train-{own}.train.default.svc.cluster.local train-{own}"
            (self.folder / f"hosts{own}").write_text("\n".join([own_line, *lines, ""]))

    def start(self, index, script, *more):
        words = [*self.args[:-1], *more, *sh(script)]
        words = [word.replace("/run/secrets/muster", str(self.folder)) for word in words]
        bind = f'mount --bind {self.folder}/hosts{index} /etc/hosts; exec "$@"'
        enter = ["-m", "-p", "-f", "--mount-proc", "--kill-child", "bash", "-c", bind, "pod", LAUNCH]
        env = {"JOB_COMPLETION_INDEX": str(index), "HOSTNAME": f"train-{index}"}
        return self.shells[index].start(*enter, *words, program="unshare", env=env)

    def launch(self, index):
        """The pod's PID 1."""
        pids = lambda: [pid for pid, line in self.shells[index].ours().items() if line.startswith(str(LAUNCH))]
        return wait_for(pids, PATIENCE, what="launch runs")[0]


@pytest.fixture
def pods(shells, scratch, manifest):
    return Pods(shells, scratch, template(manifest)["containers"][0]["args"])


def test_the_fields_that_launch_relies_on(manifest):
    job, service, pod = manifest["Job"]["spec"], manifest["Service"], template(manifest)
    assert job["completionMode"] == "Indexed"
    assert service["metadata"]["name"] == pod["subdomain"]
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"job-name": manifest["Job"]["metadata"]["name"]}
    container = pod["containers"][0]
    said = dict(zip(container["args"], container["args"][1:]))
    assert int(said["--nnodes"]) == job["completions"] == job["parallelism"]
    assert int(said["--grace"]) < pod["terminationGracePeriodSeconds"]
    assert pod["restartPolicy"] == "OnFailure" and job["backoffLimit"] > 0
    assert "command" not in container  # the image's entry point is launch
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert said["--secret-file"].startswith(mounts["secret"] + "/")
    assert volumes["secret"]["secret"]["defaultMode"] == 0o400
    assert mounts["shm"] == "/dev/shm" and volumes["shm"]["emptyDir"] == {"medium": "Memory"}


def test_the_manifest_s_words_run_a_job_whichever_pod_comes_first(pods):
    pods.names(1)
    second = pods.start(1, SAYS)
    second.expect("no master answers at train-0.train.default", stream="err")
    pods.names(0, 1)
    results = [pods.start(0, SAYS).finish(), second.finish()]
    for node, result in enumerate(results):
        assert result.code == 0, results
        for rank in (2 * node, 2 * node + 1):  # auto: one for each of its two CPUs
            assert f"rank {rank} of 4 on node {node}, start 0" in result.text, results


def test_a_pod_that_dies_is_started_again_and_joins_anew(pods):
    script = SAYS + '; [ "$TORCHELASTIC_RESTART_COUNT" != 0 ] || sleep 1000'
    first, second = pods.start(0, script), pods.start(1, script)
    first.expect("start 0", 2)
    second.expect("start 0", 2)
    second.signal(signal.SIGKILL)
    second.finish()
    results = [pods.start(1, script).finish(), first.finish()]
    assert [result.code for result in results] == [0, 0], results
    assert "rank 2 of 4 on node 1, start 1" in results[0].text, results


def test_where_the_first_pod_dies_all_come_again(pods):
    script = SAYS + f"; [ -e {pods.folder}/again ] || sleep 1000"
    first, second = pods.start(0, script), pods.start(1, script)
    second.expect("start 0", 2)
    first.signal(signal.SIGKILL)
    first.finish()
    assert second.finish().code != 0  # so kubelet starts it again
    (pods.folder / "again").touch()
    results = [pods.start(1, script), pods.start(0, script)]
    results = [job.finish() for job in results]
    assert [result.code for result in results] == [0, 0], results


def test_a_job_that_is_deleted_has_time_to_save(pods):
    script = "trap 'sleep 1; echo saved; exit 0' TERM; echo runs; while :; do sleep 0.1; done"
    jobs = [pods.start(0, script), pods.start(1, script)]
    for job in jobs:
        job.expect("runs", 2)
    for pid in [pods.launch(index) for index in range(2)]:
        with contextlib.suppress(ProcessLookupError):  # the first one ends the job
            os.kill(pid, signal.SIGTERM)
    results = [job.finish() for job in jobs]
    assert [result.text.count("saved") for result in results] == [2, 2], results
    assert "launch was sent SIGTERM in Job train; Kubernetes sends it at the deletion of a pod, its eviction and the deadline" in results[0].errors, results


def test_the_end_of_one_pod_is_that_of_the_job(pods):
    """By what the pod of index 0 says, which serves: not by the user."""
    jobs = [pods.start(index, "echo runs; exec sleep 1000") for index in range(2)]
    for job in jobs:
        job.expect("runs", 2)
    os.kill(pods.launch(1), signal.SIGTERM)
    results = [job.finish() for job in jobs]
    for result in results:
        assert result.code == 143 and "launch was sent SIGTERM in Job train; Kubernetes sends it" in result.errors, results


def test_without_names_the_way_out_is_said(pods):
    (pods.folder / "hosts0").write_text("10.77.0.1 train-0\n")
    result = pods.start(0, "true").finish()
    assert result.code == 2 and "headless Service" in result.errors, result
