"""--nproc-per-node gpu on hosts without any: the list of NVIDIA's driver is files of ours there. With GPUs: gpu_jobs.py."""

import pytest

from harness import LAUNCH, sh

TELL = sh('echo "$(hostname) rank $RANK local $LOCAL_RANK of $LOCAL_WORLD_SIZE sees ${CUDA_VISIBLE_DEVICES-all}"')
GPU = ("--nproc-per-node", "gpu", "--no-prefix")


@pytest.fixture
def gpus():
    """gpus(host, count): /proc/driver lists so many on that host, to whatever runs there."""
    seen = []

    def put(host, count):
        host.check(["mount", "-t", "tmpfs", "tmpfs", "/proc/driver"])
        seen.append(host)
        for gpu in range(count):
            listed = f"/proc/driver/nvidia/gpus/0000:{gpu + 1:02x}:00.0"
            host.check(["sh", "-c", f"mkdir -p {listed} && printf 'Model: \\t NVIDIA H100\\nGPU UUID: \\t GPU-{gpu}f\\n' > {listed}/information"])

    yield put
    for host in seen:
        host.check(["umount", "/proc/driver"])


@pytest.mark.parametrize("mode, shown", [("all", "all all all"), ("one", "0 1 2"), ("uuid", "GPU-0f GPU-1f GPU-2f")])
def test_a_worker_for_each_gpu(node0, gpus, mode, shown):
    gpus(node0.host, 3)
    result = node0.run(*GPU, "--gpu-mode", mode, *TELL)
    want = [f"node0 rank {rank} local {rank} of 3 sees {own}" for rank, own in enumerate(shown.split())]
    assert result.code == 0 and sorted(result.text.splitlines()) == want, result


def test_each_host_has_as_many_workers_as_gpus(shells, gpus):
    gpus(shells[0].host, 1)
    gpus(shells[1].host, 2)
    result = shells[0].run("--hosts", "node0,node1", *GPU, *TELL)
    want = ["node0 rank 0 local 0 of 1 sees all", "node1 rank 1 local 0 of 2 sees all", "node1 rank 2 local 1 of 2 sees all"]
    assert result.code == 0 and sorted(result.text.splitlines()) == want, result


def test_those_that_cuda_will_show_count(node0, gpus):
    gpus(node0.host, 4)
    result = node0.run(*GPU, *TELL, env={"CUDA_VISIBLE_DEVICES": "3,1"})
    want = [f"node0 rank {rank} local {rank} of 2 sees 3,1" for rank in range(2)]
    assert result.code == 0 and sorted(result.text.splitlines()) == want, result


def test_those_whose_devices_a_container_has_count(node0, gpus, scratch):
    gpus(node0.host, 4)
    for name in ("nvidiactl", "nvidia-uvm", "nvidia1", "nvidia3"):
        (scratch / name).touch()
    inside = f'mount -t overlay -o ro,lowerdir={scratch}:/dev overlay /dev && mount -t tmpfs tmpfs /dev/shm && exec "$@"'
    result = node0.run("-m", "sh", "-c", inside, "-", LAUNCH, *GPU, *TELL, program="unshare")
    want = [f"node0 rank {rank} local {rank} of 2 sees all" for rank in range(2)]
    assert result.code == 0 and sorted(result.text.splitlines()) == want, result


def test_auto_and_torchruns_word_follow_them(node0, gpus, scratch):
    gpus(node0.host, 3)
    torchrun = scratch / "torchrun"
    torchrun.symlink_to(LAUNCH)
    want = [f"node0 rank {rank} local {rank} of 3 sees all" for rank in range(3)]
    auto = node0.run("--nproc-per-node", "auto", "--no-prefix", *TELL)
    torchruns = node0.run("--nproc_per_node=gpu", "--no_python", *TELL, program=torchrun)
    for result in (auto, torchruns):
        assert result.code == 0 and sorted(result.text.splitlines()) == want, result


NONE = "--nproc-per-node gpu: {} has no GPU that workers may see; use cpu, auto or a number"


def test_a_host_without_any_is_named(shells, gpus):
    alone = shells[0].run(*GPU, *TELL)
    assert alone.code == 2 and alone.out == b"" and NONE.format("node0") in alone.errors, alone
    gpus(shells[0].host, 2)
    other = shells[0].run("--hosts", "node0,node1", *GPU, *TELL)
    assert other.code != 0 and other.out == b"" and NONE.format("node1") in other.errors, other
    hidden = shells[0].run(*GPU, *TELL, env={"CUDA_VISIBLE_DEVICES": ""})
    assert hidden.code == 2 and hidden.out == b"" and NONE.format("node0") in hidden.errors, hidden
